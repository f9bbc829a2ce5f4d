"""Whose project is this, and who may touch it?"""

from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from argocd import names
from argocd.agents import autonomous_projects
from argocd.agents.autonomous_projects import (
    accounts_for_the_control_plane,
    admission_patch,
    fits,
    is_mirror,
    may_change_mirror,
    owner_for,
    owner_of,
    right_name,
    settling_patch,
    unsettled_fields,
)
from argocd.agents.project_copies import settled_project
from argocd.judging.case import Case, Kind, Operation, Surroundings, User
from argocd.judging.configuration import Agents, Configuration, Role
from argocd.settings.argocd_cm import Settings
from tests.argocd.agents.agent_objects import NAMES, OBJECTS, application, project, projects
from tests.argocd.fake_neighbours import Nothing

PLAIN = Configuration()
CONFIGURED = Configuration(
    agents=Agents(autonomous=("edge-*",), identity="system:serviceaccount:(?P<agent>[a-z0-9-]+):agent")
)
ACCOUNT = "system:serviceaccount:argocd:"
MARKED = {names.TIPHYS_AGENT: "edge-1"}
SOURCE = {names.SOURCE_UID: "u"}
EDGE_AGENT = User("system:serviceaccount:edge-1:agent")


@pytest.mark.parametrize(
    ("thing", "configuration", "owner"),
    [
        (project(annotations=MARKED), PLAIN, "edge-1"),
        (project(annotations=SOURCE, sourceNamespaces=["edge-1"]), CONFIGURED, "edge-1"),
        (project(annotations=SOURCE, sourceNamespaces=["edge-1"]), PLAIN, ""),
        (project(annotations=SOURCE, sourceNamespaces=["other", "edge-1"]), CONFIGURED, ""),
        (project(annotations=SOURCE, sourceNamespaces=[None]), CONFIGURED, ""),
        (project(annotations=SOURCE), CONFIGURED, ""),
        (project(sourceNamespaces=["edge-1"]), CONFIGURED, ""),
        (None, CONFIGURED, ""),
    ],
)
def test_a_project_is_an_agents_by_its_marks(thing: Any, configuration: Configuration, owner: str) -> None:
    assert owner_of(thing, configuration) == owner


def test_a_writer_may_be_a_mark_too() -> None:
    assert owner_for(project(), EDGE_AGENT, CONFIGURED) == "edge-1"
    assert owner_for(project(), User("jane"), CONFIGURED) == ""
    assert owner_for(project(annotations={names.TIPHYS_AGENT: "edge-2"}), EDGE_AGENT, CONFIGURED) == "edge-2"


MIRRORED_APP = application(namespace="edge-1", metadata={"annotations": SOURCE})


@pytest.mark.parametrize(
    ("item", "kind", "role", "mirror"),
    [
        (project(annotations=MARKED), Kind.PROJECT, Role.CONTROL_PLANE, True),
        (project(annotations=SOURCE), Kind.PROJECT, Role.CONTROL_PLANE, False),
        (MIRRORED_APP, Kind.APPLICATION, Role.CONTROL_PLANE, True),
        (application(namespace="edge-1"), Kind.APPLICATION, Role.CONTROL_PLANE, False),
        (application(metadata={"annotations": SOURCE}), Kind.APPLICATION, Role.CONTROL_PLANE, False),
        (MIRRORED_APP, Kind.REPOSITORY, Role.CONTROL_PLANE, False),
        (project(annotations=SOURCE), Kind.PROJECT, Role.WORKLOAD, True),
        (project(), Kind.PROJECT, Role.WORKLOAD, False),
        (application(metadata={"annotations": SOURCE}), Kind.APPLICATION, Role.STANDBY, True),
        (None, Kind.APPLICATION, Role.STANDBY, False),
    ],
)
def test_what_is_a_mirror_depends_on_the_cluster(*, item: Any, kind: Kind, role: Role, mirror: bool) -> None:
    configuration = Configuration(role=role, agents=CONFIGURED.agents)
    assert is_mirror(item, kind, configuration) is mirror


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        (
            Role.CONTROL_PLANE,
            {
                f"{ACCOUNT}tiphys-principal",
                f"{ACCOUNT}argocd-agent-principal",
                f"{ACCOUNT}argocd-application-controller",
                EDGE_AGENT.user,
            },
        ),
        (
            Role.WORKLOAD,
            {f"{ACCOUNT}tiphys-agent", f"{ACCOUNT}argocd-agent-agent"}
            | {f"{ACCOUNT}argocd-server", f"{ACCOUNT}argocd-application-controller"}
            | {EDGE_AGENT.user, "system:serviceaccount:edge-2:agent"},
        ),
        (
            Role.STANDBY,
            {f"{ACCOUNT}tiphys-replica", f"{ACCOUNT}tiphys-principal", f"{ACCOUNT}argocd-agent-principal"},
        ),
    ],
)
def test_a_mirror_is_kept_by_its_keeper(role: Role, allowed: set[str]) -> None:
    surroundings = Surroundings(Settings(), Configuration(role=role, agents=CONFIGURED.agents), Nothing())
    everybody = {
        *(f"{ACCOUNT}{account}" for account in (*names.PRINCIPAL_ACCOUNTS, *names.AGENT_ACCOUNTS)),
        *(f"{ACCOUNT}{account}" for account in (*names.REPLICA_ACCOUNTS, "default")),
        *(f"{ACCOUNT}{account}" for account in ("argocd-server", "argocd-application-controller")),
        "jane",
        EDGE_AGENT.user,
        "system:serviceaccount:edge-2:agent",
    }
    assert {
        user for user in everybody if may_change_mirror(User(user), owner="edge-1", surroundings=surroundings)
    } == allowed


