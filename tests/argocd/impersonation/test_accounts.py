"""The accounts that projects name, and what must be granted for them."""

from typing import Any

import pytest

from argocd.impersonation.accounts import Grant, SyncAccounts, grants_for
from argocd.judging.configuration import Behaviour

SERVER = "https://kubernetes.default.svc"


def project(*entries: tuple[str, ...]) -> dict[str, Any]:
    """Entries are a namespace, an account and perhaps another server than this cluster's."""
    return {
        "spec": {
            "destinationServiceAccounts": [
                {"server": (*server, SERVER)[0], "namespace": namespace, "defaultServiceAccount": account}
                for namespace, account, *server in entries
            ]
        }
    }


def test_a_grant_is_for_the_namespace_of_the_account() -> None:
    used = project(("shop", "deployer"), ("shop", "other"), ("*", "shared:deployer"), ("bad", "sa*"))
    assert grants_for(used) == (
        Grant("shared", ("deployer",)),
        Grant("shop", ("deployer", "other")),
    )


@pytest.mark.parametrize("namespace", ["*", "shop-*", ""])
def test_an_account_whose_namespace_the_application_decides_is_granted_everywhere(namespace: str) -> None:
    used = project((namespace, "deployer"), ("shop", "deployer"), ("shop", "other"))
    assert grants_for(used) == (Grant("", ("deployer",)), Grant("shop", ("other",)))


def test_the_proposal_needs_the_default_accounts_too() -> None:
    assert grants_for({}) == ()
    assert grants_for({}, behaviour=Behaviour.PROPOSAL) == (Grant("", ("default",)),)


def test_a_grant_is_a_rule_of_a_role() -> None:
    assert Grant("shop", ("a", "b")).rule == {
        "apiGroups": [""],
        "resources": ["serviceaccounts"],
        "verbs": ["impersonate"],
        "resourceNames": ["a", "b"],
    }


@pytest.mark.parametrize(
    ("namespace", "name", "expected"),
    [
        ("shop", "deployer", True),
        ("shop", "other", False),
        ("blue", "deployer", False),
        ("team-a", "generic", False),
        ("shared", "runner", True),
        ("shared", "roamer", False),
        ("shop", "runner", False),
        ("argocd", "homeless", True),
        ("shop", "homeless", False),
        ("shop", "everywhere", False),
        ("shop", "stranger", False),
        ("shop", "anywhere", False),
    ],
)
def test_an_account_is_known_that_a_project_names_for_this_cluster_and_without_globs(
    namespace: str, name: str, *, expected: bool
) -> None:
    accounts = SyncAccounts(argocd_namespace="argocd")
    accounts.put(
        "pay",
        project(
            ("shop", "deployer"),
            ("team-*", "generic"),
            ("shop", "shared:runner"),
            ("*", "shared:roamer"),
            ("", "homeless"),
            ("*", "everywhere"),
            ("shop", "stranger", "https://elsewhere"),
            ("shop", "anywhere", "*"),
        ),
    )
    assert accounts.has(namespace, name) is expected


def test_an_account_is_forgotten_with_the_last_project_that_names_it() -> None:
    accounts = SyncAccounts(argocd_namespace="argocd")
    for name in ("a", "b"):
        accounts.put(name, project(("shop", "deployer"), ("shop", "deployer"), ("team-x", "generic")))
    accounts.drop("a")
    assert accounts.has("shop", "deployer")
    assert accounts.has("team-x", "generic")
    accounts.put("b", project(("shop", "other")))
    assert not accounts.has("shop", "deployer")
    assert not accounts.has("team-x", "generic")
    assert accounts.has("shop", "other")
    accounts.drop("b")
    accounts.drop("never seen")
    assert not accounts.has("shop", "other")
    assert not accounts._projects
