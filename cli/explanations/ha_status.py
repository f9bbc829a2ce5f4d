"""A pair of principals, told to people."""

from collections.abc import Iterator
from typing import Any

from argocd.reading import mapping, sequence, text, value
from checks.reports import visible

_ALIGNED = 14


def status_lines(told: dict[str, Any]) -> list[str]:
    return [visible(line) for line in _lines(told)]


def _lines(told: dict[str, Any]) -> Iterator[str]:
    detail = text(told, "detail")
    yield _line("state", f"{text(told, 'state')}{f' ({detail})' if detail else ''}")
    if reason := text(told, "reason"):
        yield _line("", reason)
    yield _line("epoch", f"{value(told, 'epoch')} (highest seen {value(told, 'highest_epoch')})")
    yield _line("pair", f"{text(told, 'pair') or '-'}, this principal {text(told, 'principal')}")
    fence = text(told, "fence_problem")
    yield _line("fence", "stands" if value(told, "fenced") is True else f"NOT FENCED: {fence}")
    yield _line("agents", f"{value(told, 'connected_agents')} connected")
    yield from _peer(mapping(told, "peer"))
    for replica in sequence(told, "replicas"):
        yield from _replica(replica)
    if value(told, "replication") is not None:
        yield from _following(mapping(told, "replication"))
    if count := value(told, "held_count"):
        yield _line(
            "held", f"{count} objects that only agents know: `tiphys ha status --held`, `tiphys ha release`"
        )
    for held in sequence(told, "held"):
        yield _line(
            "", f"{text(held, 'agent')}: {text(held, 'kind')} {text(held, 'namespace')}/{text(held, 'name')}"
        )
    for entry in sequence(told, "audit")[-3:]:
        why = text(entry, "why")
        yield _line("audit", f"{text(entry, 'when')} {text(entry, 'who')}: {text(entry, 'what')} ({why})")


def _peer(peer: Any) -> Iterator[str]:
    address = text(peer, "address")
    if not address:
        yield _line("peer", "none configured")
    elif value(peer, "reachable") is not True:
        yield _line("peer", f"{address} NOT KNOWN: {text(peer, 'problem')}")
    else:
        state = text(peer, "state") or "argocd-agent's, state not told"
        yield _line("peer", f"{address} {state}, epoch {value(peer, 'epoch')}")
    for words in sequence(peer, "differences"):
        yield _line("", f"DIFFERS: {words}")


def _replica(replica: Any) -> Iterator[str]:
    lag = f"{value(replica, 'lag_events')} events, {value(replica, 'lag_seconds'):.1f} s behind"
    yield _line("replica", f"{text(replica, 'identity')} at {value(replica, 'acknowledged')}, {lag}")
    yield from _digests(mapping(replica, "digests_equal"), value(replica, "compared_seconds"))


def _following(progress: Any) -> Iterator[str]:
    applied, seen = value(progress, "applied"), value(progress, "seen")
    yield _line("applied", f"{applied} of {seen} in history {text(progress, 'history') or '-'}")
    if not value(progress, "synced_once"):
        yield _line("", f"the first sync is not complete: {value(progress, 'missing')} missing")
    yield from _digests(mapping(progress, "digests_equal"), value(progress, "compared_seconds"))
    for kind, count in mapping(progress, "held_deletions").items():
        yield _line("", f"{count} deletions of {kind} wait for `tiphys ha accept-deletions {kind}`")
    for letter in sequence(progress, "dead_letters")[:10]:
        yield _line("dead letter", " ".join(str(part) for part in mapping(letter).values()))


def _digests(equal: Any, age: Any) -> Iterator[str]:
    if equal:
        differing = [kind for kind, same in equal.items() if not same]
        words = f"DIFFERENT in {', '.join(differing)}" if differing else f"equal in {len(equal)} kinds"
        when = f", compared {age:.0f} s ago" if isinstance(age, int | float) else ""
        yield _line("digests", words + when)


def _line(key: str, words: str) -> str:
    return f"{key:{_ALIGNED}}{words}"
