"""The rules about mirrors and agents' projects, with their own examples and around them."""

from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argocd import names
from argocd.engine.judge import judge
from argocd.judging.case import Case, Kind, Operation, Rule, Surroundings, User
from argocd.judging.configuration import Agents, Configuration, Role
from argocd.judging.neighbours import Neighbours
from argocd.rules import agent_mirrors, agent_projects
from argocd.settings.argocd_cm import ImpersonationSwitch, Settings
from tests.argocd.agents.agent_objects import OBJECTS, application, repository
from tests.argocd.fake_neighbours import Neighbourhood, Nothing

RULES = (*agent_projects.RULES, *agent_mirrors.RULES)
TODAY = date(2026, 9, 1)
JANE = User("jane")
PRINCIPAL = User("system:serviceaccount:argocd:tiphys-principal")
AGENT = User("system:serviceaccount:argocd:tiphys-agent")
REPLICA = User("system:serviceaccount:argocd:tiphys-replica")
EMERGENCY = User("jo", (names.HA_BREAK_GLASS,))
ARGOCD = User("system:serviceaccount:argocd:argocd-application-controller")
SERVER = User("system:serviceaccount:argocd:argocd-server")
EDGE_1 = User("system:serviceaccount:edge-1:agent")
EDGE_2 = User("system:serviceaccount:edge-2:agent")
IDENTITY = "system:serviceaccount:(?P<agent>[a-z0-9-]+):agent"
SOURCE = {names.SOURCE_UID: "u"}
CREATE, UPDATE, DELETE = Operation.CREATE, Operation.UPDATE, Operation.DELETE


def case_of(
    item: Any,
    *,
    old: Any = None,
    kind: Kind = Kind.PROJECT,
    operation: Operation | None = None,
    writer: User = JANE,
    role: Role = Role.CONTROL_PLANE,
    autonomous: tuple[str, ...] = ("edge-*",),
    neighbours: Neighbours | None = None,
) -> Case:
    configuration = Configuration(role=role, agents=Agents(autonomous=autonomous, identity=IDENTITY))
    return Case(
        kind=kind,
        object=item,
        old=old,
        operation=operation or (CREATE if old is None else UPDATE),
        writer=writer,
        surroundings=Surroundings(Settings(), configuration, neighbours or Nothing()),
    )


def found(case: Case, rules: tuple[Rule, ...] = RULES) -> set[str]:
    return {judgement.finding.rule for judgement in judge(case, today=TODAY, rules=rules)}


def mirror(**metadata: Any) -> dict[str, Any]:
    return {
        "kind": "AppProject",
        "metadata": {
            "name": "edge-1-shop",
            "namespace": "argocd",
            "annotations": {names.TIPHYS_AGENT: "edge-1"},
            **metadata,
        },
        "spec": {"sourceNamespaces": ["edge-1"], "destinations": [{"name": "edge-1", "server": "*"}]},
    }


def changed(item: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {**item, "spec": {**item["spec"], **spec}}


@pytest.mark.parametrize("writer", [PRINCIPAL, EDGE_1, ARGOCD])
def test_keepers_of_an_agents_project_may_do_everything(writer: User) -> None:
    assert found(case_of(mirror(), writer=writer)) == set()
    assert found(case_of(changed(mirror(), description="d"), old=mirror(), writer=writer)) == set()
    assert found(case_of(mirror(), operation=DELETE, writer=writer)) == set()


@pytest.mark.parametrize("writer", [JANE, EDGE_2, AGENT, REPLICA])
def test_nobody_else_may(writer: User) -> None:
    assert "agent/mirror-changed" in found(case_of(mirror(), writer=writer))
    assert "agent/mirror-changed" in found(
        case_of(changed(mirror(), description="d"), old=mirror(), writer=writer)
    )
    assert found(case_of(mirror(), operation=DELETE, writer=writer)) == {"agent/mirror-deleted"}


@pytest.mark.parametrize("role", [Role.CONTROL_PLANE, Role.WORKLOAD])
def test_owner_references_are_protected_because_the_garbage_collector_follows_them(role: Role) -> None:
    before = mirror(annotations={names.TIPHYS_AGENT: "edge-1", **SOURCE})
    owner = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "never-there", "uid": "0"}]
    owned = mirror(annotations={names.TIPHYS_AGENT: "edge-1", **SOURCE}, ownerReferences=owner)
    assert "agent/mirror-changed" in found(case_of(owned, old=before, role=role))
    assert found(case_of(owned, old=before, role=role, writer=ARGOCD)) == set()