def test_an_agent_without_a_name_owns_nothing() -> None:
    surroundings = Surroundings(Settings(), PLAIN, Nothing())
    assert not may_change_mirror(User("jane"), owner="", surroundings=surroundings)


def test_the_right_name_has_the_prefix_once() -> None:
    assert right_name(project(name="shop"), "edge-1") == "edge-1-shop"
    assert right_name(project(name="edge-1-shop"), "edge-1") == "edge-1-shop"
    assert fits("x" * 253)
    assert not fits("x" * 254)


def test_what_the_rewriting_would_change_is_named_and_patched() -> None:
    thing = project(
        name="edge-1-shop",
        destinations=[{"name": "in-cluster", "namespace": "shop"}],
        sourceNamespaces=["edge-1"],
        roles=[{"name": "r", "policies": ["p, proj:shop:r, applications, get, shop/*, allow"]}],
    )
    assert list(unsettled_fields(thing, "edge-1")) == ["spec.destinations", "spec.roles"]
    assert settling_patch(thing, "edge-1") == [
        {
            "op": "add",
            "path": "/spec/destinations",
            "value": [{"name": "edge-1", "server": "*", "namespace": "shop"}],
        },
        {
            "op": "add",
            "path": "/spec/roles",
            "value": [
                {
                    "name": "r",
                    "policies": ["p, proj:edge-1-shop:r, applications, get, edge-1-shop/edge-1/*, allow"],
                }
            ],
        },
    ]


def test_a_project_without_a_spec_gets_one() -> None:
    assert settling_patch({"metadata": {"name": "edge-1-shop"}}, "edge-1") == [
        {"op": "add", "path": "/spec", "value": {"sourceNamespaces": ["edge-1"]}}
    ]


@given(projects() | OBJECTS, st.sampled_from(NAMES))
def test_a_patched_project_is_settled_and_needs_no_second_patch(thing: Any, agent: str) -> None:
    patched = jsonpatch.apply_patch(thing, settling_patch(thing, agent))
    assert patched == settled_project(thing, agent=agent)
    assert settling_patch(patched, agent) == []
    assert list(unsettled_fields(patched, agent)) == []


def patched(
    item: Any,
    *,
    old: Any = None,
    kind: Kind = Kind.PROJECT,
    operation: Operation = Operation.CREATE,
    role: Role = Role.CONTROL_PLANE,
    writer: User | None = None,
) -> list[str]:
    surroundings = Surroundings(Settings(), Configuration(role=role, agents=CONFIGURED.agents), Nothing())
    case = Case(kind, item, surroundings, old, operation, writer or User("jane"))
    return [operation["path"] for operation in admission_patch(case)]


def test_the_webhook_settles_an_agents_project_and_no_other() -> None:
    unsettled = project(name="edge-1-shop", annotations=MARKED, sourceNamespaces=["argocd"])
    native = project(name="edge-1-shop", sourceNamespaces=["argocd"])
    assert patched(unsettled) == ["/spec/sourceNamespaces"]
    assert patched(native, writer=EDGE_AGENT) == ["/spec/sourceNamespaces"]
    assert patched(native) == []
    assert patched(native, old=unsettled, operation=Operation.UPDATE) == ["/spec/sourceNamespaces"]
    assert patched(unsettled, operation=Operation.DELETE) == []
    assert patched(unsettled, role=Role.WORKLOAD) == []
    assert patched(unsettled, kind=Kind.APPLICATION) == []


def test_an_update_that_is_about_something_else_is_left_alone() -> None:
    unsettled = project(name="edge-1-shop", annotations=MARKED, sourceNamespaces=["argocd"])
    with_status = {**unsettled, "status": {"jwtTokensByRole": {}}}
    assert patched(with_status, old=unsettled, operation=Operation.UPDATE) == []


def test_accounts_that_mean_the_control_plane_are_found() -> None:
    thing = project(
        destinationServiceAccounts=[
            {"server": names.IN_CLUSTER_SERVER},
            {"server": "https://elsewhere"},
            {"server": "*"},
            {},
            "text",
        ]
    )
    assert list(accounts_for_the_control_plane(thing)) == [
        "spec.destinationServiceAccounts[0].server",
        "spec.destinationServiceAccounts[2].server",
    ]


@given(OBJECTS)
def test_objects_of_any_shape_have_an_owner_or_none(thing: Any) -> None:
    assert isinstance(owner_of(thing, CONFIGURED), str)
    assert isinstance(autonomous_projects.is_mirrored_application(thing, CONFIGURED), bool)
    assert isinstance(right_name(thing, "a"), str)
    assert all(isinstance(path, str) for path in accounts_for_the_control_plane(thing))
