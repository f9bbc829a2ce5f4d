import json
from typing import Any

import pytest

from argocd import names
from argocd.applications import application_sets


def spec_of(*generators: Any, name: str = "shop-{{.env}}", **more: Any) -> dict[str, Any]:
    return {"generators": list(generators), "template": {"metadata": {"name": name}}, **more}


def nested(kind: str, *children: Any, **more: Any) -> dict[str, Any]:
    return {kind: {"generators": list(children), **more}}


@pytest.mark.parametrize(
    ("generators", "expected"),
    [
        ([{"list": {}}, {"git": {}}], []),
        ([{"list": None}, {}, 7], [0, 1, 2]),
        ([{"selector": {}}], []),
        ([{"lists": {}}], [0]),
    ],
)
def test_an_entry_holds_a_generator_that_argo_cd_knows(generators: list[Any], expected: list[int]) -> None:
    assert application_sets.unrecognized({"generators": generators}) == expected


@pytest.mark.parametrize(
    ("applied", "expected"),
    [
        ({"spec": {"generators": [{"list": {}}, {"gti": {}}, {"bitbucket": {}}]}}, ["bitbucket", "gti"]),
        ({"spec": {"generators": [{"list": {}}, {}, []]}}, []),
        ({"spec": {"generators": []}}, []),
        ({"spec": {}}, []),
        ([], []),
        ("no JSON {", []),
        (None, []),
    ],
)
def test_the_name_that_was_meant_comes_from_what_kubectl_applied(applied: Any, expected: list[str]) -> None:
    text = applied if isinstance(applied, str) else json.dumps(applied)
    annotations = {} if applied is None else {names.LAST_APPLIED: text}
    application_set = {
        "metadata": {"annotations": annotations},
        "spec": {"generators": [{"list": {}}, {}, {}]},
    }
    assert application_sets.unrecognized_names(application_set) == expected


def test_deep_nesting_in_what_kubectl_applied_is_no_trouble() -> None:
    application_set = {
        "metadata": {"annotations": {names.LAST_APPLIED: "[" * 100_000}},
        "spec": {"generators": [{}]},
    }
    assert application_sets.unrecognized_names(application_set) == []


ONE: dict[str, Any] = {"list": {}}
TWO: dict[str, Any] = {"clusters": {}}


@pytest.mark.parametrize(
    ("generator", "expected"),
    [
        (ONE, []),
        (nested("matrix", ONE, TWO), []),
        (nested("merge", ONE, TWO, TWO, mergeKeys=["server"]), []),
        (nested("matrix", ONE, nested("matrix", ONE, TWO)), []),
        (nested("matrix", ONE), ["matrix.generators"]),
        (nested("matrix", ONE, TWO, TWO), ["matrix.generators"]),
        (nested("merge", ONE, mergeKeys=["a"]), ["merge.generators"]),
        (nested("merge", ONE, TWO), ["merge.mergeKeys"]),
        (nested("matrix", ONE, {**ONE, **TWO}), ["matrix.generators[1]"]),
        (nested("matrix", ONE, {}), ["matrix.generators[1]"]),
        (
            nested("matrix", ONE, nested("matrix", ONE, nested("merge"))),
            ["matrix.generators[1].matrix.generators[1].merge"],
        ),
        ({"matrix": 7}, ["matrix.generators"]),
    ],
)
def test_combinations_that_the_controller_refuses(generator: dict[str, Any], expected: list[str]) -> None:
    found = application_sets.combination_problems([("spec.generators[0]", generator)])
    assert [problem.path for problem in found] == [f"spec.generators[0].{path}" for path in expected]


def test_generators_inside_others_are_found_two_levels_down() -> None:
    spec = {"generators": [nested("matrix", ONE, nested("merge", TWO, nested("matrix", ONE)))]}
    assert [path.removeprefix("spec.") for path, _ in application_sets.all_generators(spec)] == [
        "generators[0]",
        "generators[0].matrix.generators[0]",
        "generators[0].matrix.generators[1]",
        "generators[0].matrix.generators[1].merge.generators[0]",
        "generators[0].matrix.generators[1].merge.generators[1]",
    ]


def elements(*found: Any, **more: Any) -> dict[str, Any]:
    return {"list": {"elements": list(found), **more}}


@pytest.mark.parametrize(
    ("generators", "expected"),
    [
        ([], False),
        ([{}], False),
        ([elements({})], False),
        ([elements({}, {})], True),
        ([elements(elementsYaml="- a")], True),
        ([{"clusters": {}}], True),
        ([elements({}), elements({})], True),
    ],
)
def test_when_generators_may_give_several_applications(generators: list[Any], expected: object) -> None:
    assert application_sets.may_give_several({"generators": generators}) is expected


def test_steps_and_their_expressions_have_paths() -> None:
    spec = {"strategy": {"rollingSync": {"steps": [{"matchExpressions": [{"key": "env"}]}, 7]}}}
    steps = list(application_sets.rolling_steps(spec))
    assert [path for path, _ in steps] == [
        "spec.strategy.rollingSync.steps[0]",
        "spec.strategy.rollingSync.steps[1]",
    ]
    assert [path for path, _ in application_sets.expressions(*steps[0])] == [
        "spec.strategy.rollingSync.steps[0].matchExpressions[0]",
    ]
