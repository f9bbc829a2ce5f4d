"""The worked examples of the impersonation proposal, with what the proposal and the release make of them.

Where the proposal contradicts itself the test says which reading was chosen.
"""

from typing import Any

import pytest

from argocd.impersonation.derivation import AccountOutcome, Derivation, account_for, entries_of
from argocd.judging.configuration import Behaviour, Configuration, ImpersonationOptions
from argocd.settings.argocd_cm import ImpersonationSwitch, Settings

SERVER = "https://kubernetes.default.svc"
BOTH = tuple(Behaviour)


def project(*entries: tuple[str, str, str]) -> dict[str, Any]:
    """Entries are server, namespace and account."""
    keys = ("server", "namespace", "defaultServiceAccount")
    return {
        "spec": {"destinationServiceAccounts": [dict(zip(keys, entry, strict=True)) for entry in entries]}
    }


def guestbook(namespace: str | None = "guestbook") -> dict[str, Any]:
    destination = {"server": SERVER}
    if namespace is not None:
        destination["namespace"] = namespace
    return {"metadata": {"name": "guestbook", "namespace": "argocd"}, "spec": {"destination": destination}}


def synced_as(
    application: dict[str, Any], used: dict[str, Any], behaviour: Behaviour, *, server: str = SERVER
) -> Derivation:
    return account_for(
        application,
        entries=entries_of(used),
        server=server,
        settings=Settings(impersonation=ImpersonationSwitch(enabled=True)),
        configuration=Configuration(impersonation=ImpersonationOptions(behaviour=behaviour)),
    )


@pytest.mark.parametrize("behaviour", BOTH)
def test_example_1_one_account_for_all_namespaces(behaviour: Behaviour) -> None:
    generic = project((SERVER, "*", "generic-deployer"))
    assert synced_as(guestbook(), generic, behaviour).user == (
        "system:serviceaccount:guestbook:generic-deployer"
    )


SPECIFIC = project(
    (SERVER, "guestbook", "guestbook-deployer"), (SERVER, "guestbook-ui", "guestbook-ui-deployer")
)


@pytest.mark.parametrize("behaviour", BOTH)
@pytest.mark.parametrize(
    ("namespace", "user"),
    [
        ("guestbook", "system:serviceaccount:guestbook:guestbook-deployer"),
        ("guestbook-ui", "system:serviceaccount:guestbook-ui:guestbook-ui-deployer"),
    ],
)
def test_examples_2_and_4_an_account_for_each_namespace(
    behaviour: Behaviour, namespace: str, user: str
) -> None:
    assert synced_as(guestbook(namespace), SPECIFIC, behaviour).user == user


@pytest.mark.parametrize("behaviour", BOTH)
def test_example_3_a_remote_cluster_whose_credential_may_do_everything(behaviour: Behaviour) -> None:
    # The text deploys to a remote cluster, its manifests say kubernetes.default.svc: entries match the
    # resolved cluster's server, so we read it as that server in both places.
    remote = "https://remote-cluster.example.com"
    used = project((remote, "guestbook", "guestbook-deployer"))
    assert synced_as(guestbook(), used, behaviour, server=remote).user == (
        "system:serviceaccount:guestbook:guestbook-deployer"
    )
    assert synced_as(guestbook(), used, behaviour).outcome in {
        AccountOutcome.UNMATCHED,
        AccountOutcome.DEFAULT,
    }


@pytest.mark.parametrize("behaviour", BOTH)
def test_an_account_in_a_namespace_of_its_own(behaviour: Behaviour) -> None:
    shared = project((SERVER, "*", "mynamespace:guestbook-deployer"))
    for namespace in ("guestbook", "guestbook-prod", None):
        assert synced_as(guestbook(namespace), shared, behaviour).user == (
            "system:serviceaccount:mynamespace:guestbook-deployer"
        )


SEVERAL = project(
    (SERVER, "guestbook-prod", "guestbook-prod-deployer"),
    (SERVER, "guestbook-*", "guestbook-generic-deployer"),
    (SERVER, "*", "generic-deployer"),
)


@pytest.mark.parametrize("behaviour", BOTH)
@pytest.mark.parametrize(
    ("namespace", "account"),
    [
        ("myns", "generic-deployer"),
        ("guestbook-dev", "guestbook-generic-deployer"),
        ("guestbook-stage", "guestbook-generic-deployer"),
        ("guestbook-prod", "guestbook-prod-deployer"),
    ],
)
def test_of_several_matches_the_first_counts(behaviour: Behaviour, namespace: str, account: str) -> None:
    assert synced_as(guestbook(namespace), SEVERAL, behaviour).user == (
        f"system:serviceaccount:{namespace}:{account}"
    )


def test_no_destination_namespace_and_entries_for_others() -> None:
    # The proposal says that this application syncs as argocd:guestbook-deployer, the account of an entry for
    # another namespace, and also that entries are matched with the destination's namespace. We chose the
    # second: an empty namespace is matched by neither entry, and what follows is what "no match" means.
    release = synced_as(guestbook(None), SPECIFIC, Behaviour.RELEASE)
    assert release.outcome is AccountOutcome.UNMATCHED
    assert release.error == (
        f"no matching service account found for destination server {SERVER} and namespace "
    )
    proposal = synced_as(guestbook(None), SPECIFIC, Behaviour.PROPOSAL)
    assert (proposal.outcome, proposal.user) == (
        AccountOutcome.DEFAULT,
        "system:serviceaccount:argocd:default",
    )


@pytest.mark.parametrize("behaviour", BOTH)
def test_no_destination_namespace_and_an_entry_that_matches(behaviour: Behaviour) -> None:
    scoped = project((SERVER, "*", "guestbook-deployer"))
    assert synced_as(guestbook(None), scoped, behaviour).user == (
        "system:serviceaccount:argocd:guestbook-deployer"
    )


def test_the_catch_all_of_the_first_example_project() -> None:
    used = project(
        (SERVER, "guestbook", "guestbook-deployer"),
        (SERVER, "guestbook-dev", "guestbook-dev-deployer"),
        (SERVER, "guestbook-stage", "guestbook-stage-deployer"),
        ("*", "*", "default"),
    )
    for behaviour in BOTH:
        assert synced_as(guestbook("guestbook-dev"), used, behaviour).user == (
            "system:serviceaccount:guestbook-dev:guestbook-dev-deployer"
        )
        assert synced_as(guestbook("elsewhere"), used, behaviour).user == (
            "system:serviceaccount:elsewhere:default"
        )


def test_a_project_that_names_no_account() -> None:
    assert synced_as(guestbook(), project(), Behaviour.PROPOSAL).user == (
        "system:serviceaccount:guestbook:default"
    )
    assert synced_as(guestbook(), project(), Behaviour.RELEASE).outcome is AccountOutcome.UNMATCHED