def test_an_account_that_a_project_names_keeps_no_mirrors() -> None:
    class Named(Nothing):
        def is_sync_account(self, namespace: str, name: str) -> bool | None:
            return True

    case = case_of(
        changed(mirror(), description="d"),
        old=mirror(),
        writer=User("system:serviceaccount:team-x:default"),
        neighbours=Named(),
    )
    impersonated = replace(
        case.surroundings, settings=Settings(impersonation=ImpersonationSwitch(enabled=True))
    )
    assert found(replace(case, surroundings=impersonated)) == {"agent/mirror-changed"}


@pytest.mark.parametrize("key", ["sourceRepos", "clusterResourceWhitelist", "description"])
def test_an_agents_own_identity_changes_nothing_of_a_native_project(key: str) -> None:
    native = {**mirror(annotations={}, name="infra"), "spec": {}}
    assert "agent/project-name-taken" in found(
        case_of({**native, "spec": {key: []}}, old=native, writer=EDGE_1)
    )


def test_marks_cannot_be_taken_away_or_given_by_others() -> None:
    native = mirror(annotations={}, name="native")
    assert "agent/mirror-changed" in found(case_of(native, old=mirror(name="native")))
    assert "agent/mirror-changed" in found(case_of(mirror(name="native"), old=native))


def test_labels_other_annotations_and_status_pass() -> None:
    annotations = {names.TIPHYS_AGENT: "edge-1", "note": "x"}
    item = {**mirror(labels={"a": "b"}, annotations=annotations), "status": {"x": 1}}
    assert found(case_of(item, old=mirror())) == set()


def test_labels_and_annotations_by_argocd_server_are_refused_and_its_requests_pass() -> None:
    app = application(namespace="edge-1", metadata={"annotations": SOURCE, "labels": {"team": "shop"}})

    def judged(role: Role = Role.CONTROL_PLANE, **metadata: Any) -> set[str]:
        edited = {**app, "metadata": {**app["metadata"], **metadata}}
        return found(case_of(edited, old=app, kind=Kind.APPLICATION, role=role, writer=SERVER))

    assert judged(labels={"team": "other"}) == {"agent/mirror-changed"}
    assert judged(annotations={**SOURCE, "note": "x"}) == {"agent/mirror-changed"}
    assert judged(annotations={**SOURCE, names.REFRESH: "hard", names.HYDRATE: "normal"}) == set()
    assert judged(finalizers=[names.RESOURCES_FINALIZER]) == set()
    assert judged(Role.WORKLOAD, labels={"team": "other"}) == set()


def test_an_update_that_changes_nothing_is_nobodys_business() -> None:
    assert list(agent_mirrors.RULES[0].check(case_of(mirror(), old=mirror()))) == []


def test_in_a_pipeline_nobody_has_written_yet() -> None:
    assert found(case_of(mirror(), writer=User())) == set()
    assert found(case_of(mirror(), operation=DELETE, writer=User())) == set()


