"""Projects that may not be deleted, in one step or in two."""

from typing import Any

import pytest

from argocd.judging.neighbours import Neighbours
from tests.argocd.fake_neighbours import Neighbourhood
from tests.argocd.rules.asking import application, ask, project

OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "never-there", "uid": "0"}
USED = Neighbourhood(applications=[application(project="shop")])


def owned(*owners: dict[str, Any], name: str = "shop") -> dict[str, Any]:
    return project(metadata={"name": name, "ownerReferences": list(owners)})


@pytest.mark.parametrize(
    ("name", "neighbours", "refused"),
    [("shop", USED, True), ("default", Neighbourhood(), True), ("unused", USED, False)],
)
def test_a_project_that_may_not_be_deleted_gets_no_owner(
    name: str, neighbours: Neighbours, *, refused: bool
) -> None:
    found = ask("project/deletion", owned(OWNER, name=name), old=owned(name=name), neighbours=neighbours)
    assert [finding.path for finding in found] == ["metadata.ownerReferences"] * refused


def test_an_owner_that_was_there_may_stay_or_go() -> None:
    for after in (owned(OWNER), owned()):
        assert ask("project/deletion", after, old=owned(OWNER), neighbours=USED) == []
    other = {**OWNER, "uid": "1"}
    assert ask("project/deletion", owned(OWNER, other), old=owned(OWNER), neighbours=USED)
