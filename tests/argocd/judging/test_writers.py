"""Who is who."""

import pytest

from argocd.judging import writers
from argocd.judging.case import Surroundings, User
from argocd.judging.configuration import Agents, ArgoCD, Configuration
from argocd.settings.argocd_cm import ImpersonationSwitch, Settings
from tests.argocd.fake_neighbours import Nothing


class Projects(Nothing):
    def is_sync_account(self, namespace: str, name: str) -> bool | None:
        return (namespace, name) == ("team-a", "deployer")


def surroundings(
    *,
    configuration: Configuration | None = None,
    impersonation: bool = False,
    neighbours: Nothing | None = None,
) -> Surroundings:
    return Surroundings(
        settings=Settings(impersonation=ImpersonationSwitch(enabled=impersonation)),
        configuration=configuration or Configuration(),
        neighbours=neighbours or Nothing(),
    )


def account(namespace: str, name: str) -> User:
    return User(user=f"system:serviceaccount:{namespace}:{name}")


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ("system:serviceaccount:ns:sa", ("ns", "sa")),
        ("system:serviceaccount:ns:", None),
        ("system:serviceaccount::sa", None),
        ("system:serviceaccount:a:b:c", None),
        ("ns:sa", None),
        ("", None),
    ],
)
def test_a_service_account_has_a_namespace_and_a_name(user: str, expected: tuple[str, str] | None) -> None:
    assert writers.service_account(user) == expected


@pytest.mark.parametrize(
    ("writer", "expected"),
    [
        (account("argocd", "argocd-application-controller"), True),
        (account("argocd", "argocd-server"), True),
        (account("argocd", "argocd-applicationset-controller"), True),
        (account("argocd", "argocd-notifications-controller"), True),
        (account("argocd", "argocd-dex-server"), False),
        (account("team-a", "argocd-server"), False),
        (account("kube-system", "argocd-manager"), True),
        (account("gitops", "my-controller"), True),
        (User(user="ada"), False),
        (User(), False),
    ],
)
def test_argocd_is_its_writing_accounts_and_what_is_configured(writer: User, *, expected: bool) -> None:
    configuration = Configuration(argocd=ArgoCD(identities=("system:serviceaccount:gitops:*",)))
    assert writers.is_argocd(writer, surroundings(configuration=configuration)) is expected


def test_an_empty_writer_is_nobody_even_with_a_glob_for_everybody() -> None:
    configuration = Configuration(argocd=ArgoCD(identities=("*",)))
    assert not writers.is_argocd(User(), surroundings(configuration=configuration))


def test_an_account_that_a_project_names_syncs_while_impersonation_is_on_and_is_never_argocd() -> None:
    writer = account("team-a", "deployer")
    assert writers.is_syncing(writer, surroundings(impersonation=True, neighbours=Projects()))
    assert not writers.is_argocd(writer, surroundings(impersonation=True, neighbours=Projects()))
    assert not writers.is_syncing(writer, surroundings(neighbours=Projects()))
    assert not writers.is_syncing(writer, surroundings(impersonation=True))
    assert not writers.is_syncing(User(user="ada"), surroundings(impersonation=True, neighbours=Projects()))


def test_the_sidecars_are_told_by_their_accounts() -> None:
    configuration = Configuration(
        agents=Agents(
            principal_identities=("principal@*",),
            agent_identities=("agent@*",),
            replica_identities=("replica@*",),
        )
    )
    for name in ("tiphys-principal", "argocd-agent-principal"):
        assert writers.is_principal(account("argocd", name), configuration)
    for name in ("tiphys-agent", "argocd-agent-agent"):
        assert writers.is_agent(account("argocd", name), configuration)
    assert writers.is_replica(account("argocd", "tiphys-replica"), configuration)
    assert writers.is_principal(User(user="principal@x"), configuration)
    assert writers.is_agent(User(user="agent@x"), configuration)
    assert writers.is_replica(User(user="replica@x"), configuration)
    assert not writers.is_principal(account("argocd", "tiphys-agent"), configuration)
    assert not writers.is_agent(account("argocd", "tiphys-principal"), configuration)
    assert not writers.is_replica(account("team-a", "tiphys-replica"), configuration)


@pytest.mark.parametrize(
    ("user", "agent"),
    [
        ("system:serviceaccount:agents:edge-1", "edge-1"),
        ("xsystem:serviceaccount:agents:edge-1", ""),
        ("system:serviceaccount:agents:edge-1:x", ""),
        ("", ""),
    ],
)
def test_a_configured_expression_names_the_agent_of_a_writer(user: str, agent: str) -> None:
    configuration = Configuration(
        agents=Agents(identity="system:serviceaccount:agents:(?P<agent>[a-z0-9-]+)")
    )
    assert writers.agent_named(User(user=user), configuration) == agent
    assert writers.is_agent(User(user=user), configuration) is bool(agent)


def test_without_an_expression_no_writer_belongs_to_an_agent() -> None:
    assert writers.agent_named(User(user="edge-1"), Configuration()) == ""


def test_an_agent_group_that_took_no_part_names_nobody() -> None:
    configuration = Configuration(agents=Agents(identity="x|(?P<agent>y)"))
    assert writers.agent_named(User(user="x"), configuration) == ""


def test_kubernetes_cleans_up_under_three_names() -> None:
    for user in (
        "system:serviceaccount:kube-system:generic-garbage-collector",
        "system:serviceaccount:kube-system:namespace-controller",
        "system:kube-controller-manager",
    ):
        assert writers.is_kubernetes_cleaning_up(User(user=user))
    assert not writers.is_kubernetes_cleaning_up(User(user="ada"))


def test_tiphys_is_its_account_in_its_namespace() -> None:
    assert writers.is_tiphys(account("tiphys-system", "tiphys-webhook"))
    assert writers.is_tiphys(account("guard", "tiphys-webhook"), namespace="guard")
    assert not writers.is_tiphys(account("tiphys-system", "other"))
