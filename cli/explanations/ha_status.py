"""A pair of principals, told to people."""

from collections.abc import Iterator
from typing import Any

from argocd.reading import mapping, sequence, text, value
from cli.output import ListColumns, ListRow
from sidecars.replication.kinds import BY_NAME
from sidecars.replication.states import HaState
from tiphys.printable import visible

_ALIGNED = 14
_NAMED = 10
HELD_COLUMNS = ListColumns(("AGENT", "KIND", "NAMESPACE", "NAME"))


def status_lines(told: dict[str, Any]) -> list[str]:
    return [visible(line) for line in _lines(told)]


def held_rows(told: dict[str, Any]) -> list[ListRow]:
    """Objects of agents that a promoted principal does not know."""
    rows = []
    for held in sequence(told, "held"):
        agent, kind, namespace, name = (
            visible(text(held, key)) for key in ("agent", "kind", "namespace", "name")
        )
        rows.append(ListRow(f"{kind.lower()}/{namespace}/{name}", (agent, kind, namespace, name)))
    return rows


def not_in_step(told: dict[str, Any]) -> str:
    """Why this side and its peer are not in step; empty where they are."""
    state = text(told, "state")
    if state not in {HaState.ACTIVE, HaState.REPLICATING}:
        missing = "".join(f": {words}" for words in _first_sync(mapping(told, "replication")))
        return f"this principal is {state}{missing}"
    if value(told, "fenced") is not True:
        return f"this cluster is not fenced: {text(told, 'fence_problem')}"
    if state == HaState.ACTIVE:
        return _not_followed(told)
    # argocd-agent's primary has nothing to compare with.
    compared = value(told, "peer", "argocd_agent") is not True
    return _unequal(mapping(told, "replication")) if compared else ""


def first_sync(told: dict[str, Any]) -> tuple[int, int | None]:
    """How many objects of a first sync are written, and of how many; None: nobody knows."""
    progress = mapping(told, "replication")
    missing, expected = value(progress, "missing"), value(progress, "expected")
    if not isinstance(missing, int) or not isinstance(expected, int) or not 0 <= missing <= expected:
        return 0, None
    return expected - missing, expected or None


def _not_followed(told: Any) -> str:
    replicas = sequence(told, "replicas")
    if not replicas and not value(told, "argocd_agent_replicas"):
        return "nobody follows this principal"
    return next((f"{text(each, 'identity')}: {words}" for each in replicas if (words := _unequal(each))), "")


def _unequal(side: Any) -> str:
    equal = mapping(side, "digests_equal")
    differing = [kind for kind in BY_NAME if equal.get(kind) is not True]
    return f"{', '.join(differing)} differ, or were not compared yet" if differing else ""


def _first_sync(progress: Any) -> Iterator[str]:
    """Where it is not complete."""
    if value(progress, "synced_once"):
        return
    missing, expected = value(progress, "missing"), value(progress, "expected")
    if not isinstance(missing, int) or missing < 0:
        yield "it never followed"
    else:
        yield f"the first sync is not complete: {missing}{f' of {expected}' if expected else ''} missing"


def _lines(told: dict[str, Any]) -> Iterator[str]:
    detail = text(told, "detail")
    yield _line("state", f"{text(told, 'state')}{f' ({detail})' if detail else ''}")
    if reason := text(told, "reason"):
        yield _line("", reason)
    yield _line("epoch", f"{value(told, 'epoch')} (highest seen {value(told, 'highest_epoch')})")
    yield _line("pair", f"{text(told, 'pair') or '-'}, this principal {text(told, 'principal')}")
    fence = text(told, "fence_problem")
    yield _line("fence", "stands" if value(told, "fenced") is True else f"NOT FENCED: {fence}")
    yield from _agents("agents", told)
    yield from _peer(mapping(told, "peer"))
    for replica in sequence(told, "replicas"):
        yield from _replica(replica)
    if value(told, "replication") is not None:
        yield from _following(mapping(told, "replication"))
    if count := value(told, "held_count"):
        yield _line(
            "held", f"{count} objects that only agents know: `tiphys ha status --held`, `tiphys ha release`"
        )
    elif value(told, "held") is not None:
        yield _line("held", "nothing")
    for held in sequence(told, "held"):
        yield _line("", f"{text(held, 'agent')}: {_object(held)}")
    for entry in sequence(told, "audit")[-3:]:
        why, times = text(entry, "why"), value(entry, "times") or 1
        what = f"{text(entry, 'what')}, {times} times" if times > 1 else text(entry, "what")
        yield _line("audit", f"{text(entry, 'when')} {text(entry, 'who')}: {what} ({why})")


