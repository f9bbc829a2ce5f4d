"""Fills every memory of argocd/ with what takes most room in it, and prints the mebibytes that this process grew by."""

import os
import random
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

from argocd import globs
from argocd.engine.directory import Directory, Shelf
from argocd.engine.judge import judge
from argocd.globs import batch, covering, surprises
from argocd.go import cron, durations, filepath, gojq, regexp2
from argocd.judging import memo
from argocd.judging.case import Case, Operation, Surroundings, User, kind_of
from argocd.judging.configuration import Configuration
from argocd.projects import roles
from argocd.rules import project_patterns, project_sync_windows
from argocd.settings import git_urls
from argocd.settings.argocd_cm import ImpersonationSwitch, Settings

Words = Callable[[int], tuple[Any, ...]]


def repeated(piece: str, *, length: int) -> Callable[[int], str]:
    """A text of pieces that no other has."""
    return lambda number: f"{piece * ((length - 6) // len(piece))}{number:06}"


def one(piece: str, *more: Any, length: int) -> Words:
    text = repeated(piece, length=length)
    return lambda number: (text(number), *more)


CACHES: tuple[tuple[Any, tuple[Words, ...]], ...] = (
    (globs._compiled.short, (one("[!a-c]", "", length=300), one("{a*,b?}", "", length=300))),
    (globs._compiled.long, (one("[!a-c]", "", length=16_384),)),
    (globs._match, (one("a", "a" * 150, "", length=150),)),
    (covering._covers, (one("a", "a" * 140, length=140),)),
    (surprises._surprises.short, (one("a", "", length=300),)),
    (regexp2.compiled.short, (one("[^a]{1000}", length=16), one("(?i:[à-ÿāăą]{30}){30}", length=30))),
    (regexp2.compiled.long, (one("[^ab]", length=16_384),)),
    (gojq.path_problem.short, (one(".a[", length=200),)),
    (gojq.path_problem.long, (one(".a[", length=2_000),)),
    (cron.read.short, (one("*,", length=290),)),
    (durations.read.short, (one("1h", length=290),)),
    (filepath._chunks.short, (one("[a-c]", length=290),)),
    (filepath.matches.short, (one("[a-c]", "a" * 100, length=190),)),
    (roles._problems.short, (one("p, x,", "r" * 190, "p, x, y, z, w", (3, 5), length=390),)),
    (roles.group_problem.short, (one("x,", length=300),)),
    (git_urls.normalize.short, (one("https://ä", length=500),)),
    (
        project_patterns._judged.short,
        (one("!*{a,*b}", project_patterns._Place.REPOSITORY, length=296),),
    ),
    (project_sync_windows._oddities.short, (lambda number: ("0 0 1 * *", "0h", "z" * 270 + str(number)),)),
)
"""Each with what it is asked, in two forms where it is not plain which takes more."""


def mebibytes() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def projects() -> Iterator[dict[str, Any]]:
    """As many faults as fit into what is remembered of one project, or a few that are long."""
    for number in range(memo.MOST):
        yield {"syncWindows": [{}] * (20 + number)}
        yield {"roles": [{"name": "r" * 8_000, "policies": [f"p{number}"] * 20}]}


def main() -> None:
    directory = Directory(argocd_namespace="argocd", known=list(Shelf))
    surroundings = Surroundings(
        settings=Settings(known=True, impersonation=ImpersonationSwitch(enabled=True, enforced=True)),
        configuration=Configuration(),
        neighbours=directory,
    )
    before = mebibytes()
    for cache, forms in CACHES:
        most = cache.cache_info().maxsize
        for words in forms:
            for number in range(most):
                answer, _ = cache(*words(number))
                if isinstance(answer, regexp2.Expression) and answer.search:
                    answer.search("b" * 200)
    lines = b"".join(bytes(random.choices(b"abcdef012", k=200)) + b"\n" for _ in range(50))
    for number in range(batch._expression.cache_info().maxsize or 0):
        list(batch._expression(f"{'*a' * 140}{number}")[0](lines))
    for spec in projects():
        thing = {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "AppProject",
            "metadata": {"name": "shop", "namespace": "argocd"},
            "spec": spec,
        }
        case = Case(
            kind=kind_of(thing),
            object=thing,
            operation=Operation.CREATE,
            writer=User(user="ada"),
            surroundings=surroundings,
        )
        judge(case, today=date(2026, 9, 1))
    print(mebibytes() - before)  # noqa: T201 - a program


if __name__ == "__main__":
    main()
