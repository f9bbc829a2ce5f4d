from typing import Any

import pytest

from argocd.settings.argocd_cm import Settings
from tests.argocd.fake_neighbours import Neighbourhood, Nothing
from tests.argocd.rules.asking import application_set, ask

LIST = {"list": {"elements": [{"env": "a"}, {"env": "b"}]}}


def template(name: str = "shop-{{.env}}", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


def test_the_generator_that_was_meant_is_named() -> None:
    lost = application_set(generators=[{}])
    (finding,) = ask("applicationset/unrecognized-generator", lost)
    assert finding.message == "ApplicationSet shop contains unrecognized generators"
    applied = '{"spec": {"generators": [{"gti": {}}]}}'
    lost["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": applied}
    (finding,) = ask("applicationset/unrecognized-generator", lost)
    assert finding.message == "ApplicationSet shop contains unrecognized generators: gti"


@pytest.mark.parametrize(
    "element",
    [{"env": 1}, {"env": None}, {"env": ["a"]}, {"values": {"a": 1}}, {"values": "x"}],
)
def test_list_elements_hold_strings(element: dict[str, Any]) -> None:
    numbers = application_set(generators=[{"list": {"elements": [element]}}])
    assert len(ask("applicationset/list-values", numbers)) == 1
    numbers["spec"]["goTemplate"] = True
    assert not ask("applicationset/list-values", numbers)


@pytest.mark.parametrize(
    ("template_name", "more", "found"),
    [
        ("", {}, 1),
        ("shop", {}, 0),
        ("", {"templatePatch": "metadata: {name: x}"}, 0),
        ("", {"generators": [{"list": {"template": {"metadata": {"name": "x"}}}}]}, 0),
    ],
)
def test_something_names_the_applications(template_name: str, more: dict[str, Any], found: int) -> None:
    given = application_set(template(template_name), **{"generators": [LIST], **more})
    assert len(ask("applicationset/name-missing", given)) == found


@pytest.mark.parametrize(
    ("name", "more", "found"),
    [
        ("shop", {}, 1),
        ("shop-{{.env}}", {}, 0),
        ("shop", {"templatePatch": "x"}, 0),
        ("shop", {"generators": [{"list": {"elements": [{}]}}]}, 0),
        ("", {}, 0),
    ],
)
def test_a_constant_name_is_for_one_application(name: str, more: dict[str, Any], found: int) -> None:
    """Of clusters nobody knows how many there are; a list says it itself."""
    unknown = application_set(template(name), **{"generators": [{"clusters": {}}], **more})
    assert len(ask("applicationset/name-constant", unknown)) == found
    known = application_set(template(name), **{"generators": [LIST], **more})
    assert len(ask("applicationset/name-repeated", known)) == found
    assert ask("applicationset/name-constant", known) == []


@pytest.mark.parametrize(
    ("destination", "more", "message"),
    [
        ({}, {}, "application destination spec is invalid: Destination server missing from app spec"),
        (
            {"name": "a", "server": "b"},
            {},
            (
                "application destination spec is invalid: application destination can't have both name and server "
                "defined: a b"
            ),
        ),
        ({"name": "a"}, {}, ""),
        ({"name": "{{.name}}", "server": "{{.server}}"}, {}, ""),
        ({}, {"templatePatch": "x"}, ""),
        ({}, {"generators": [{"list": {"template": {"spec": {"destination": {"name": "a"}}}}}]}, ""),
    ],
)
def test_the_template_names_one_cluster(
    destination: dict[str, str], more: dict[str, Any], message: str
) -> None:
    given = application_set(template(destination=destination), **{"generators": [LIST], **more})
    found = [finding.message for finding in ask("applicationset/destination", given)]
    assert found == ([message] if message else [])


def test_a_templated_or_unknown_project_is_not_missed() -> None:
    rule = "applicationset/project-unknown"
    assert not ask(rule, application_set(template(project="{{.p}}")), neighbours=Neighbourhood())
    assert not ask(rule, application_set(template()), neighbours=Neighbourhood())
    assert not ask(rule, application_set(template(project="shop")), neighbours=Nothing())
    assert ask(rule, application_set(template(project="shop")), neighbours=Neighbourhood())


def test_a_patch_may_bring_the_project() -> None:
    empty = template(project="")
    assert ask("applicationset/project-empty", application_set(empty))
    assert not ask("applicationset/project-empty", application_set(empty, templatePatch="x"))
    assert not ask("applicationset/project-empty", application_set(template())), "field/required tells of it"


def rolling(*steps: Any, **more: Any) -> dict[str, Any]:
    return {"type": "RollingSync", "rollingSync": {"steps": list(steps)}, **more}


@pytest.mark.parametrize(
    ("strategy", "part"),
    [
        ({"type": "AllAtOnce"}, ""),
        ({}, ""),
        (rolling({}), ""),
        ({"type": "Rolling"}, "has no strategy 'Rolling'"),
        ({"rollingSync": {}}, "is ignored unless"),
        ({"type": "AllAtOnce", "rollingSync": {}}, "is ignored unless"),
    ],
)
def test_a_strategy_has_a_type_that_is_known_and_its_own_steps(strategy: dict[str, Any], part: str) -> None:
    found = ask("applicationset/strategy-type", application_set(strategy=strategy))
    assert [part in finding.message for finding in found] == ([True] if part else [])


@pytest.mark.parametrize(
    ("amount", "found"),
    [(1, 0), (0, 0), ("25%", 0), ("0%", 0), (None, 0), ("25", 1), ("half", 1), (True, 1), ([], 1), ("%", 1)],
)
def test_amounts_that_can_be_read(amount: object, found: int) -> None:
    given = application_set(strategy=rolling({"maxUpdate": amount}))
    assert len(ask("applicationset/rolling-amount", given)) == found


@pytest.mark.parametrize(
    ("order", "strategy", "part"),
    [
        ("", {}, ""),
        ("allatonce", {}, ""),
        ("reverse", rolling({}), ""),
        ("Reverse", rolling(), "works with RollingSync and steps only"),
        ("Reverse", {}, "works with RollingSync and steps only"),
        ("Backwards", {}, "has no deletion order 'Backwards'"),
    ],
)
def test_a_deletion_order_needs_the_strategy_that_knows_it(
    order: str, strategy: dict[str, Any], part: str
) -> None:
    given = application_set(strategy={**strategy, "deletionOrder": order})
    found = ask("applicationset/deletion-order", given)
    assert [part in finding.message for finding in found] == ([True] if part else [])


STEP = {"matchExpressions": [{"key": "env", "operator": "In"}, {"operator": "In"}]}


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ({"strategy": rolling(STEP)}, 1),
        ({"strategy": rolling(STEP), "templatePatch": "x"}, 0),
        ({"strategy": rolling(STEP) | {"type": "AllAtOnce"}}, 0),
        (
            {
                "strategy": rolling(STEP),
                "generators": [{"list": {"template": {"metadata": {"labels": {"env": "x"}}}}}],
            },
            0,
        ),
    ],
)
def test_steps_select_labels_that_something_sets(more: dict[str, Any], found: int) -> None:
    assert len(ask("applicationset/rolling-labels", application_set(**more))) == found


