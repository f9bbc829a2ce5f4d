"""What does not get through: which object, why, and what to do about it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

import re2

from sidecars.delivery.outcomes import DeadLetter, DeadLetterReason
from tiphys.redaction import redacted_text

PER_AGENT = 64
"""One agent's trouble must not push out that of the others; more than this is one cause, not as many."""
STUCK = 2048
LONGEST_REASON = 400
# A mirror that is changed now and then is somebody's slip of the hand; so often is a controller, or a habit.
DRIFTS, DRIFT_WITHIN = 3, timedelta(minutes=10)

# API servers quote what they refuse. Who may read this page may not read every object.
_QUOTED = re2.compile(r'(value:) ?("(?:[^"\\]|\\.)*"|\{.*?\}|\[.*?\]|[^\s:,]+)')


class StuckReason(StrEnum):
    """As the page's filter and its rows call it."""

    CONFLICT = "conflict"
    REFUSED_HERE = "refused here"
    REFUSED_THERE = "refused by the agent"
    TOO_LARGE = "too large"
    GIVEN_UP = "given up"
    CRASHED = "crashed"
    DRIFT = "drift"


ADVICE = {
    StuckReason.CONFLICT: "Two objects want one name. Rename one of them, or delete this one if the agent's shall take"
    " its place.",
    StuckReason.REFUSED_HERE: "The hub's API server does not take it. Correct it on the agent's cluster, or grant what"
    " is missing here; it is told again with its next change, and by the next comparison.",
    StuckReason.REFUSED_THERE: "The agent cannot write it. Correct it here, or grant on the agent's cluster what is"
    " missing; it is sent again with its next change, and by the next comparison.",
    StuckReason.TOO_LARGE: "No message may hold it. Make it smaller, or raise --grpc-max-message-size on both ends.",
    StuckReason.GIVEN_UP: "The API server was away or busy for too long. When it is well again the next comparison"
    " repairs this by itself.",
    StuckReason.CRASHED: "That is a mistake of Tiphys: please report it, with the log line 'dead letter' about it.",
    StuckReason.DRIFT: "Somebody keeps changing what another cluster owns. `kubectl get -o yaml --show-managed-fields`"
    " names the writer: stop it, or change the object at its source.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckObject:
    agent: str
    kind: str
    place: str
    """namespace/name, or what there is of it."""
    reason: StuckReason
    words: str
    since: datetime
    times: int = 1

    @property
    def advice(self) -> str:
        return ADVICE[self.reason]


_Key = tuple[str, str, str]


class StuckObjects:
    """By agent, kind and place. Where there is no room, an agent's oldest gives way to its newest, never another's."""

    def __init__(self) -> None:
        self._agents: dict[str, dict[_Key, StuckObject]] = {}
        self._drifts: dict[_Key, tuple[int, datetime]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[StuckObject]:
        return iter([each for stuck in self._agents.values() for each in stuck.values()])

    def of(self, agent: str) -> list[StuckObject]:
        return list(self._agents.get(agent, {}).values())

    def count(self, agent: str) -> int:
        return len(self._agents.get(agent, ()))

    def note(self, found: StuckObject) -> bool:
        """Whether it is news."""
        key = found.agent, found.kind, found.place
        stuck = self._agents.setdefault(found.agent, {})
        known = stuck.get(key)
        if known is not None:
            stuck[key] = replace(found, since=known.since, times=known.times + 1)
            return known.words != found.words or known.reason is not found.reason
        if stuck and (len(stuck) >= PER_AGENT or self._count >= STUCK):
            self._drop(found.agent, next(iter(stuck)))
            stuck = self._agents.setdefault(found.agent, {})
        elif self._count >= STUCK:
            del self._agents[found.agent]
            return False
        stuck[key] = found
        self._count += 1
        return True

    def resolve(self, agent: str, kind: str, place: str, *, before: datetime | None = None) -> bool:
        """It got through, or is gone; with `before` only what was known by then. Whether there was anything."""
        found = self._agents.get(agent, {}).get((agent, kind, place))
        if found is None or (before is not None and found.since > before):
            return False
        self._drop(agent, (agent, kind, place))
        return True

    def forget(self, agent: str) -> None:
        self._count -= len(self._agents.pop(agent, ()))
        for key in [key for key in self._drifts if key[0] == agent]:
            del self._drifts[key]

    def drifted(self, agent: str, kind: str, place: str, *, now: datetime) -> bool:
        """A mirror was written back. Whether that is news for the page: the third time within ten minutes is."""
        key = agent, kind, place
        times, since = self._drifts.pop(key, (0, now))
        if now - since > DRIFT_WITHIN:
            times, since = 0, now
        self._drifts[key] = times + 1, since
        if len(self._drifts) > STUCK:
            del self._drifts[next(iter(self._drifts))]
        if times + 1 < DRIFTS:
            return False
        words = f"It was changed here and written back {times + 1} times since {since:%H:%M} UTC."
        self.note(
            StuckObject(
                agent=agent, kind=kind, place=place, reason=StuckReason.DRIFT, words=words, since=since
            )
        )
        return True

    def calm(self, *, now: datetime) -> set[str]:
        """Drops drift that has ended, when somebody looks; whose that was."""
        over = [key for key, (_, since) in self._drifts.items() if now - since > DRIFT_WITHIN]
        agents: set[str] = set()
        for key in over:
            del self._drifts[key]
            found = self._agents.get(key[0], {}).get(key)
            if found is not None and found.reason is StuckReason.DRIFT:
                self._drop(key[0], key)
                agents.add(key[0])
        return agents

    def _drop(self, agent: str, key: _Key) -> None:
        stuck = self._agents[agent]
        del stuck[key]
        self._count -= 1
        if not stuck:
            del self._agents[agent]


def reason_of(letter: DeadLetter) -> StuckReason:
    match letter.reason:
        case DeadLetterReason.UNSENDABLE:
            return StuckReason.TOO_LARGE
        case DeadLetterReason.EXHAUSTED:
            return StuckReason.GIVEN_UP
        case DeadLetterReason.CRASHED:
            return StuckReason.CRASHED
    return StuckReason.CONFLICT if _is_conflict(letter.message) else StuckReason.REFUSED_HERE


def reason_of_condition(message: str, *, agent: str) -> StuckReason:
    """Of an AgentError: what we wrote names the agent first, the rest is the agent's own word."""
    if message.startswith("not sent to agent "):
        return StuckReason.TOO_LARGE
    if message.startswith(f"agent {agent}: "):
        return StuckReason.CONFLICT if _is_conflict(message) else StuckReason.REFUSED_HERE
    return StuckReason.REFUSED_THERE


def _is_conflict(message: str) -> bool:
    return "is not a mirror of agent" in message or "rename one of the two" in message


def in_words(message: str) -> str:
    """Without secrets and without the values that an API server quotes."""
    text: str = re2.sub(_QUOTED, r"\1 (not shown)", redacted_text(message[: 4 * LONGEST_REASON]))
    return text if len(text) <= LONGEST_REASON else f"{text[: LONGEST_REASON - 1]}…"
