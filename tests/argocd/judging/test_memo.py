"""Looks at a project that are not taken twice."""

import datetime as dt
from dataclasses import replace
from typing import Any

import pytest

from argocd.judging import memo
from argocd.judging.case import Case, Kind, Surroundings
from argocd.judging.configuration import ArgoCD, Configuration
from argocd.judging.memo import Remembered, nothing_found
from argocd.settings.argocd_cm import Settings
from tests.argocd.fake_neighbours import Nothing

SURROUNDINGS = Surroundings(settings=Settings(), configuration=Configuration(), neighbours=Nothing())


def case(spec: Any, *, name: str = "shop", **argocd: Any) -> Case:
    surroundings = replace(SURROUNDINGS, configuration=Configuration(argocd=ArgoCD(**argocd)))
    thing = {"metadata": {"name": name}, "spec": spec}
    return Case(kind=Kind.PROJECT, object=thing, surroundings=surroundings)


class Look:
    def __init__(self) -> None:
        self.taken = 0

    def __call__(self, case: Case) -> list[str]:
        self.taken += 1
        return [repr(case.object["spec"])]


@pytest.fixture
def look() -> Look:
    return Look()


def recall(look: Look) -> Any:
    def taking(case: Case) -> list[str]:
        return look(case)

    return Remembered(taking)


def test_the_same_content_is_looked_at_once(look: Look) -> None:
    again = recall(look)
    assert again(case({"roles": [1]})) == again(case({"roles": [1]})) == ("{'roles': [1]}",)
    assert look.taken == 1


def test_another_spec_name_namespace_or_version_is_looked_at(look: Look) -> None:
    again = recall(look)
    for one in (
        case({"roles": 1}),
        case({"roles": 2}),
        case({"roles": 1}, name="x"),
        case({"roles": 1}, namespace="x"),
        case({"roles": 1}, version=(3, 1)),
    ):
        again(one)
    assert look.taken == 5


@pytest.mark.parametrize(
    "spec",
    [
        [],
        {"roles": dt.date(2026, 1, 1)},
        {"roles": {1: 2}},
        {"roles": 1 << 70},
        {"roles": "\ud800"},
        {"roles": "x" * 20_000},
    ],
)
def test_what_cannot_be_written_or_is_too_large_is_looked_at_every_time(spec: Any, look: Look) -> None:
    again = recall(look)
    assert again(case(spec)) == again(case(spec))
    assert look.taken == 2


def test_another_list_makes_no_difference(look: Look) -> None:
    again = recall(look)
    assert again(case({"roles": 1, "description": "x"})) == again(case({"roles": 1}))
    again(case({"roles": 1, "sourceRepos": 1}))
    assert look.taken == 2


def test_the_memory_is_bounded(look: Look) -> None:
    again = recall(look)
    for number in range(memo.MOST + 1):
        again(case({"roles": f"one of many: {number}"}))
    taken = look.taken
    again(case({"roles": f"one of many: {memo.MOST}"}))
    assert look.taken == taken
    again(case({"roles": "one of many: 0"}))
    assert look.taken == taken + 1
    assert len(memo._MEMORIES) == memo.MOST


def test_a_look_that_found_nothing_is_known_by_that() -> None:
    nothing: Remembered[str] = Remembered(lambda _: ())
    something = Remembered(lambda _: ["odd"])
    first = case({"roles": ["new"]})
    assert nothing_found(first) == set()
    assert (nothing(first), something(first)) == ((), ("odd",))
    assert nothing_found(case({"roles": ["new"]})) == {nothing}
    assert nothing_found(case({"roles": ["newer"]})) == set()
    assert nothing_found(case([])) == set()
