"""Which agent gets what, and why."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argocd import names
from argocd.agents.routing import (
    AgentMapping,
    RoutingStep,
    admits_application,
    agent_of_application,
    destination_verdict,
    explain_project,
    is_autonomous_mirror,
    namespace_is_allowed,
    project_of_repository,
    route_project,
)
from argocd.agents.vocabulary import Mode
from argocd.globs import Verdict
from tests.argocd.agents.agent_objects import OBJECTS, application, project, repository

NAMESPACE, DESTINATION = AgentMapping.NAMESPACE, AgentMapping.DESTINATION
MODES = {"agent-a": Mode.MANAGED, "agent-b": Mode.MANAGED, "edge": Mode.AUTONOMOUS}


def goes(agent: str, mapped_by: AgentMapping = NAMESPACE, **spec: Any) -> bool:
    return route_project(project(**spec), agent, mapped_by=mapped_by).goes


@pytest.mark.parametrize(
    ("agent", "destinations", "namespaces"),
    [
        ("prod", [{"name": "prod"}], ["prod"]),
        ("prod-eu", [{"name": "prod-*"}], ["*"]),
        ("prod", [{"server": "*"}], ["prod"]),
        ("prod", [{"name": "", "server": "*"}], ["prod"]),
        ("prod", [{"server": "https://proxy:9090?agentName=prod"}], ["prod"]),
        ("prod", [{"server": "https://proxy:9090?agentName=pr*"}], ["/^prod$/"]),
        ("prod", [{"name": "other"}, {"name": "prod"}], ["other", "prod"]),
        ("prod", [{"name": "{dev,prod}"}], ["*"]),
        ("prod", [{"name": "!dev"}, {"name": "*"}], ["*"]),
    ],
)
def test_an_agent_that_is_named_and_placed_gets_the_project(
    agent: str, destinations: Any, namespaces: Any
) -> None:
    assert goes(agent, destinations=destinations, sourceNamespaces=namespaces)


@pytest.mark.parametrize(
    ("agent", "destinations", "namespaces"),
    [
        ("prod", [], ["*"]),
        ("prod", [{"name": "prod"}], []),
        ("prod", [{"name": "prod"}], ["dev"]),
        ("prod", [{"name": "dev"}], ["*"]),
        ("prod", [{"name": "dev", "server": "*"}], ["*"]),
        ("prod", [{"name": "dev", "server": "https://proxy?agentName=prod"}], ["*"]),
        ("prod", [{"server": "https://kubernetes.default.svc"}], ["*"]),
        ("prod", [{"server": "https://proxy?agentName=prod;x"}], ["*"]),
        ("prod", [{"server": "%zz"}], ["*"]),
        ("prod", [{"namespace": "*"}], ["*"]),
        ("prod", [{"name": "*"}, {"name": "!prod"}], ["*"]),
        ("prod", [{"name": "!dev"}], ["*"]),
        ("prod", [{"name": "["}], ["*"]),
        ("prod", [{"name": "PROD"}], ["*"]),
        ("prod", ["prod", None, 7, {"name": 7}], ["*", None]),
    ],
)
def test_all_others_do_not(agent: str, destinations: Any, namespaces: Any) -> None:
    assert not goes(agent, destinations=destinations, sourceNamespaces=namespaces)


def test_with_destination_mapping_source_namespaces_do_not_matter() -> None:
    assert goes("prod", DESTINATION, destinations=[{"name": "prod"}])
    assert not goes(
        "prod", DESTINATION, destinations=[{"name": "*"}, {"name": "!prod"}], sourceNamespaces=["*"]
    )


def test_every_step_is_told() -> None:
    route = route_project(
        project(
            destinations=[{"name": "!dev-*"}, {"name": "pr["}, {"server": "?agentName=prod"}],
            sourceNamespaces=["dev", "prod"],
        ),
        "prod",
        mapped_by=NAMESPACE,
    )
    assert route.goes
    assert route.because == "spec.destinations name it"
    assert route.steps == (
        RoutingStep("spec.destinations[0].name", "dev-*", Verdict.NO, denies=True),
        RoutingStep("spec.destinations[1].name", "pr[", Verdict.NO, problem=route.steps[1].problem),
        RoutingStep("spec.destinations[2].server", "prod", Verdict.YES),
        RoutingStep("spec.sourceNamespaces[0]", "dev", Verdict.NO),
        RoutingStep("spec.sourceNamespaces[1]", "prod", Verdict.YES),
    )
    assert route.steps[1].problem
    assert [step.matched for step in route.steps] == [False, False, True, False, True]


@pytest.mark.parametrize(
    ("spec", "because"),
    [
        ({"destinations": [{"name": "!prod"}, {"name": "*"}]}, "spec.destinations[0].name denies it"),
        ({"destinations": [{"name": "prod"}]}, "no entry of spec.sourceNamespaces matches it"),
        ({"sourceNamespaces": ["prod"]}, "no entry of spec.destinations matches it"),
    ],
)
def test_a_refusal_has_a_reason(spec: Any, because: str) -> None:
    assert route_project(project(**spec), "prod", mapped_by=NAMESPACE).because == because


def test_a_pattern_on_which_the_agent_would_crash_is_told_and_matches_nobody() -> None:
    route = route_project(
        project(destinations=[{"name": "cluster-1?{"}]), "cluster-12", mapped_by=DESTINATION
    )
    assert not route.goes
    assert route.steps[0].problem == "argocd-agent would crash on it"


@pytest.mark.parametrize(
    ("thing", "agent", "because"),
    [
        (project(labels={names.IGNORE_SYNC: "true"}), "agent-a", f"it has the label {names.IGNORE_SYNC}"),
        (
            project(name="edge-web", annotations={names.SOURCE_UID: "u"}, sourceNamespaces=["edge"]),
            "agent-a",
            "it comes from an autonomous agent",
        ),
        (project(), "nobody", "no such agent is known"),
        (project(), "edge", "the agent is autonomous"),
        (project(), "agent-a", "no entry of spec.sourceNamespaces matches it"),
    ],
)
def test_what_is_asked_before_the_patterns_is_told_too(thing: Any, agent: str, because: str) -> None:
    route = explain_project(thing, agent, mapped_by=NAMESPACE, mode_of=MODES.get)
    assert (route.goes, route.because) == (False, because)


def test_a_destination_is_about_an_agent_or_not() -> None:
    assert destination_verdict({"name": "prod"}, "prod") is Verdict.YES
    assert destination_verdict({"name": "!prod"}, "prod") is Verdict.NO
    assert destination_verdict({}, "prod") is Verdict.NO
    assert destination_verdict("prod", "prod") is Verdict.NO


@pytest.mark.parametrize(
    ("metadata", "namespaces", "mirror"),
    [
        ({"namespace": "edge", "annotations": {names.SOURCE_UID: "u"}}, [], True),
        (
            {"namespace": "argocd", "name": "edge-web", "annotations": {names.SOURCE_UID: "u"}},
            ["edge", "x"],
            True,
        ),
        ({"namespace": "argocd", "name": "native", "annotations": {names.SOURCE_UID: "u"}}, ["edge"], False),
        ({"namespace": "argocd", "annotations": {names.SOURCE_UID: "u"}}, ["x", "edge"], False),
        ({"namespace": "agent-a", "annotations": {names.SOURCE_UID: "u"}}, [], False),
        ({"namespace": "nobody", "annotations": {names.SOURCE_UID: "u"}}, [], False),
        ({"namespace": "edge", "annotations": {}}, ["edge"], False),
    ],
)
def test_a_mirror_has_a_source_and_an_autonomous_agent(
    *, metadata: Any, namespaces: Any, mirror: bool
) -> None:
    item = {"metadata": metadata, "spec": {"sourceNamespaces": namespaces}}
    assert is_autonomous_mirror(item, mode_of=MODES.get) is mirror


def test_an_application_belongs_to_its_namespace_or_to_its_destination() -> None:
    app = application(namespace="agent-a", destination={"name": "agent-b"})
    assert agent_of_application(app, mapped_by=NAMESPACE, mode_of=MODES.get) == "agent-a"
    assert agent_of_application(app, mapped_by=DESTINATION, mode_of=MODES.get) == "agent-b"


def test_a_mirrored_application_belongs_to_its_namespace_always() -> None:
    app = application(namespace="edge", metadata={"annotations": {names.SOURCE_UID: "u"}})
    assert agent_of_application(app, mapped_by=DESTINATION, mode_of=MODES.get) == "edge"


@pytest.mark.parametrize(
    ("app", "allowed", "mapped_by", "admitted"),
    [
        (application(), ["agent-*"], NAMESPACE, True),
        (application(), ["/^agent-[ab]$/"], NAMESPACE, True),
        (application(), [], NAMESPACE, False),
        (application(), ["other"], NAMESPACE, False),
        (application(metadata={"labels": {names.IGNORE_SYNC: "true"}}), ["*"], NAMESPACE, False),
        (application(metadata={"labels": {names.IGNORE_SYNC: "TRUE"}}), ["*"], NAMESPACE, True),
        (application(namespace="argocd"), [], NAMESPACE, False),
        (application(namespace="argocd"), [], DESTINATION, True),
        (application(destination={"name": "in-cluster"}), ["*"], DESTINATION, False),
        (application(destination={"server": "https://x"}), ["*"], DESTINATION, False),
        (application(destination={"server": "https://x"}), ["*"], NAMESPACE, True),
    ],
)
def test_a_principal_admits_what_its_namespaces_allow(
    *, app: Any, allowed: list[str], mapped_by: AgentMapping, admitted: bool
) -> None:
    assert (
        admits_application(app, allowed_namespaces=allowed, principal_namespace="argocd", mapped_by=mapped_by)
        is admitted
    )


def test_without_a_principal_namespace_none_is_added() -> None:
    app = application(namespace="")
    assert not admits_application(
        app, allowed_namespaces=[], principal_namespace="", mapped_by=AgentMapping.DESTINATION
    )
    assert not namespace_is_allowed("x", [])


@pytest.mark.parametrize(
    ("secret", "found"),
    [
        (repository(), "shop"),
        (repository(kind="repo-creds"), "shop"),
        (repository(kind="cluster"), ""),
        (repository(kind="repository-write"), ""),
        (repository(project=None), ""),
        (repository(project=""), ""),
        (repository(namespace="elsewhere"), ""),
        (repository(labels={names.IGNORE_SYNC: "true"}), ""),
        (repository(labels={names.IGNORE_SYNC: "false"}), "shop"),
        ({**repository(project=None), "data": {"project": "c2hvcA=="}}, "shop"),
    ],
)
def test_a_repository_goes_where_its_project_goes(secret: Any, found: str) -> None:
    assert project_of_repository(secret, argocd_namespace="argocd") == found


@given(OBJECTS, st.text(max_size=5), st.sampled_from(AgentMapping))
def test_objects_of_any_shape_are_routed_somewhere_or_nowhere(
    item: Any, agent: str, mapped_by: AgentMapping
) -> None:
    assert isinstance(route_project(item, agent, mapped_by=mapped_by).goes, bool)
    assert isinstance(explain_project(item, agent, mapped_by=mapped_by, mode_of=MODES.get).because, str)
    assert isinstance(agent_of_application(item, mapped_by=mapped_by, mode_of=MODES.get), str)
    assert isinstance(project_of_repository(item, argocd_namespace="argocd"), str)
    assert admits_application(
        item, allowed_namespaces=["*"], principal_namespace="argocd", mapped_by=mapped_by
    ) in {True, False}
