"""What does not get through: which object, why, and what to do about it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from itertools import takewhile

import re2

from sidecars.delivery.outcomes import DeadLetter, DeadLetterReason
from sidecars.mirroring.drift import UndoneChange
from sidecars.mirroring.repeated_drift import WITHIN, DriftCounts, RepeatedDrift, changed_fields
from tiphys.redaction import redacted_text

PER_AGENT = 64
"""One agent's trouble must not push out that of the others; more than this is one cause, not as many."""
STUCK = 2048
LONGEST_REASON = 400

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
    DRIFT_THERE = "drift at the agent"


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
    StuckReason.DRIFT: "Somebody here keeps changing what the agent's cluster owns. `kubectl get -o yaml"
    " --show-managed-fields` names the writer: stop it, or change the object on the agent's cluster.",
    StuckReason.DRIFT_THERE: "Somebody on the agent's cluster keeps changing what the hub owns. There, `kubectl get -o"
    " yaml --show-managed-fields` names the writer: stop it, or change the object here.",
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

    @property
    def is_drift(self) -> bool:
        return self.reason in {StuckReason.DRIFT, StuckReason.DRIFT_THERE}

    @property
    def key(self) -> "_Key":
        """Drift is apart: what got through may still be changed afterwards."""
        return self.agent, self.kind, self.place, self.is_drift


_Key = tuple[str, str, str, bool]


class StuckObjects:
    """By agent, kind and place. Where there is no room, an agent's oldest gives way to its newest, never another's."""

    def __init__(self) -> None:
        self._agents: dict[str, dict[_Key, StuckObject]] = {}
        self._counts = DriftCounts(STUCK)
        self._drifts: dict[_Key, datetime] = {}
        """When each was undone last, in that order."""
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
        key = found.key
        stuck = self._agents.setdefault(found.agent, {})
        known = stuck.get(key)
        if known is not None:
            stuck[key] = found if found.is_drift else replace(found, since=known.since, times=known.times + 1)
            return known.words != found.words or known.reason is not found.reason
        if stuck and (len(stuck) >= PER_AGENT or self._count >= STUCK):
            self._drop(next(iter(stuck)))
            stuck = self._agents.setdefault(found.agent, {})
        elif self._count >= STUCK:
            del self._agents[found.agent]
            return False
        stuck[key] = found
        self._count += 1
        return True

    def resolve(self, agent: str, kind: str, place: str, *, before: datetime | None = None) -> bool:
        """It got through; with `before` only what was known by then. Whether there was anything."""
        found = self._agents.get(agent, {}).get((agent, kind, place, False))
        if found is None or (before is not None and found.since > before):
            return False
        self._drop(found.key)
        return True

    def withdrawn(self, agent: str, kind: str, place: str) -> bool:
        """The object is gone, and nobody changes it any more. Whether there was anything."""
        key = agent, kind, place, True
        if key in self._drifts:
            self._drop(key)
            return True
        return False

    def forget(self, agent: str) -> None:
        for key in list(self._agents.get(agent, ())):
            self._drop(key)

    def drifted_here(self, agent: str, change: UndoneChange, *, place: str, now: datetime) -> bool:
        """A mirror was written back. Whether that is news for the page."""
        kind = change.kind.resource.kind
        drift = self._counts.undone((agent, kind, place), now=now)
        if drift is None:
            return False
        fields = changed_fields(change) if change.expected is not None else []
        done = "changed" if change.expected is not None else "deleted"
        self.note_drift(
            StuckObject(
                agent=agent,
                kind=kind,
                place=place,
                reason=StuckReason.DRIFT,
                words=drift_in_words(f"{done} here", drift, fields=fields),
                since=drift.since,
            ),
            last=now,
        )
        return True

    def note_drift(self, found: StuckObject, *, last: datetime) -> None:
        self.note(found)
        if found.key in self._agents.get(found.agent, ()):
            self._drifts.pop(found.key, None)
            self._drifts[found.key] = last

    def calm(self, *, now: datetime) -> set[str]:
        """Drops drift that has ended, when somebody looks; whose that was."""
        over = list(takewhile(lambda key: now - self._drifts[key] > WITHIN, self._drifts))
        for key in over:
            self._drop(key)
        return {key[0] for key in over}

    def _drop(self, key: _Key) -> None:
        agent = key[0]
        stuck = self._agents[agent]
        del stuck[key]
        self._drifts.pop(key, None)
        self._count -= 1
        if not stuck:
            del self._agents[agent]


def drift_in_words(what: str, drift: RepeatedDrift, *, fields: list[str]) -> str:
    """`what` was done, and where."""
    where = f": {', '.join(fields)}" if fields else ""
    return f"It was {what} and put back {drift.times} times, last at {drift.last:%H:%M:%S} UTC{where}."


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
