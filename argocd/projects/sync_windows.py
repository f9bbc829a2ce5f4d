"""Sync windows: what Argo CD's API server checks, and which two are the same."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from argocd import reading
from argocd.go import cron, durations, runes
from argocd.judging.configuration import Version

Window = Mapping[str, Any]

IDENTITY_SINCE: Version = (3, 2)
"""Before it two windows were the same if they had kind, schedule and duration in common."""
LONGEST_DESCRIPTION = 255
"""Bytes, though the message says characters."""

TARGETS = ("applications", "namespaces", "clusters")


def field_problems(kind: str, schedule: str, duration: str, description: str) -> list[tuple[str, str]]:
    """Each field that is wrong and what Argo CD says of it, in the order in which it looks."""
    problems = []
    if kind not in {"allow", "deny"}:
        problems.append(("kind", f"kind '{kind}' mismatch: can only be allow or deny"))
    read = cron.read(schedule)
    if not isinstance(read, cron.Schedule):
        reason = f"Argo CD panics on {read}" if isinstance(read, cron.SchedulePanicError) else read
        problems.append(("schedule", f"cannot parse schedule '{schedule}': {reason}"))
    if problem := durations.problem(duration):
        problems.append(("duration", f"cannot parse duration '{duration}': {problem}"))
    if description and len(runes.encode(description)) > LONGEST_DESCRIPTION:
        problems.append(("description", "description must not exceed 255 characters"))
    return problems


def panics(schedule: str) -> bool:
    return isinstance(cron.read(schedule), cron.SchedulePanicError)


def target_problem(kind: str, schedule: str, duration: str) -> str:
    return f"window '{kind}':'{schedule}':'{duration}' requires one of application, cluster or namespace"


def problems(window: Window) -> list[str]:
    """Everything that is wrong with one window by itself, in the order in which Argo CD looks."""
    fields = (reading.text(window, key) for key in ("kind", "schedule", "duration", "description"))
    return [problem for _, problem in field_problems(*fields)]


def identity_of(
    fields: Sequence[str], targets: Iterable[Iterable[str]], and_operator: Any, *, version: Version
) -> tuple[Any, ...]:
    """What two windows of a project must not have in common; the order of a list counts.

    `fields` begin with kind, schedule and duration and end with the time zone.
    """
    if version < IDENTITY_SINCE:
        return tuple(fields[:3])
    return (*fields[:3], *map(tuple, targets), fields[-1], and_operator is True)


def identity(window: Window, *, version: Version) -> tuple[Any, ...]:
    fields = [reading.text(window, key) for key in ("kind", "schedule", "duration", "timeZone")]
    targets = [_texts(window, key) for key in TARGETS]
    return identity_of(fields, targets, reading.value(window, "andOperator"), version=version)


def _texts(window: Window, key: str) -> list[str]:
    return [item if isinstance(item, str) else "" for item in reading.sequence(window, key)]
