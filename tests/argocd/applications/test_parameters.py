from typing import Any

import pytest

from argocd.applications import parameters
from argocd.applications.templates import UNKNOWN, Unknown
from argocd.judging.case import Case, Kind, Surroundings
from argocd.judging.configuration import Configuration
from argocd.settings.argocd_cm import Settings
from tests.argocd.fake_neighbours import Neighbourhood

AROUND = Surroundings(settings=Settings(), configuration=Configuration(), neighbours=Neighbourhood())


def of(*elements: Any, **more: Any) -> dict[str, Any]:
    return {"list": {"elements": list(elements), **more}}


def combined(kind: str, *generators: Any, **more: Any) -> dict[str, Any]:
    return {kind: {"generators": list(generators), **more}}


def sets(generator: Any, *, go: bool = True) -> Any:
    (found,) = parameters.generated({"goTemplate": go, "generators": [generator]})
    return found.sets


@pytest.mark.parametrize(
    ("generator", "expected"),
    [
        (of({"a": "1"}, {"a": "2"}), [{"a": "1"}, {"a": "2"}]),
        (of(), []),
        (of({"a": "{{.b}}"}), [{"a": UNKNOWN}]),
        ({**of({"a": "1"}), "selector": {}}, None),
        ({"clusters": {}}, None),
        ({}, None),
        ({**of({"a": "1"}), "clusters": {}}, None),
        (
            combined("matrix", of({"a": "1"}, {"a": "2"}), of({"b": "x"})),
            [{"a": "1", "b": "x"}, {"a": "2", "b": "x"}],
        ),
        (combined("matrix", of({"a": "1"}), of({"a": "2"})), [{"a": "1"}]),
        (combined("matrix", of({"a": {"b": "1"}}), of({"a": {"c": "2"}})), [{"a": {"b": "1", "c": "2"}}]),
        (combined("matrix", of({"a": "1"}), {"clusters": {}}), None),
        (combined("matrix", of({"a": "1"})), None),
        (combined("matrix", of({"a": "1"}), of({"b": "1"}), of({"c": "1"})), None),
        (
            combined(
                "merge", of({"k": "1", "a": "x"}), of({"k": "1", "a": "y"}, {"k": "2"}), mergeKeys=["k"]
            ),
            [{"k": "1", "a": "y"}],
        ),
        (
            combined("merge", of({"k": "1", "a": "x"}), of({"k": "1", "a": ""}), mergeKeys=["k"]),
            [{"k": "1", "a": "x"}],
        ),
        (combined("merge", of({"k": "1"}), of({"k": "1"})), None),
        (combined("merge", of({"k": "1"}, {"k": "1"}), of({"k": "1"}), mergeKeys=["k"]), None),
        (
            combined("matrix", combined("matrix", of({"a": "1"}), of({"b": "2"})), of({"c": "3"})),
            [{"a": "1", "b": "2", "c": "3"}],
        ),
    ],
)
def test_lists_and_what_is_made_of_lists_are_known(generator: Any, expected: Any) -> None:
    assert sets(generator) == expected


def test_without_go_templates_values_are_flat() -> None:
    assert sets(of({"a": "1", "values": {"b": "2"}}), go=False) == [{"a": "1", "values.b": "2"}]


def test_a_list_may_be_longer_than_what_is_written() -> None:
    generators = [
        of({"a": "1"}),
        of({"a": "1"}, elementsYaml="[]"),
        combined("matrix", *[of(*({"a": "1"} for _ in range(100)))] * 2),
    ]
    found = list(parameters.generated({"generators": generators}))
    assert [one.complete for one in found] == [True, False, False]
    assert found[0].place(0) == "spec.generators[0].list.elements[0]"


def test_a_matrix_of_long_lists_is_cut() -> None:
    long = of(*({"a": str(index)} for index in range(1000)))
    assert len(sets(combined("matrix", long, long))) == parameters.MOST


def test_a_generators_own_template_wins_and_the_sets_fills_it() -> None:
    spec = {"template": {"metadata": {"name": "a", "labels": {"x": "1"}}, "spec": {"project": "p"}}}
    own = {"metadata": {"name": "b"}, "spec": {"project": ""}}
    assert parameters.template_of(spec, own) == {
        "metadata": {"name": "b", "labels": {"x": "1"}},
        "spec": {"project": "p"},
    }


def template(name: str = "shop-{{.env}}") -> dict[str, Any]:
    return {"metadata": {"name": name}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"generators": [of({"env": "a"}, {"env": "b"})], "template": template()}, ["shop-a", "shop-b"]),
        ({"generators": [of({"env": 1})], "template": template()}, ["shop-1"]),
        ({"generators": [of({}, 7)], "template": template()}, [Unknown(("shop-", None))] * 2),
        ({"generators": [of({"env": "a"})], "template": template("{{ .env | lower }}")}, [UNKNOWN]),
        ({"generators": [of({"env": "a"}, {"env": "b"})], "template": template("shop")}, ["shop"]),
        ({"generators": [of({"env": "a"})], "template": template(), "templatePatch": "x"}, []),
        ({"generators": [{"clusters": {}}], "template": template()}, [Unknown(("shop-", None))]),
        ({"generators": [of({"env": "a"}, template=template("own"))], "template": template()}, ["own"]),
        ({"generators": [of({"env": "a"})], "template": template("{{.env}}" * 1000)}, []),
        ({"generators": [of({"env": "a"})]}, []),
    ],
)
def test_names_that_can_be_told(spec: Any, expected: list[Any]) -> None:
    case = Case(kind=Kind.APPLICATION_SET, object={"spec": {"goTemplate": True, **spec}}, surroundings=AROUND)
    found = parameters.generated_names(case)
    assert [name for _, name in found] == expected
