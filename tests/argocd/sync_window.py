"""Windows by themselves, judged as a project's validation judges them."""

from collections.abc import Mapping
from typing import Any

from argocd.go import cron
from argocd.judging.configuration import Version
from argocd.projects.validation import ValidationProblem, validate

Window = Mapping[str, Any]
VERSION = (3, 6)


def problems(window: Window) -> list[str]:
    """Everything that is wrong with its fields, but not that it is about nothing."""
    found = _validate(window, version=VERSION)
    return [problem.message for problem in found if problem.rule != "project/sync-window-target"]


def are_same(one: Window, other: Window, *, version: Version) -> bool:
    return any(
        problem.rule == "project/duplicate-sync-window" for problem in _validate(one, other, version=version)
    )


def panics(schedule: str) -> bool:
    return isinstance(cron.read(schedule), cron.SchedulePanicError)


def _validate(*windows: Window, version: Version) -> list[ValidationProblem]:
    return validate({"spec": {"syncWindows": list(windows)}}, version=version)
