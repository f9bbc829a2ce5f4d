"""Sync windows: what Argo CD's API server checks, and which two are the same."""

from collections.abc import Iterable, Sequence
from typing import Any

from argocd.go import cron, durations, runes
from argocd.judging.configuration import Version
from argocd.projects.rule_ids import RefusalId

IDENTITY_SINCE: Version = (3, 2)
"""Before it two windows were the same if they had kind, schedule and duration in common."""
LONGEST_DESCRIPTION = 255
"""Bytes, though the message says characters."""

TARGETS = ("applications", "namespaces", "clusters")


def field_problems(
    kind: str, schedule: str, duration: str, description: str
) -> list[tuple[RefusalId, str, str]]:
    """The rule, each field that is wrong and what Argo CD says of it, in the order in which it looks."""
    problems: list[tuple[RefusalId, str, str]] = []
    if kind not in {"allow", "deny"}:
        problems.append(
            ("project/sync-window-kind", "kind", f"kind '{kind}' mismatch: can only be allow or deny")
        )
    read = cron.read(schedule)
    if not isinstance(read, cron.Schedule):
        reason = f"Argo CD panics on {read}" if isinstance(read, cron.SchedulePanicError) else read
        problems.append(
            ("project/sync-window-schedule", "schedule", f"cannot parse schedule '{schedule}': {reason}")
        )
    if problem := durations.problem(duration):
        problems.append(
            ("project/sync-window-duration", "duration", f"cannot parse duration '{duration}': {problem}")
        )
    if description and len(runes.encode(description)) > LONGEST_DESCRIPTION:
        problems.append(
            ("project/sync-window-description", "description", "description must not exceed 255 characters")
        )
    return problems


def target_problem(kind: str, schedule: str, duration: str) -> str:
    return f"window '{kind}':'{schedule}':'{duration}' requires one of application, cluster or namespace"


def identity_of(
    fields: Sequence[str], targets: Iterable[Iterable[str]], and_operator: Any, *, version: Version
) -> tuple[Any, ...]:
    """What two windows of a project must not have in common; the order of a list counts.

    `fields` begin with kind, schedule and duration and end with the time zone.
    """
    if version < IDENTITY_SINCE:
        return tuple(fields[:3])
    return (*fields[:3], *map(tuple, targets), fields[-1], and_operator is True)