def test_a_finalizer_may_stay_where_nothing_is_preserved() -> None:
    finalized = {"metadata": {"finalizers": ["resources-finalizer.argocd.argoproj.io/background"]}}
    assert not ask("applicationset/finalizer-kept", application_set(finalized))
    preserving = {"preserveResourcesOnDeletion": True}
    assert ask("applicationset/finalizer-kept", application_set(finalized, syncPolicy=preserving))
    assert not ask("applicationset/finalizer-kept", application_set(syncPolicy=preserving))


def test_missing_variables_matter_to_go_templates_alone() -> None:
    assert not ask("applicationset/missing-key", application_set())
    assert ask("applicationset/missing-key", application_set(goTemplate=True))


@pytest.mark.parametrize(
    ("allowed", "found"),
    [
        (None, 0),
        ((), 0),
        (("https://git.example.com",), 0),
        (("https://*.example.com",), 0),
        (("https://other",), 1),
    ],
)
def test_generators_ask_only_forges_that_are_allowed(allowed: tuple[str, ...] | None, found: int) -> None:
    generator = {"pullRequest": {"gitlab": {"api": "https://git.example.com"}, "filters": []}}
    given = application_set(generators=[{"matrix": {"generators": [generator, LIST]}}])
    settings = Settings(allowed_scm_providers=allowed)
    assert len(ask("applicationset/forge-address", given, settings=settings)) == found