def test_a_mirrored_application_is_protected_in_its_spec_alone() -> None:
    app = application(namespace="edge-1", metadata={"annotations": SOURCE})

    def judged(new: dict[str, Any], writer: User = JANE) -> set[str]:
        return found(case_of(new, old=app, kind=Kind.APPLICATION, writer=writer))

    assert judged({**app, "spec": {}}) == {"agent/mirror-changed"}
    assert judged({**app, "spec": {}}, PRINCIPAL) == set()
    assert judged({**app, "spec": {}}, EDGE_1) == set()
    assert judged({**app, "spec": {}}, EDGE_2) == {"agent/mirror-changed"}
    assert judged({**app, "operation": {"sync": {}}, "status": {"x": 1}}) == set()


@pytest.mark.parametrize(
    ("role", "keeper", "others"),
    [
        (Role.WORKLOAD, (AGENT, ARGOCD), (JANE, PRINCIPAL, REPLICA)),
        (Role.STANDBY, (REPLICA, PRINCIPAL, EMERGENCY), (JANE, AGENT, ARGOCD)),
    ],
)
def test_mirrors_elsewhere_are_kept_by_their_keeper(
    role: Role, keeper: tuple[User, ...], others: tuple[User, ...]
) -> None:
    secret = repository()
    secret["metadata"]["annotations"] = SOURCE
    items: list[tuple[Kind, dict[str, Any], dict[str, Any]]] = [
        (Kind.APPLICATION, application(metadata={"annotations": SOURCE}), {"spec": {}}),
        (Kind.PROJECT, {"metadata": {"name": "x", "annotations": SOURCE}}, {"spec": {}}),
        (Kind.REPOSITORY, secret, {"data": {"url": "eA=="}}),
    ]
    for kind, item, change in items:
        for writer in (*keeper, *others):
            refused = (
                ("agent/standby",) * 2
                if role is Role.STANDBY
                else ("agent/mirror-changed", "agent/mirror-deleted")
            )
            expected = set() if writer in keeper else {refused[0]}
            update = case_of({**item, **change}, old=item, kind=kind, role=role, writer=writer)
            assert found(update) == expected, (kind, writer)
            deletion = case_of(item, kind=kind, role=role, writer=writer, operation=DELETE)
            assert found(deletion) == ({refused[1]} if expected else set())


def test_on_a_standby_a_new_object_without_any_mark_is_refused_too() -> None:
    native = {"metadata": {"name": "x"}, "spec": {}}
    for writer, expected in ((JANE, {"agent/standby"}), (PRINCIPAL, set()), (User(), set())):
        assert found(case_of(native, role=Role.STANDBY, writer=writer)) == expected


def test_a_backup_may_be_restored() -> None:
    item = application(metadata={"annotations": SOURCE})
    assert found(case_of(item, kind=Kind.APPLICATION, role=Role.WORKLOAD)) == set()


def test_each_cluster_says_who_keeps_its_mirrors() -> None:
    messages = {
        role: judge(
            case_of(
                mirror(annotations={**SOURCE, names.TIPHYS_AGENT: "edge-1"}), operation=DELETE, role=role
            ),
            today=TODAY,
            rules=RULES,
        )[0].finding.message
        for role in Role
    }
    assert messages == {
        Role.CONTROL_PLANE: "this is the mirror of what the autonomous agent edge-1 has: "
        "only the principal and that agent may delete it",
        Role.WORKLOAD: "this is the mirror of what the principal has: only the agent may delete it",
        Role.STANDBY: "this cluster is a standby of its peer in the other region: "
        "only the principal here writes, what is written there",
    }


def test_an_agent_may_not_touch_a_project_of_the_control_plane() -> None:
    native = {"metadata": {"name": "default", "namespace": "argocd"}, "spec": {}}
    assert found(case_of(changed(native, sourceNamespaces=["*"]), old=native, writer=EDGE_1)) == {
        "agent/project-name",
        "agent/project-name-taken",
    }


def test_a_project_without_the_prefix_is_told_its_name() -> None:
    [judgement] = judge(case_of(mirror(name="shop"), writer=PRINCIPAL), today=TODAY, rules=RULES)
    assert judgement.finding.message == "a project of the agent edge-1 must be called edge-1-shop, not shop"
    assert judgement.finding.hint == "Call it edge-1-shop."