def _peer(peer: Any) -> Iterator[str]:
    address = text(peer, "address")
    if not address:
        yield _line("peer", "none configured")
    elif value(peer, "reachable") is not True:
        yield _line("peer", f"{address} NOT KNOWN: {text(peer, 'problem')}")
    else:
        state = text(peer, "state") or "argocd-agent's, state not told"
        yield _line("peer", f"{address} {state}, epoch {value(peer, 'epoch')}")
    if value(peer, "report") is not None:
        yield from _reported(mapping(peer, "report"), value(peer, "reported_seconds"))
    for words in sequence(peer, "differences"):
        yield _line("", f"DIFFERS: {words}")


def _reported(told: Any, age: Any) -> Iterator[str]:
    detail = text(told, "detail")
    when = f", told {age:.0f} s ago" if isinstance(age, int | float) else ""
    lag = f"{value(told, 'lag_events')} events behind"
    yield _line("", f"{f'{detail}, ' if detail else ''}at {value(told, 'sequence')}, {lag}{when}")
    if value(told, "connected_agents"):
        yield from _agents("its agents", told)


def _agents(key: str, told: Any) -> Iterator[str]:
    count = value(told, "connected_agents")
    yield _line(key, f"{count} connected")
    for agent in sequence(told, "agents")[:_NAMED]:
        yield _line("", f"{text(agent, 'name')} ({text(agent, 'mode')}) since {text(agent, 'since')}")
    if isinstance(count, int) and count > _NAMED:
        yield _line("", f"and {count - _NAMED} more: -o json")


def _replica(replica: Any) -> Iterator[str]:
    lag = f"{value(replica, 'lag_events')} events, {value(replica, 'lag_seconds'):.1f} s behind"
    yield _line("replica", f"{text(replica, 'identity')} at {value(replica, 'acknowledged')}, {lag}")
    yield from _digests(mapping(replica, "digests_equal"), value(replica, "compared_seconds"))


def _following(progress: Any) -> Iterator[str]:
    applied, seen = value(progress, "applied"), value(progress, "seen")
    yield _line("applied", f"{applied} of {seen} in history {text(progress, 'history') or '-'}")
    for words in _first_sync(progress):
        yield _line("", words)
    yield from _digests(mapping(progress, "digests_equal"), value(progress, "compared_seconds"))
    for kind, count in mapping(progress, "held_deletions").items():
        yield _line("", f"{count} deletions of {kind} wait for `tiphys ha accept-deletions {kind}`")
    letters = [
        f"{_object(letter)}: {text(letter, 'reason')}" for letter in sequence(progress, "dead_letters")
    ]
    yield from _named("dead letter", letters, count=value(progress, "dead_letter_count"))
    surplus = [f"{text(each, 'what')} {_object(each)}" for each in sequence(progress, "surplus")]
    yield from _named("surplus", surplus, count=value(progress, "surplus_count"))


def _object(item: Any) -> str:
    return f"{text(item, 'kind')} {text(item, 'namespace')}/{text(item, 'name')}"


def _named(key: str, lines: list[str], *, count: Any) -> Iterator[str]:
    """The first of them; `--output json` has more."""
    for line in lines[:_NAMED]:
        yield _line(key, line)
    if isinstance(count, int) and count > _NAMED:
        yield _line(key, f"and {count - _NAMED} more: -o json")


def _digests(equal: Any, age: Any) -> Iterator[str]:
    if equal:
        differing = [kind for kind, same in equal.items() if not same]
        words = f"DIFFERENT in {', '.join(differing)}" if differing else f"equal in {len(equal)} kinds"
        when = f", compared {age:.0f} s ago" if isinstance(age, int | float) else ""
        yield _line("digests", words + when)


def _line(key: str, words: str) -> str:
    return f"{key:{_ALIGNED}}{words}"
