"""Projects that are added to others."""

from collections.abc import Mapping
from typing import Any

import pytest

from argocd.judging.neighbours import Neighbours
from argocd.projects.global_projects import global_projects_of, selects
from argocd.settings.argocd_cm import GlobalProject, Settings
from tests.argocd.fake_neighbours import Neighbourhood, Nothing


def project(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}}


LIVE = {"matchLabels": {"stage": "live"}}
BASE, EXTRA = project("base"), project("extra")
KNOWN = Neighbourhood(projects=[BASE, EXTRA])


def found(
    *entries: tuple[str, Mapping[str, Any]],
    of: dict[str, Any] | None = None,
    neighbours: Neighbours = KNOWN,
) -> tuple[Mapping[str, Any], ...] | None:
    settings = Settings(
        global_projects=tuple(GlobalProject(project=name, selector=selector) for name, selector in entries)
    )
    return global_projects_of(of or project("pay", stage="live"), settings=settings, neighbours=neighbours)


def test_a_selected_project_gets_the_global_ones_in_order() -> None:
    assert found(("extra", LIVE), ("base", {})) == (EXTRA, BASE)


def test_another_project_gets_none() -> None:
    assert found(("base", LIVE), of=project("pay", stage="test")) == ()


def test_a_project_is_not_added_to_itself() -> None:
    assert found(("base", {}), ("extra", {}), of=BASE) == (EXTRA,)


def test_a_bad_selector_or_a_missing_project_ends_the_list() -> None:
    assert found(("base", {}), ("extra", {"matchExpressions": [{}]}), ("extra", {})) == (BASE,)
    assert found(("base", {}), ("missing", {}), ("extra", {})) == (BASE,)


def test_unknown_projects_make_the_answer_unknown() -> None:
    assert found(("base", {}), neighbours=Nothing()) is None
    assert found(("base", {"matchLabels": {"x": "y"}}), neighbours=Nothing()) == ()


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"key": "stage", "operator": "In", "values": ["live", "test"]}, True),
        ({"key": "stage", "operator": "In", "values": ["test"]}, False),
        ({"key": "stage", "operator": "NotIn", "values": ["test"]}, True),
        ({"key": "team", "operator": "In", "values": ["a"]}, False),
        ({"key": "team", "operator": "NotIn", "values": ["a"]}, True),
        ({"key": "stage", "operator": "In", "values": []}, None),
        ({"key": "stage", "operator": "Exists"}, True),
        ({"key": "team", "operator": "Exists"}, False),
        ({"key": "team", "operator": "DoesNotExist"}, True),
        ({"key": "stage", "operator": "Exists", "values": ["x"]}, None),
        ({"key": "stage", "operator": "Is"}, None),
        ({"operator": "Exists"}, None),
        ("text", None),
    ],
)
def test_expressions_select_as_in_kubernetes(expression: Any, *, expected: bool | None) -> None:
    assert selects({"matchExpressions": [expression]}, {"stage": "live"}) is expected


def test_labels_and_expressions_must_all_hold() -> None:
    both = {**LIVE, "matchExpressions": [{"key": "team", "operator": "Exists"}]}
    assert selects(both, {"stage": "live", "team": "a"}) is True
    assert selects(both, {"stage": "live"}) is False
    assert selects(both, {"team": "a"}) is False