def test_a_name_that_cannot_be_prefixed_must_be_shorter() -> None:
    [judgement] = judge(case_of(mirror(name="x" * 250), writer=PRINCIPAL), today=TODAY, rules=RULES)
    assert "shorten" in judgement.finding.hint


def test_two_agents_cannot_share_a_name() -> None:
    first = mirror(name="edge-1-b-c", annotations={names.TIPHYS_AGENT: "edge-1-b"})
    second = mirror(name="edge-1-b-c")
    there = Neighbourhood(projects=[first])
    assert "agent/project-name-taken" in found(case_of(second, neighbours=there, writer=PRINCIPAL))
    assert "agent/project-name-taken" in found(case_of(second, old=first, writer=PRINCIPAL))
    assert found(case_of(second, neighbours=Neighbourhood(), writer=PRINCIPAL)) == set()


def test_content_is_judged_once_the_name_is_right() -> None:
    item = changed(mirror(), destinations=[{"server": names.IN_CLUSTER_SERVER}], sourceNamespaces=["argocd"])
    judgements = judge(case_of(item, writer=PRINCIPAL), today=TODAY, rules=RULES)
    assert [judgement.finding.path for judgement in judgements] == [
        "spec.sourceNamespaces",
        "spec.destinations",
    ]
    assert found(case_of({**item, "metadata": mirror(name="shop")["metadata"]}, writer=PRINCIPAL)) == {
        "agent/project-name"
    }


def test_rules_of_the_control_plane_are_silent_elsewhere() -> None:
    item = mirror(name="shop", namespace="elsewhere")
    there = Neighbourhood(projects=[mirror()])
    for role, keeper in ((Role.WORKLOAD, AGENT), (Role.STANDBY, PRINCIPAL)):
        assert found(case_of(item, role=role, writer=keeper, neighbours=there)) == set()
        app = application(spec={"project": "edge-1-shop"})
        assert found(case_of(app, kind=Kind.APPLICATION, role=role, writer=keeper, neighbours=there)) == set()
        accounts = [{"server": "https://proxy?agentName=edge-2"}]
        assert (
            found(case_of({"spec": {"destinationServiceAccounts": accounts}}, role=role, writer=keeper))
            == set()
        )


def test_an_unknown_project_is_no_agents() -> None:
    assert found(case_of(application(spec={"project": "edge-1-shop"}), kind=Kind.APPLICATION)) == set()


@pytest.mark.parametrize("writer", [AGENT, ARGOCD])
def test_who_brings_projects_to_a_workload_cluster_is_not_warned(writer: User) -> None:
    item = {"metadata": {"name": "x"}, "spec": {}}
    assert found(case_of(item, role=Role.WORKLOAD, autonomous=())) == {"agent/local-project"}
    assert found(case_of(item, role=Role.WORKLOAD, autonomous=(), writer=writer)) == set()
    assert found(case_of(item, role=Role.WORKLOAD, autonomous=("*",))) == set()
    copy = {"metadata": {"name": "x", "annotations": SOURCE}, "spec": {}}
    assert found(case_of(copy, role=Role.WORKLOAD, autonomous=())) == set()


@given(
    OBJECTS,
    st.none() | OBJECTS,
    st.sampled_from(Role),
    st.sampled_from([JANE, PRINCIPAL, EDGE_1, User()]),
    st.sampled_from([Kind.PROJECT, Kind.APPLICATION, Kind.REPOSITORY]),
)
def test_no_shape_of_an_object_breaks_a_rule(
    item: Any, old: Any, role: Role, writer: User, kind: Kind
) -> None:
    for operation in Operation:
        case = case_of(
            item, old=old, kind=kind, role=role, writer=writer, operation=operation, autonomous=("*",)
        )
        for rule in RULES:
            assert all(finding.rule == rule.id for finding in rule.check(case))
