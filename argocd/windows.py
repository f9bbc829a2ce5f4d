"""Sync windows: what Argo CD's API server checks, which two are the same, and which applications one is about."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from argocd import cron, durations, pattern_lists, reading, runes
from argocd.globs import Verdict
from argocd.policy import Version

Window = Mapping[str, Any]

IDENTITY_SINCE: Version = (3, 2)
"""Before it two windows were the same if they had kind, schedule and duration in common."""
LONGEST_DESCRIPTION = 255
"""Bytes, though the message says characters."""

TARGETS = ("applications", "namespaces", "clusters")


def kind_problem(kind: str) -> str:
    return "" if kind in {"allow", "deny"} else f"kind '{kind}' mismatch: can only be allow or deny"


@lru_cache(maxsize=1024)
def schedule_problem(schedule: str) -> str:
    """What Argo CD says; where it would panic, that it would."""
    read = cron.read(schedule)
    if isinstance(read, cron.Schedule):
        return ""
    if isinstance(read, cron.SchedulePanicError):
        return f"cannot parse schedule '{schedule}': Argo CD panics on {read}"
    return f"cannot parse schedule '{schedule}': {read}"


def panics(schedule: str) -> bool:
    return isinstance(cron.read(schedule), cron.SchedulePanicError)


@lru_cache(maxsize=1024)
def duration_problem(duration: str) -> str:
    problem = durations.problem(duration)
    return f"cannot parse duration '{duration}': {problem}" if problem else ""


def description_problem(description: str) -> str:
    if len(description) <= LONGEST_DESCRIPTION // 4 or len(runes.encode(description)) <= LONGEST_DESCRIPTION:
        return ""
    return "description must not exceed 255 characters"


def target_problem(window: Window) -> str:
    if any(reading.sequence(window, key) for key in TARGETS):
        return ""
    kind, schedule, duration = (reading.text(window, key) for key in ("kind", "schedule", "duration"))
    return f"window '{kind}':'{schedule}':'{duration}' requires one of application, cluster or namespace"


def problems(window: Window) -> list[str]:
    """Everything that is wrong with one window, in the order in which Argo CD looks."""
    kind, schedule, duration, description = (
        reading.text(window, key) for key in ("kind", "schedule", "duration", "description")
    )
    found = (
        kind_problem(kind),
        schedule_problem(schedule),
        duration_problem(duration),
        description_problem(description),
    )
    return [problem for problem in found if problem]


def identity(window: Window, *, version: Version) -> tuple[Any, ...]:
    """What two windows of a project must not have in common; the order of a list counts."""
    core = tuple(reading.text(window, key) for key in ("kind", "schedule", "duration"))
    if version < IDENTITY_SINCE:
        return core
    return (
        *core,
        *(tuple(_texts(window, key)) for key in TARGETS),
        reading.text(window, "timeZone"),
        reading.value(window, "andOperator") is True,
    )


def _texts(window: Window, key: str) -> list[str]:
    return [item if isinstance(item, str) else "" for item in reading.sequence(window, key)]


def applies_to(window: Window, application: Mapping[str, Any]) -> Verdict:
    """Whether the window is about the application.

    By default one list that matches is enough; with `andOperator` all lists that there are must match.
    Denials do not count here: `!a` is a text like any other.
    """
    destination = reading.mapping(application, "spec", "destination")
    candidates = {
        "applications": [reading.text(application, "metadata", "name")],
        "clusters": list(filter(None, (reading.text(destination, key) for key in ("name", "server")))),
        "namespaces": [reading.text(destination, "namespace")],
    }
    every = reading.value(window, "andOperator") is True
    verdict = Verdict.NO
    for key, texts in candidates.items():
        patterns = _texts(window, key)
        if not patterns:
            continue
        verdict = _first_match(patterns, texts)
        if verdict not in {Verdict.YES, Verdict.NO} or (verdict is Verdict.YES) != every:
            return verdict
    return verdict


def _first_match(patterns: list[str], texts: list[str]) -> Verdict:
    for pattern in patterns:
        for text in texts:
            verdict = pattern_lists.match(pattern, text, negation=False)
            if verdict is not Verdict.NO:
                return verdict
    return Verdict.NO
