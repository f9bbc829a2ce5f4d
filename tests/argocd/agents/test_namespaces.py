"""Where an Application lives on the other end."""

import pytest

from argocd import names
from argocd.agents.namespaces import PeerUnknownError, Placement, as_told_to_peer, at_agent, at_principal
from argocd.agents.routing import AgentMapping
from argocd.agents.vocabulary import Mode
from tests.argocd.agents.agent_objects import application

NAMESPACE, DESTINATION = AgentMapping.NAMESPACE, AgentMapping.DESTINATION
REMAPPED = application(namespace="own", metadata={"annotations": {names.NAMESPACE_REMAPPED: "true"}})


@pytest.mark.parametrize(
    ("namespace", "mapped_by", "mode", "placement"),
    [
        ("agent-a", NAMESPACE, Mode.MANAGED, Placement("own")),
        ("argocd", DESTINATION, Mode.MANAGED, Placement("own", remapped=True)),
        ("team", DESTINATION, Mode.MANAGED, Placement("team")),
        ("own", DESTINATION, Mode.MANAGED, Placement("own")),
        ("", DESTINATION, Mode.MANAGED, Placement("own")),
        ("argocd", DESTINATION, Mode.AUTONOMOUS, Placement("own")),
    ],
)
def test_mode_and_mapping_decide_the_namespace_at_the_agent(
    namespace: str, mapped_by: AgentMapping, mode: Mode, placement: Placement
) -> None:
    found = at_agent(
        namespace, agent_namespace="own", principal_namespace="argocd", mapped_by=mapped_by, mode=mode
    )
    assert found == placement


def test_two_ends_with_the_same_namespace_remap_nothing() -> None:
    found = at_agent("argocd", agent_namespace="argocd", principal_namespace="argocd", mapped_by=DESTINATION)
    assert found == Placement("argocd")


def test_the_mapping_decides_the_namespace_at_the_principal() -> None:
    def where(app: dict[str, object], mapped_by: AgentMapping) -> str:
        return at_principal(app, agent="agent-a", principal_namespace="argocd", mapped_by=mapped_by)

    assert where(application(namespace="own"), NAMESPACE) == "agent-a"
    assert where(application(namespace="team"), DESTINATION) == "team"
    assert where(REMAPPED, DESTINATION) == "argocd"


def test_a_remapped_application_is_asked_about_where_it_came_from() -> None:
    assert as_told_to_peer(REMAPPED, peer_namespace="argocd") == "argocd"
    assert as_told_to_peer(application(namespace="team"), peer_namespace="") == "team"
    with pytest.raises(PeerUnknownError, match="peer namespace is not set"):
        as_told_to_peer(REMAPPED, peer_namespace="")
