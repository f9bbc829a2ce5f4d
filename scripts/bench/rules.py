"""Judging a typical AppProject: once its patterns were seen, the first time, larger, and with a hostile pattern."""

import itertools
import statistics
import time
from collections.abc import Callable
from datetime import date
from typing import Any

from argocd import names
from argocd.engine.directory import Directory
from argocd.engine.judge import judge
from argocd.judging.case import Case, Kind, Operation, Surroundings, User
from argocd.judging.configuration import Configuration
from argocd.settings.argocd_cm import Settings
from scripts.bench.figures import Figure, side_by_side

# Of the processor's time, and of the tenth of runs that others disturbed least: nothing here waits, and on a busy
# machine the others' turns, and what they leave of the caches, are none of its business.
NAME = "judging an AppProject (60 lines: 6 destinations, 4 roles, 3 windows)"
ROUNDS = 300
MORE = 8
TODAY = date(2026, 9, 1)
HOSTILE = 10_000
"""Characters of a pattern that somebody wrote to keep us busy."""

SURROUNDINGS = Surroundings(
    settings=Settings(),
    configuration=Configuration(),
    neighbours=Directory(argocd_namespace=names.DEFAULT_NAMESPACE),
)
WRITER = User(user="ada", groups=("system:authenticated",))

_fresh = itertools.count(1)


def project(
    *, salt: int = 0, times: int = 1, description: str = "Everything that the shop needs"
) -> dict[str, Any]:
    """With another `salt` nobody has seen its patterns and schedules, `times` makes its lists longer."""
    copies = [f"{salt or ''}x{number or ''}" for number in range(times)]
    minute, hour = salt % 60, salt // 60 % 24
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": "shop", "namespace": "argocd", "labels": {"team": "shop"}},
        "spec": {
            "description": description,
            "sourceRepos": [
                f"https://git.example.com/{part}/{copy}**"
                for copy in copies
                for part in ("shop", "base", "charts")
            ],
            "sourceNamespaces": [f"shop-{part}{copy}*" for copy in copies for part in ("test", "live")],
            "destinations": [
                {"server": f"https://{cluster}.example.com:6443", "namespace": f"shop{copy}-{part}*"}
                for copy in copies
                for cluster in ("eu", "us")
                for part in ("web", "pay", "mail")
            ],
            "destinationServiceAccounts": [
                {
                    "server": f"https://{cluster}.example.com:6443",
                    "namespace": f"shop{copy}-*",
                    "defaultServiceAccount": "shop-system:deployer",
                }
                for copy in copies
                for cluster in ("eu", "us")
            ],
            "clusterResourceWhitelist": [{"group": "", "kind": "Namespace"}],
            "namespaceResourceBlacklist": [{"group": "", "kind": "ResourceQuota"}],
            "roles": [
                {
                    "name": f"{role}{copy}",
                    "policies": [
                        f"p, proj:shop:{role}{copy}, applications, get, shop/*, allow",
                        f"p, proj:shop:{role}{copy}, applications, sync, shop/web-*, allow",
                    ],
                    "groups": [f"acme:{role}"],
                }
                for copy in copies
                for role in ("viewer", "deployer", "oncall", "admin")
            ],
            "syncWindows": [
                {
                    "kind": kind,
                    "schedule": schedule,
                    "duration": duration,
                    "applications": [f"web{copy}-*"],
                    "timeZone": "Europe/Berlin",
                }
                for copy in copies
                for kind, schedule, duration in (
                    ("allow", f"{minute} {hour} * * 1-5", "10h"),
                    ("deny", f"{minute} {hour} * * *", "8h"),
                    ("deny", f"{minute} {hour} 24 12 *", "72h"),
                )
            ],
        },
    }


def created(thing: dict[str, Any]) -> object:
    case = Case(kind=Kind.PROJECT, object=thing, surroundings=SURROUNDINGS, writer=WRITER)
    return judge(case, today=TODAY)


def updated(old: dict[str, Any], new: dict[str, Any]) -> object:
    case = Case(
        kind=Kind.PROJECT,
        object=new,
        old=old,
        operation=Operation.UPDATE,
        surroundings=SURROUNDINGS,
        writer=WRITER,
    )
    return judge(case, today=TODAY)


def run() -> list[Figure]:
    known, larger = project(), project(times=MORE)
    described = project(description="Another one")
    synced = {**known, "status": {"jwtTokensByRole": {}}}
    created(known)
    created(larger)
    many, few = side_by_side(lambda: created(larger), lambda: created(known), rounds=ROUNDS)
    return [
        Figure("once it was seen", _best(lambda: created(known)) * 1e6, "µs", goal=60),
        Figure("another one with patterns that were seen", _best(_judge_next, _alike) * 1e6, "µs", goal=400),
        Figure("the first time", _best(_judge_next, _unseen) * 1e6, "µs", goal=400),
        Figure(f"{MORE} times as long", many * 1e6, "µs", than="once", theirs=few * 1e6, goal=MORE * 1.5),
        Figure("an update of the description", _best(lambda: updated(known, described)) * 1e6, "µs", goal=60),
        Figure("a write of the status", _best(lambda: updated(known, synced)) * 1e6, "µs", goal=60),
        *(
            Figure(f"10 000 characters of {text}", _longest(text) * 1e3, "ms", goal=50)
            for text in ("a", "*", "?*a", "{", "{a,", "[", "\\", "a*b?")
        ),
    ]


_NEXT: list[dict[str, Any]] = []


def _alike() -> None:
    _NEXT[:] = [project(description=f"The shop {next(_fresh)}")]


def _unseen() -> None:
    _NEXT[:] = [project(salt=next(_fresh))]


def _judge_next() -> None:
    created(_NEXT[0])


def _longest(text: str) -> float:
    pattern = (text * HOSTILE)[:HOSTILE]
    hostile = project()
    hostile["spec"]["destinations"][0]["namespace"] = pattern
    started = time.process_time()
    created(hostile)
    return time.process_time() - started


def _best(measured: Callable[[], object], before: Callable[[], None] | None = None) -> float:
    times = []
    for _ in range(ROUNDS):
        if before:
            before()
        started = time.process_time()
        measured()
        times.append(time.process_time() - started)
    return statistics.quantiles(times, n=10)[0]
