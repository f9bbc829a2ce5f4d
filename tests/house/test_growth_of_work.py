"""Work on an object grows with its size and no faster, or the budget of the review ends it.

Counted are the lines that are executed in `argocd/`, not time. An object with eight times as many entries may take
eight times as many lines, and a logarithm more. Work that grows faster must be seen by the budget: the larger object is
judged with a budget that allows for the same growth, so that what is counted in steps ends there, and what grows
without being counted is found out by its lines.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import date
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import argocd
from argocd import names, reading
from argocd.budget import StepBudget
from argocd.engine.directory import Directory, Shelf
from argocd.engine.judge import judge
from argocd.judging.case import Case, Finding, Operation, Rule, Surroundings, User, kind_of
from argocd.judging.configuration import Configuration, ReviewLimits
from argocd.rules.catalogue import CATALOGUE
from argocd.settings.argocd_cm import ImpersonationSwitch, Settings
from tests.argocd.altered_objects import at, paths, replaced
from tests.argocd.cases import case_of

FEW, MANY = 8, 64
GROWTH = 16.0
"""Of n log n from 8 to 64 entries: eight times as many, and a logarithm that doubles."""
LINES_OF_A_STEP = 20
"""At most, with what surrounds it."""
FEW_STEPS = 300
"""What a pattern costs by itself, before there are many."""
MOST_STEPS = 60_000
"""Of any review here: patterns that take for ever would make the test do so too."""
TODAY = date(2026, 9, 1)
ROOM = str(Path(argocd.__file__).parent)
NONCES = count()
"""Answers about short texts are remembered: every object has its own."""

Fill = Callable[[str, str], str]

FILLS: dict[str, Fill] = {
    "numbered": lambda text, number: f"{text}-{number}",
    "the same": lambda text, _: text,
    "prefixes": lambda text, number: f"{text}-{number}*",
    "suffixes": lambda _, number: f"*-{number}",
    "stars": lambda _, number: f"*a*b*a*{number}",
    "pairs of stars": lambda _, number: f"a/**/b/**/{number}",
    "braces": lambda _, number: f"{{a,b*}}{{c,d}}{number}",
    "nested braces": lambda _, number: "{a," * 4 + number + "}" * 4,
    "classes": lambda _, number: f"[ab][!c][a-f]?{number}",
    "denials": lambda _, number: f"!*{number}",
    "expressions": lambda _, number: f"/^(a|b{{1,9}})+{number}$/",
    "what is no pattern": lambda _, number: f"[{number}",
}

REPEATED: dict[str, Callable[[int], str]] = {
    "nested braces": lambda size: "{a," * size + "b" + "}" * size,
    "nested braces with stars": lambda size: "{*a," * size + "b" + "}" * size,
    "nested empty braces": lambda size: "{," * size + "}" * size,
    "braces in a row": lambda size: "{a,b}" * size,
    "alternatives": lambda size: "{" + "a*b," * size + "}",
    "stars": lambda size: "*a" * size,
    "single characters": lambda size: "?*" * size,
    "classes": lambda size: "[ab]" * size + "*",
    "a large class": lambda size: "[" + "ab" * size + "]*a",
    "stars beyond ASCII": lambda size: "*\u00e9" * size,
    "expressions": lambda size: "/" + "(a|b)*" * size + "/",
    "nested expressions": lambda size: "/" + "(" * size + "a" + ")*" * size + "/",
    "lookaheads": lambda size: "/^" + "(?=a)" * size + "/",
}


def project(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": "shop", "namespace": "argocd"},
        "spec": spec,
    }


WHOLE = project(
    sourceRepos=["https://git.example.com/shop"],
    sourceNamespaces=["shop"],
    destinations=[
        {"server": names.IN_CLUSTER_SERVER, "namespace": "shop"},
        {"name": "east", "namespace": "a"},
    ],
    destinationServiceAccounts=[
        {"server": names.IN_CLUSTER_SERVER, "namespace": "shop", "defaultServiceAccount": "deployer"}
    ],
    clusterResourceWhitelist=[{"group": "apps", "kind": "Kind", "name": "a"}],
    clusterResourceBlacklist=[{"group": "apps", "kind": "Kind"}],
    namespaceResourceWhitelist=[{"group": "apps", "kind": "Kind"}],
    namespaceResourceBlacklist=[{"group": "apps", "kind": "Kind"}],
    orphanedResources={"ignore": [{"group": "apps", "kind": "Kind", "name": "a"}]},
    signatureKeys=[{"keyID": "4AEE18F83AFDEB23"}],
    roles=[
        {
            "name": "dev",
            "policies": ["p, proj:shop:dev, applications, get, shop/*, allow"],
            "groups": ["dev"],
            "jwtTokens": [{"iat": 1}],
        }
    ],
    syncWindows=[
        {
            "kind": "deny",
            "schedule": "0 22 * * 5",
            "duration": "49h",
            "timeZone": "UTC",
            "applications": ["a"],
            "namespaces": ["b"],
            "clusters": ["c"],
        }
    ],
)
LISTS = [path for path in paths(WHOLE) if isinstance(at(WHOLE, path), list)]
TEXTS = [
    path
    for path in paths(WHOLE)
    if path[:1] == ("spec",) and isinstance(at(WHOLE, path), str) and path[1] != "signatureKeys"
]


def counted(work: Callable[[], Any]) -> int:
    """Lines of `argocd/` that are executed."""
    lines = 0

    def in_function(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return in_function

    def entered(frame: FrameType, _event: str, _argument: Any) -> Any:
        return in_function if frame.f_code.co_filename.startswith(ROOM) else None

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines


def judged(case: Case, *, steps: int, rules: tuple[Rule, ...]) -> tuple[int, int]:
    """The lines and the steps of one review with this budget."""
    surroundings = case.surroundings
    configuration = replace(surroundings.configuration, limits=ReviewLimits(review_steps=steps))
    limited = replace(case, surroundings=replace(surroundings, configuration=configuration))
    with StepBudget() as spent:
        lines = counted(lambda: judge(limited, today=TODAY, rules=rules))
    return lines, spent.steps


def hold(make: Callable[[int], Case], *, rules: tuple[Rule, ...] = CATALOGUE) -> None:
    """The work on `make(64)` is at most so many times that on `make(8)`."""
    least, _ = judged(make(1), steps=MOST_STEPS, rules=rules)
    few, steps = judged(make(FEW), steps=MOST_STEPS, rules=rules)
    allowed = min(int(GROWTH * steps) + FEW_STEPS, MOST_STEPS)
    many, _ = judged(make(MANY), steps=allowed, rules=rules)
    grown = least + GROWTH * max(few - least, 0)
    assert many <= grown + LINES_OF_A_STEP * allowed, (least, few, many, steps)


def around(*, known: Mapping[str, Any] | None = None) -> Surroundings:
    directory = Directory(argocd_namespace="argocd", known=list(Shelf))
    if known is not None:
        directory.put_project(known)
    return Surroundings(
        settings=Settings(known=True, impersonation=ImpersonationSwitch(enabled=True, enforced=True)),
        configuration=Configuration(),
        neighbours=directory,
    )


def filled(thing: Any, fill: Fill, number: str) -> Any:
    if isinstance(thing, dict):
        return {key: filled(value, fill, number) for key, value in thing.items()}
    if isinstance(thing, list):
        return [filled(value, fill, number) for value in thing]
    return fill(thing, number) if isinstance(thing, str) else thing


def enlarged(thing: Any, path: tuple[Any, ...], size: int, fill: Fill) -> Any:
    """With so many entries in one list, made from those that are there."""
    nonce = next(NONCES)
    entries = at(thing, path)
    many = [filled(entries[index % len(entries)], fill, f"{nonce}x{index}") for index in range(size)]
    return replaced(thing, path, many)


def case_for(
    thing: Mapping[str, Any], surroundings: Surroundings, old: Mapping[str, Any] | None = None
) -> Case:
    return Case(
        kind=kind_of(thing),
        object=thing,
        old=old,
        operation=Operation.CREATE if old is None else Operation.UPDATE,
        surroundings=surroundings,
        writer=User(user="ada"),
    )


def id_of(path: tuple[Any, ...]) -> str:
    return ".".join(map(str, path))


@pytest.mark.parametrize("fill", FILLS.values(), ids=FILLS)
@pytest.mark.parametrize("path", LISTS, ids=id_of)
def test_every_list_of_a_project_is_judged_in_time_that_grows_with_it(
    path: tuple[Any, ...], fill: Fill
) -> None:
    hold(lambda size: case_for(enlarged(WHOLE, path, size, fill), around()))


@pytest.mark.parametrize("fill", FILLS.values(), ids=FILLS)
def test_lists_that_are_compared_with_each_other_are_too(fill: Fill) -> None:
    lists = [("spec", key) for key in ("destinations", "destinationServiceAccounts", "sourceNamespaces")]

    def make(size: int) -> Case:
        thing = WHOLE
        for path in lists:
            thing = enlarged(thing, path, size, fill)
        return case_for(thing, around())

    hold(make)


@pytest.mark.parametrize("repeated", REPEATED.values(), ids=REPEATED)
@pytest.mark.parametrize("path", TEXTS, ids=id_of)
def test_every_text_of_a_project_is_too(path: tuple[Any, ...], repeated: Callable[[int], str]) -> None:
    hold(lambda size: case_for(replaced(WHOLE, path, f"{repeated(size)}{next(NONCES)}"), around()))


def lists_of(rule: Rule) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for example in (rule.bad, rule.good):
        thing = case_of(example, rule=rule).object
        for path in paths(thing):
            found = at(thing, path)
            if isinstance(found, list) and found:
                yield example, path


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule.id) for rule in CATALOGUE])
def test_every_list_in_a_rules_examples_is_judged_by_it_in_time_that_grows_with_it(rule: Rule) -> None:
    for example, path in lists_of(rule):
        case = case_of(example, rule=rule)
        for fill in (FILLS["numbered"], FILLS["the same"], FILLS["stars"]):
            hold(lambda size: replace(case, object=enlarged(case.object, path, size, fill)), rules=(rule,))  # noqa: B023 - called here


@pytest.mark.parametrize("fill", FILLS.values(), ids=FILLS)
def test_an_application_with_many_sources_in_a_project_with_many_entries_is_too(fill: Fill) -> None:
    thing = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "shop", "namespace": "argocd"},
        "spec": {
            "project": "shop",
            "destination": {"server": names.IN_CLUSTER_SERVER, "namespace": "shop"},
            "sources": [{"repoURL": "https://git.example.com/shop", "path": ".", "ref": "a", "name": "b"}],
        },
    }

    def make(size: int) -> Case:
        known = WHOLE
        for key in ("sourceRepos", "destinations", "destinationServiceAccounts"):
            known = enlarged(known, ("spec", key), size, fill)
        return case_for(enlarged(thing, ("spec", "sources"), size, FILLS["numbered"]), around(known=known))

    hold(make)


@pytest.mark.parametrize("fill", FILLS.values(), ids=FILLS)
def test_a_changed_project_with_many_applications_is_too(fill: Fill) -> None:
    def make(size: int) -> Case:
        surroundings = around()
        neighbours = surroundings.neighbours
        assert isinstance(neighbours, Directory)
        for index in range(size):
            neighbours.put_application(
                {
                    "metadata": {"name": f"a{index}", "namespace": f"team-{index}"},
                    "spec": {
                        "project": "shop",
                        "destination": {"server": names.IN_CLUSTER_SERVER, "namespace": f"n{index}"},
                        "source": {"repoURL": f"https://git.example.com/{index}"},
                    },
                }
            )
        old, new = (
            enlarged(
                enlarged(WHOLE, ("spec", "destinations"), size, fill), ("spec", "sourceRepos"), size, fill
            )
            for _ in range(2)
        )
        return case_for(new, surroundings, old=old)

    hold(make)


def test_a_list_that_grows_quadratically_is_found_out() -> None:
    """The test of the test: pairs that nobody counts."""
    slow = replace(next(rule for rule in CATALOGUE if rule.id == "project/shape"), check=_pairs)
    with pytest.raises(AssertionError):
        hold(
            lambda size: case_for(enlarged(WHOLE, ("spec", "roles"), size, FILLS["numbered"]), around()),
            rules=(slow,),
        )


def _pairs(case: Case) -> Iterator[Any]:
    roles = case.object["spec"]["roles"]
    for role in roles:
        for other in roles:
            if reading.text(role, "name") == reading.text(other, "groups"):
                yield Finding("project/shape", "spec", "wrong")
