"""A project that Argo CD takes is one that it takes on the other side too."""

from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from argocd.agents.project_copies import project_at_principal, project_for_agent
from argocd.agents.routing import AgentMapping
from argocd.judging.configuration import ArgoCD
from argocd.projects.validation import validate
from tests.argocd.agents.agent_objects import NAMES, project, projects

VERSION = ArgoCD().version


@given(projects(), st.sampled_from(NAMES), st.sampled_from(AgentMapping))
def test_an_agents_copy_of_a_valid_project_is_valid(thing: Any, agent: str, mapped_by: AgentMapping) -> None:
    thing["spec"].pop("roles")  # most are invalid, and a copy has none
    assume(not validate(thing, version=VERSION))
    copy = project_for_agent(thing, agent=agent, mapped_by=mapped_by)
    assert validate(copy, version=VERSION) == []


def test_destinations_that_become_the_same_do_not_make_a_copy_invalid() -> None:
    thing = project(
        destinations=[{"name": "edge-*", "namespace": "shop"}, {"name": "edge-1", "namespace": "shop"}],
        sourceNamespaces=["edge-*"],
    )
    assert validate(thing, version=VERSION) == []
    copy = project_for_agent(thing, agent="edge-1", mapped_by=AgentMapping.NAMESPACE)
    assert validate(copy, version=VERSION) == []
    copy["spec"]["destinations"] *= 2
    assert validate(copy, version=VERSION) != []


@given(projects(), st.sampled_from(NAMES))
def test_a_mirror_of_a_valid_project_has_valid_destinations(thing: Any, agent: str) -> None:
    thing["spec"].pop("roles")
    assume(not validate(thing, version=VERSION))
    mirror = project_at_principal(thing, agent=agent, namespace="argocd")
    assert validate(mirror, version=VERSION) == []


def test_policies_of_a_mirror_are_valid_under_its_new_name() -> None:
    line = "p, proj:shop:r, applications, get, shop/*, allow"
    thing = project(roles=[{"name": "r", "policies": [line]}])
    assert validate(thing, version=VERSION) == []
    mirror = project_at_principal(thing, agent="edge-1", namespace="argocd")
    assert validate(mirror, version=VERSION) == []
