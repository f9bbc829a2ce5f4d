"""A project on the other side: the agent's copy and the principal's mirror."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argocd import names
from argocd.agents.project_copies import (
    NAME_LIMIT,
    NameTooLongError,
    bare_name,
    is_mirror_of,
    prefixed_name,
    project_at_principal,
    project_for_agent,
    role_line,
    settled_project,
)
from argocd.agents.routing import AgentMapping
from argocd.agents.vocabulary import Mode
from tests.argocd.agents.agent_objects import NAMES, OBJECTS, project, projects

LOCAL = {"name": names.IN_CLUSTER_NAME, "server": names.IN_CLUSTER_SERVER}
SHOP = project(
    annotations={"note": "x"},
    description="d",
    destinations=[
        {"name": "edge-*", "server": "https://anywhere", "namespace": "shop"},
        {"server": "https://proxy?agentName=edge-1", "namespace": ""},
        {"server": "*", "namespace": "shop"},
        {"name": "other", "namespace": "*"},
    ],
    sourceNamespaces=["edge-*", "argocd"],
    roles=[{"name": "r", "policies": ["p, proj:shop:r, applications, get, shop/*, allow"], "groups": ["g"]}],
    destinationServiceAccounts=[{"server": names.IN_CLUSTER_SERVER, "defaultServiceAccount": "a"}],
)


def for_edge(mapped_by: AgentMapping = AgentMapping.NAMESPACE, **how: Any) -> dict[str, Any]:
    return project_for_agent(SHOP, agent="edge-1", mapped_by=mapped_by, **how)


def test_an_agents_copy_has_its_own_destinations_and_no_roles() -> None:
    given = copy.deepcopy(SHOP)
    assert for_edge() == {
        "metadata": SHOP["metadata"],
        "spec": {
            "description": "d",
            "destinations": [{**LOCAL, "namespace": "shop"}, LOCAL],
            "destinationServiceAccounts": SHOP["spec"]["destinationServiceAccounts"],
        },
    }
    assert given == SHOP, "what was given stays as it was"


def test_of_destinations_that_became_the_same_one_is_kept() -> None:
    assert len(for_edge()["spec"]["destinations"]) == 2
    mirror = project_at_principal(SHOP, agent="edge-1", namespace="argocd")
    given = [destination.get("namespace", "") for destination in SHOP["spec"]["destinations"]]
    assert [one.get("namespace", "") for one in mirror["spec"]["destinations"]] == list(dict.fromkeys(given))


def test_with_destination_mapping_source_namespaces_stay() -> None:
    assert for_edge(AgentMapping.DESTINATION)["spec"]["sourceNamespaces"] == ["edge-*", "argocd"]


def test_a_replicated_project_goes_under_the_uid_that_agents_know() -> None:
    replicated = project(annotations={names.SOURCE_UID: "first"})
    copy = project_for_agent(replicated, agent="x", mapped_by=AgentMapping.NAMESPACE)
    assert copy["metadata"]["uid"] == "first"


def test_for_an_autonomous_agent_roles_stay() -> None:
    assert for_edge(mode=Mode.AUTONOMOUS)["spec"]["roles"] == SHOP["spec"]["roles"]


def test_a_copy_without_destinations_has_no_list_of_them() -> None:
    nobody = project_for_agent(
        project(destinations=[{"name": "x"}]), agent="y", mapped_by=AgentMapping.NAMESPACE
    )
    assert nobody["spec"] == {}


def test_a_mirror_has_the_agents_name_before_its_own() -> None:
    mirror = project_at_principal(
        {**SHOP, "metadata": {**SHOP["metadata"], "ownerReferences": [{}], "namespace": "its-own"}},
        agent="edge-1",
        namespace="argocd",
    )
    assert mirror == {
        "metadata": {
            "name": "edge-1-shop",
            "namespace": "argocd",
            "uid": "uid-shop",
            "resourceVersion": "7",
            "annotations": {"note": "x", names.SOURCE_UID: "uid-shop"},
        },
        "spec": {
            "description": "d",
            "sourceNamespaces": ["edge-1"],
            "destinations": [
                {"name": "edge-1", "server": "*", "namespace": "shop"},
                {"name": "edge-1", "server": "*", "namespace": ""},
                {"name": "edge-1", "server": "*", "namespace": "*"},
            ],
            "roles": [
                {
                    "name": "r",
                    "policies": ["p, proj:edge-1-shop:r, applications, get, edge-1-shop/edge-1/*, allow"],
                    "groups": ["g"],
                }
            ],
            "destinationServiceAccounts": SHOP["spec"]["destinationServiceAccounts"],
        },
    }


def test_the_source_of_a_mirror_may_be_given() -> None:
    mirror = project_at_principal(SHOP, agent="edge-1", namespace="argocd", source_uid="other")
    assert mirror["metadata"]["annotations"][names.SOURCE_UID] == "other"


def test_a_project_that_looks_prefixed_but_is_no_mirror_is_prefixed() -> None:
    own = project(name="edge-1-shop")
    assert (
        project_at_principal(own, agent="edge-1", namespace="argocd")["metadata"]["name"]
        == "edge-1-edge-1-shop"
    )


def test_a_name_has_a_limit() -> None:
    assert prefixed_name("a", "b" * (NAME_LIMIT - 2)) == "a-" + "b" * (NAME_LIMIT - 2)
    with pytest.raises(NameTooLongError, match="longer than the 253 characters"):
        prefixed_name("a", "b" * (NAME_LIMIT - 1))


def test_a_bare_name_is_what_follows_the_prefix() -> None:
    assert bare_name("a", "a-b-c") == "b-c"
    assert bare_name("a-b", "a-b-c") == "c"
    assert bare_name("x", "a-b-c") == "a-b-c"


def test_roles_without_policies_stay() -> None:
    roles = [{"name": "r"}, "text", {"name": "s", "policies": [7]}, {"name": "t", "policies": ["x", None]}]
    assert settled_project(project(roles=roles), agent="a")["spec"]["roles"] == roles


@pytest.mark.parametrize(
    ("line", "rewritten"),
    [
        (
            "p, proj:shop:r, applications, get, shop/*, allow",
            "p, proj:a-shop:r, applications, get, a-shop/a/*, allow",
        ),
        ("p, proj:shop:r, exec, create, shop/x, deny", "p, proj:a-shop:r, exec, create, a-shop/a/x, deny"),
        ("p, proj:shop:r, logs, get, shop/ns/x, allow", "p, proj:a-shop:r, logs, get, shop/ns/x, allow"),
        ("p, proj:shop:r, logs, get, *, allow", "p, proj:a-shop:r, logs, get, *, allow"),
        ("p, proj:shop, logs, get, shop/x, allow", "p, proj:shop, logs, get, a-shop/a/x, allow"),
        ("p,proj:shop:r,logs,get,shop/x,allow", "p,proj:a-shop:r,logs,get, a-shop/a/x,allow"),
        ("p,  proj:shop:r ,logs,get, shop/x,allow", "p,  proj:a-shop:r ,logs,get, a-shop/a/x,allow"),
    ],
)
def test_a_policy_gets_the_prefixed_name(line: str, rewritten: str) -> None:
    assert role_line(line, role="r", original="shop", prefixed="a-shop", namespace="a") == rewritten
    assert role_line(rewritten, role="r", original="shop", prefixed="a-shop", namespace="a") == rewritten


@pytest.mark.parametrize(
    "line",
    [
        "",
        "g, someone, proj:shop:r",
        "g, proj:shop:r, applications, get, shop/*, allow",
        "p, proj:shop:r, repositories, get, shop/*, allow",
        "p, proj:shop:other, applications, get, shop/*, allow",
        "p, proj:other:r, applications, get, shop/*, allow",
        "p, role:shop:r, applications, get, shop/*, allow",
        "p, role:ops, applications, get, shop/*, allow",
        "p, ada, logs, get, shop/*, allow",
        "p, proj:shop:r, applications, get, other/*, allow",
        "p, proj:shop:r, applications, get, shop/*, allow, more",
    ],
)
def test_a_policy_about_something_else_stays(line: str) -> None:
    assert role_line(line, role="r", original="shop", prefixed="a-shop", namespace="a") == line


@given(projects(), st.sampled_from(NAMES))
def test_a_mirror_rewritten_twice_is_the_mirror(thing: Any, agent: str) -> None:
    once = project_at_principal(thing, agent=agent, namespace="argocd")
    assert is_mirror_of(once, agent=agent, namespace="argocd")
    assert project_at_principal(once, agent=agent, namespace="argocd") == once


@given(projects() | OBJECTS, st.sampled_from(NAMES))
def test_settling_twice_is_settling_once(thing: Any, agent: str) -> None:
    once = settled_project(thing, agent=agent)
    assert settled_project(once, agent=agent) == once


@given(projects() | OBJECTS, st.sampled_from(NAMES), st.sampled_from(AgentMapping))
def test_nothing_that_is_given_is_changed(thing: Any, agent: str, mapped_by: AgentMapping) -> None:
    before = copy.deepcopy(thing)
    project_for_agent(thing, agent=agent, mapped_by=mapped_by)
    project_at_principal(thing, agent=agent, namespace="argocd")
    assert thing == before
