"""Projects that may not be deleted, in one step or in two."""

from typing import Any

import pytest

from argocd.judging.case import User
from tests.argocd.fake_neighbours import Neighbourhood
from tests.argocd.rules.asking import application, ask, project

OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "never-there", "uid": "0"}
USED = Neighbourhood(applications=[application(project="shop")])


def owned(*owners: dict[str, Any], name: str = "shop") -> dict[str, Any]:
    return project(metadata={"name": name, "ownerReferences": list(owners)})


@pytest.mark.parametrize("name", ["shop", "default", "not-used-yet"])
def test_no_project_gets_an_owner(name: str) -> None:
    """Also one that nobody uses yet: its owner may go when somebody does."""
    found = ask("project/deletion", owned(OWNER, name=name), old=owned(name=name), neighbours=USED)
    assert [finding.path for finding in found] == ["metadata.ownerReferences"]


@pytest.mark.parametrize("account", ["argocd-application-controller", "tiphys-principal"])
def test_argo_cd_and_the_principal_may_give_it_one(account: str) -> None:
    writer = User(user=f"system:serviceaccount:argocd:{account}")
    assert ask("project/deletion", owned(OWNER), old=owned(), neighbours=USED, writer=writer) == []


def test_the_last_of_many_owners_counts_too() -> None:
    many = [{**OWNER, "uid": str(number)} for number in range(150)]
    assert ask("project/deletion", owned(*many, OWNER | {"uid": "x"}), old=owned(*many), neighbours=USED)
    assert ask("project/deletion", owned(*many), old=owned(*many), neighbours=USED) == []


def test_an_owner_that_was_there_may_stay_or_go() -> None:
    for after in (owned(OWNER), owned()):
        assert ask("project/deletion", after, old=owned(OWNER), neighbours=USED) == []
    other = {**OWNER, "uid": "1"}
    assert ask("project/deletion", owned(OWNER, other), old=owned(OWNER), neighbours=USED)
