"""Drift that is undone again and again: counted where it is undone, and told by an agent to its principal.

Only a principal that announced it is told: argocd-agent has no message for it.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import re2

from argocd.reading import value
from sidecars.mirroring.drift import UndoneChange
from sidecars.wire import payloads
from sidecars.wire.errors import MalformedError

TYPE = "dev.tiphys.event.drift-undone"
TARGET = "tiphysDrift"

# A mirror that is changed now and then is somebody's slip of the hand; so often is a controller, or a habit.
AGAIN, WITHIN = 3, timedelta(minutes=10)

FIELDS = 5
"""Of one object: enough to recognise who writes it."""
DEPTH = 8
"""Of a path: `spec.source.helm.parameters[0].value` has six steps."""
LONGEST_FIELD = 160
LARGEST_REPORT = 4096
"""Bytes: two names of 253, and the fields."""
_KEY = re2.compile(r"[-A-Za-z0-9_/]{1,63}")
_FIELD = re2.compile(r"(spec|data)([.\[][-A-Za-z0-9_/\[\].]*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedDrift:
    """Each time within ten minutes of the one before."""

    times: int
    since: datetime
    last: datetime


class DriftCounts:
    """By object, of at most `limit`: those that have been quiet for longest give way."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._counts: dict[Hashable, RepeatedDrift] = {}

    def undone(self, key: Hashable, *, now: datetime) -> RepeatedDrift | None:
        """None before the third time."""
        before = self._counts.pop(key, None)
        if before is None or now - before.last > WITHIN:
            before = RepeatedDrift(times=0, since=now, last=now)
        counted = RepeatedDrift(times=before.times + 1, since=before.since, last=now)
        self._counts[key] = counted
        if len(self._counts) > self._limit:
            del self._counts[next(iter(self._counts))]
        return counted if counted.times >= AGAIN else None


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftReport:
    """Of one copy: how often, and at which fields. Never what stood there.

    `namespace` is the one by which the principal knows it; `seconds` passed from the first time to the last.
    """

    target: str = ""
    namespace: str = ""
    name: str = ""
    times: int = 0
    seconds: int = 0
    deleted: bool = False
    fields: list[str] = field(default_factory=list)


def changed_fields(change: UndoneChange) -> list[str]:
    """Paths at which a mirror was not as expected; the first few in the order of their names."""
    content = change.kind.content
    found: list[str] = []
    for path in _paths(value(change.expected, content), value(change.mirror, content), content, DEPTH):
        found.append(path)
        if len(found) == FIELDS:
            break
    return found


def read_report(payload: bytes) -> DriftReport:
    """Raises MalformedError; of its fields remains what is a path at all."""
    if len(payload) > LARGEST_REPORT:
        raise MalformedError(f"{len(payload)} bytes are no report on drift")
    report = payloads.read(DriftReport, payload)
    paths = [each for each in report.fields[:FIELDS] if len(each) <= LONGEST_FIELD and _FIELD.fullmatch(each)]
    return replace(report, fields=paths)


def _paths(expected: Any, found: Any, path: str, depth: int) -> Iterator[str]:
    if expected == found:
        return
    steps = _steps(expected, found) if depth > 0 else None
    if steps is None or any(len(path) + len(step) > LONGEST_FIELD for step, _, _ in steps):
        yield path
        return
    for step, one, other in steps:
        yield from _paths(one, other, path + step, depth - 1)


def _steps(expected: Any, found: Any) -> list[tuple[str, Any, Any]] | None:
    """None where the two are not alike enough to say more, or by words that might be somebody's content."""
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = enumerate(zip(expected, found, strict=True))
        return [(f"[{index}]", one, other) for index, (one, other) in pairs if one != other]
    if not isinstance(expected, dict) or not isinstance(found, dict):
        return None
    keys = [key for key in sorted({*expected, *found}) if expected.get(key) != found.get(key)]
    if not all(_KEY.fullmatch(key) for key in keys):
        return None
    return [(f".{key}", expected.get(key), found.get(key)) for key in keys]
