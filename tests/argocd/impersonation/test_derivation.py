"""Which account an application syncs with."""

from typing import Any

import pytest

from argocd.impersonation.derivation import (
    AccountOutcome,
    Derivation,
    ServiceAccountEntry,
    account_for,
    derive,
    entries_in,
    entries_of,
    is_forbidden,
    user_of,
)
from argocd.judging.configuration import ArgoCD, Behaviour, Configuration, ImpersonationOptions
from argocd.settings.argocd_cm import ImpersonationSwitch, Settings

SERVER = "https://kubernetes.default.svc"


def entry(account: str = "sa", *, server: str = "*", namespace: str = "*") -> ServiceAccountEntry:
    return ServiceAccountEntry(server, namespace, account)


def derived(*entries: ServiceAccountEntry, namespace: str = "shop", server: str = SERVER) -> Derivation:
    return derive(entries, server=server, destination_namespace=namespace, application_namespace="argocd")


def test_the_account_is_in_the_namespace_of_the_destination() -> None:
    assert derived(entry()).user == "system:serviceaccount:shop:sa"


def test_without_a_destination_namespace_it_is_in_the_applications() -> None:
    assert derived(entry(), namespace="").user == "system:serviceaccount:argocd:sa"


def test_a_colon_names_another_namespace_and_is_taken_as_it_is() -> None:
    assert derived(entry("other:sa")).user == "system:serviceaccount:other:sa"
    assert derived(entry("a:b:c")).user == "system:serviceaccount:a:b:c"


def test_the_first_match_is_final() -> None:
    assert derived(entry("first", namespace="shop"), entry("second")).user.endswith(":first")
    assert derived(entry("first", namespace="other"), entry("second")).user.endswith(":second")
    assert derived(entry("first", server="https://x"), entry("second")).user.endswith(":second")


@pytest.mark.parametrize("account", ["", "  ", "sa*", "[sa", "a/b", "!sa"])
def test_a_match_without_a_usable_account_fails_without_looking_further(account: str) -> None:
    found = derived(entry(account), entry("fine"))
    assert found.outcome is AccountOutcome.INVALID
    assert found.error == f"default service account contains invalid chars '{account}'"
    assert is_forbidden(account)


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        (entry(server="["), "invalid glob pattern for destination server: unexpected end of input"),
        (entry(namespace="["), "invalid glob pattern for destination namespace: unexpected end of input"),
    ],
)
def test_a_pattern_that_does_not_compile_ends_the_walk(broken: ServiceAccountEntry, error: str) -> None:
    found = derived(entry("other", namespace="nowhere"), broken, entry("fine"))
    assert (found.outcome, found.error, found.user) == (AccountOutcome.INVALID, error, "")
    assert derived(entry("fine"), broken).user.endswith(":fine")


def test_a_pattern_that_panics_is_an_answer() -> None:
    found = derived(entry(namespace="{prod*,prod}"), namespace="prod")
    assert found.outcome is AccountOutcome.PANIC
    assert found.error == "the pattern '{prod*,prod}' for the destination namespace ends in a panic"
    assert derived(entry(server="{https://a*,https://a}"), server="https://a").outcome is AccountOutcome.PANIC


def test_no_entry_matches_nothing() -> None:
    assert derived() == Derivation(AccountOutcome.UNMATCHED)
    assert derived(entry(namespace="")).outcome is AccountOutcome.UNMATCHED


@pytest.mark.parametrize("namespace", ["", "*", "**", "?"])
def test_an_empty_destination_namespace_is_matched_as_it_is(namespace: str) -> None:
    assert derived(entry(namespace=namespace), namespace="").outcome is AccountOutcome.ACCOUNT


def test_entries_of_any_shape_are_read() -> None:
    project = {
        "spec": {
            "destinationServiceAccounts": [
                "text",
                {"server": SERVER, "namespace": "shop", "defaultServiceAccount": "sa"},
                {"server": 3, "namespace": None},
            ]
        }
    }
    assert entries_of(project) == (
        ServiceAccountEntry(SERVER, "shop", "sa", 1),
        ServiceAccountEntry("", "", "", 2),
    )
    assert entries_of(project)[0].path == "spec.destinationServiceAccounts[1]"
    assert entries_of(None) == entries_of({"spec": []}) == entries_in([]) == ()


def test_a_user_is_a_service_account_with_a_prefix() -> None:
    assert user_of("sa", namespace="ns") == "system:serviceaccount:ns:sa"


def application(namespace: str = "shop") -> dict[str, Any]:
    return {
        "metadata": {"name": "shop", "namespace": "team-a"},
        "spec": {"destination": {"namespace": namespace}},
    }


@pytest.mark.parametrize(
    ("impersonation", "behaviour", "version", "expected"),
    [
        (ImpersonationSwitch(), Behaviour.RELEASE, (3, 5), Derivation(AccountOutcome.CONTROLLER)),
        (
            ImpersonationSwitch(enabled=True),
            Behaviour.RELEASE,
            (3, 5),
            Derivation(
                AccountOutcome.UNMATCHED,
                error=f"no matching service account found for destination server {SERVER} and namespace ",
            ),
        ),
        (
            ImpersonationSwitch(enabled=True),
            Behaviour.RELEASE,
            (3, 4),
            Derivation(
                AccountOutcome.UNMATCHED,
                error=f"no matching service account found for destination server {SERVER} and namespace team-a",
            ),
        ),
        (
            ImpersonationSwitch(enabled=True, enforced=False),
            Behaviour.RELEASE,
            (3, 5),
            Derivation(AccountOutcome.CONTROLLER),
        ),
        (
            ImpersonationSwitch(enabled=True),
            Behaviour.PROPOSAL,
            (3, 5),
            Derivation(AccountOutcome.DEFAULT, user="system:serviceaccount:team-a:default"),
        ),
    ],
)
def test_what_happens_without_a_match_depends_on_who_is_asked(
    impersonation: ImpersonationSwitch, behaviour: Behaviour, version: tuple[int, ...], expected: Derivation
) -> None:
    found = account_for(
        application(namespace=""),
        entries=[entry(namespace="x")],
        server=SERVER,
        settings=Settings(impersonation=impersonation),
        configuration=Configuration(
            argocd=ArgoCD(version=version),
            impersonation=ImpersonationOptions(behaviour=behaviour),
        ),
    )
    assert found == expected


def test_the_proposals_default_account_is_the_destinations() -> None:
    found = account_for(
        application(),
        entries=(),
        server=SERVER,
        settings=Settings(impersonation=ImpersonationSwitch(enabled=True)),
        configuration=Configuration(impersonation=ImpersonationOptions(behaviour=Behaviour.PROPOSAL)),
    )
    assert found.user == "system:serviceaccount:shop:default"


def test_a_match_is_the_same_for_everybody() -> None:
    for behaviour in Behaviour:
        found = account_for(
            application(),
            entries=[entry()],
            server=SERVER,
            settings=Settings(impersonation=ImpersonationSwitch(enabled=True)),
            configuration=Configuration(impersonation=ImpersonationOptions(behaviour=behaviour)),
        )
        assert found.user == "system:serviceaccount:shop:sa"
