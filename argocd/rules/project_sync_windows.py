"""Sync windows: what Argo CD's API server refuses, and what it takes and does not do."""

from functools import partial

from argocd import reading
from argocd.agents.autonomous_projects import is_rewritten_mirror
from argocd.budget import remembered
from argocd.go import cron, durations, time_zones
from argocd.judging.case import Case, Finding
from argocd.judging.memo import Remembered
from argocd.rules.project_rule import project_rule, refused

_WINDOWS = ("spec.syncWindows",)


@Remembered
def _odd(case: Case) -> list[Finding]:
    """What is odd about windows that Argo CD takes; one look serves three rules."""
    found: list[Finding] = []
    for index, window in case.changed_entries("spec", "syncWindows"):
        schedule, duration, zone = reading.fields(window, ("schedule", "duration", "timeZone"))
        for rule, field, message, hint in _oddities(schedule, duration, zone):
            found.append(Finding(rule, f"spec.syncWindows[{index}].{field}", message, hint))
    return found


@remembered(longest=300, most=1024, length=lambda *texts: sum(map(len, texts)))
def _oddities(schedule: str, duration: str, zone: str) -> tuple[tuple[str, str, str, str], ...]:
    """The rule, the field, what is odd and what to do."""
    odd = []
    if problem := _time_zone_problem(schedule, zone):
        odd.append(("project/sync-window-time-zone", "timeZone", *problem))
    read, length = cron.read(schedule), durations.read(duration)
    if isinstance(length, int):
        if length <= 0:
            said = f"a window of {duration} never opens"
            odd.append(
                ("project/sync-window-never-open", "duration", said, "Give it a length, as 1h or 30m.")
            )
        elif isinstance(read, cron.Schedule) and (said := _always_open(read, length)):
            hint = "Use a schedule that comes true, and a duration shorter than the time between two of its times."
            odd.append(("project/sync-window-always-open", "schedule", said, hint))
    return tuple(odd)


def _time_zone_problem(schedule: str, zone: str) -> tuple[str, str] | None:
    if problem := time_zones.problem(zone):
        return (
            f"{problem}: Argo CD takes UTC instead and says so in its log alone",
            "Use a name of the IANA database, as Europe/Paris, letter for letter.",
        )
    if zone and schedule.startswith(("TZ=", "CRON_TZ=")):
        return (
            "the schedule names a time zone too, and Argo CD applies both",
            "Keep timeZone and remove the one in the schedule.",
        )
    return None


def _always_open(schedule: cron.Schedule, length: int) -> str:
    if schedule.never_fires:
        return "this schedule has no next time, and Argo CD takes such a window for one that is always open"
    if not schedule.pauses_longer_than(length // durations.MINUTE):
        return "the window opens again before it closes, so it is always open"
    return ""


def _window(
    *,
    kind: str = "deny",
    schedule: str = "0 22 * * *",
    duration: str = "1h",
    applications: str = "'*'",
    more: str = "",
) -> str:
    return f"- {{kind: {kind}, schedule: '{schedule}', duration: {duration}, applications: [{applications}]{more}}}"


def _listed(*windows: str) -> str:
    return "\n".join(["syncWindows:", *windows])


_warned = partial(project_rule, check=_odd, reads=_WINDOWS)

_BLOCKS = "While a project has such a window every sync of the applications that it is about is blocked."

RULES = (
    refused(
        "project/duplicate-sync-window",
        reads=_WINDOWS,
        mild_when=is_rewritten_mirror,
        title="Sync windows are different",
        explanation=(
            "Two windows of the same kind, schedule, duration, time zone and lists; manualSync, syncOverrun and the "
            "description make no difference. Before Argo CD 3.2 the first three alone had to differ."
        ),
        hint="Merge the two windows.",
        bad=_listed(_window(), _window(more=", manualSync: true")),
        good=_listed(_window(), _window(schedule="0 4 * * *")),
    ),
    refused(
        "project/sync-window-kind",
        reads=_WINDOWS,
        title="A sync window allows or denies",
        explanation=f"The kind is `allow` or `deny`, in lower case. {_BLOCKS}",
        hint="Write allow or deny.",
        bad=_listed(_window(kind="Deny")),
        good=_listed(_window()),
    ),
    refused(
        "project/sync-window-schedule",
        reads=_WINDOWS,
        title="A sync window's schedule can be read",
        explanation=(
            "Five fields: minute, hour, day of the month, month, day of the week. Sunday is 0 and never 7, ranges do "
            f"not go over midnight, and there is no @daily, L, W or #. {_BLOCKS} A schedule that names a time zone "
            "and nothing else makes Argo CD panic."
        ),
        hint="Write five fields, as 0 22 * * 1-5",
        bad=_listed(_window(schedule="0 22 * * 7")),
        good=_listed(_window(schedule="0 22 * * 0")),
    ),
    refused(
        "project/sync-window-duration",
        reads=_WINDOWS,
        title="A sync window's duration can be read",
        explanation=f"A Go duration: units are ns, us, ms, s, m and h. There are no days. {_BLOCKS}",
        hint="Write hours instead of days, as 48h.",
        bad=_listed(_window(duration="2d", schedule="0 22 * * 5")),
        good=_listed(_window(duration="48h", schedule="0 22 * * 5")),
    ),
    refused(
        "project/sync-window-description",
        reads=_WINDOWS,
        title="A sync window's description is short",
        explanation="At most 255 bytes; a letter beyond ASCII counts as two or more.",
        hint="Shorten it.",
        bad=_listed(_window(more=", description: …")),
        good=_listed(_window(more=", description: nightly backup")),
    ),
    refused(
        "project/sync-window-target",
        reads=_WINDOWS,
        title="A sync window is about something",
        explanation="A window needs applications, namespaces or clusters. Without any it would be about nothing.",
        hint="List applications, namespaces or clusters; ['*'] is all of them.",
        bad=_listed(_window(applications="")),
        good=_listed(_window()),
    ),
    _warned(
        "project/sync-window-time-zone",
        title="A sync window is in a time zone that exists, and in one only",
        explanation=(
            "Argo CD takes UTC for a zone that it does not know, and notes it in its log alone: the window opens at "
            "another hour than it says. A zone in the schedule and one in timeZone are added up."
        ),
        bad=_listed(_window(more=", timeZone: europe/paris")),
        good=_listed(_window(more=", timeZone: Europe/Paris")),
    ),
    _warned(
        "project/sync-window-never-open",
        title="A sync window opens",
        explanation="Argo CD takes a duration of nothing or less, and the window then never opens.",
        bad=_listed(_window(duration="0s")),
        good=_listed(_window(duration="1h")),
    ),
    _warned(
        "project/sync-window-always-open",
        title="A sync window closes",
        explanation=(
            "A duration as long as the time between two openings, or a schedule that never comes true (the 31st of "
            "February): the window is open all the time. A deny window of that kind blocks every sync for ever."
        ),
        bad=_listed(_window(duration="24h")),
        good=_listed(_window(duration="2h")),
    ),
)
