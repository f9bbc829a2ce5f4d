"""Projects of autonomous agents through kubectl: settled once, kept by the principal, refused to others."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.webhook.guarded_cluster import Guarded, compare_with_golden, until

CONFIGURATION = """
agents:
  autonomous: ["agent-*"]
  identity: "system:serviceaccount:(?P<agent>[a-z0-9-]+):argocd-agent"
"""
SPEC = {
    "description": "as the agent has it",
    "sourceRepos": ["https://example.test/ops"],
    "sourceNamespaces": ["somewhere"],
    "destinations": [
        {"server": "https://kubernetes.default.svc", "namespace": "ops"},
        {"name": "in-cluster", "namespace": "guest-*"},
    ],
    "roles": [{"name": "r", "policies": ["p, proj:ops:r, applications, get, ops/*, allow"]}],
    "destinationServiceAccounts": [
        {
            "server": "https://kubernetes.default.svc",
            "namespace": "ops",
            "defaultServiceAccount": "ns:deployer",
        }
    ],
}


def project(name: str, *, agent: str = "", source_uid: str = "", **spec: Any) -> dict[str, Any]:
    marks = {"tiphys.dev/agent": agent, "argocd.argoproj.io/source-uid": source_uid}
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": name, "annotations": {key: value for key, value in marks.items() if value}},
        "spec": {**SPEC, **spec},
    }


@pytest.fixture(scope="module")
def hub(guarded: Guarded) -> Iterator[Guarded]:
    with guarded.configured(CONFIGURATION):
        probe = project("probe", source_uid="u", sourceNamespaces=["agent-p"])
        until(
            lambda: (
                "must be called agent-p-probe" in guarded.write(probe, "--dry-run=server", check=False).stderr
            ),
            what="the configuration of agents",
        )
        yield guarded


def told(hub: Guarded, thing: dict[str, Any], *, writer: str = "", namespace: str = "") -> str:
    return hub.write(thing, "--dry-run=server", writer=writer, namespace=namespace, check=False).stderr


def test_an_agents_project_is_stored_as_argocd_agents_principal_would_store_it(hub: Guarded) -> None:
    done = hub.write(project("agent-b-ops", agent="agent-b"), "--server-side", writer=hub.principal)
    assert "agent/project-service-accounts" in done.stderr
    stored = hub.get("appproject", "agent-b-ops")
    compare_with_golden("agents/stored.json", json.dumps(stored["spec"], indent=2) + "\n")
    again = {**project("agent-b-ops", agent="agent-b"), "spec": stored["spec"]}
    hub.write(again, "--server-side", writer=hub.principal)
    unchanged = hub.get("appproject", "agent-b-ops")
    assert unchanged["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]
    assert hub.write(again, "diff", "--server-side", writer=hub.principal, check=False).returncode == 0


def test_a_writer_that_belongs_to_an_agent_is_a_mark_too(hub: Guarded) -> None:
    writer = "system:serviceaccount:agent-w:argocd-agent"
    hub.write(project("agent-w-ops"), "--server-side", writer=writer)
    assert hub.get("appproject", "agent-w-ops")["spec"]["sourceNamespaces"] == ["agent-w"]


def test_a_user_can_neither_change_nor_delete_it(hub: Guarded) -> None:
    hub.write(project("agent-c-ops", agent="agent-c"), writer=hub.principal)
    changed = told(hub, project("agent-c-ops", agent="agent-c", description="mine"))
    assert (
        "this is the mirror of what the autonomous agent agent-c has: only the principal and that agent may change it"
        in changed
    )
    other = told(
        hub, project("agent-c-ops", description="x"), writer="system:serviceaccount:agent-d:argocd-agent"
    )
    assert "refuses" in other
    deleted = hub.kubectl("delete", "appproject", "agent-c-ops", "-n", hub.argocd, check=False)
    assert "only the principal and that agent may delete it" in deleted.stderr


def test_argo_cds_server_can_sync_but_neither_change_nor_delete_it(hub: Guarded) -> None:
    server = f"system:serviceaccount:{hub.argocd}:argocd-server"
    agent = hub.cluster.create_namespace("agent-s", labels={"tiphys.dev/agent": "agent-s"})
    hub.write(project("agent-s-ops", agent=agent), writer=hub.principal)
    mirror = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "web", "annotations": {"argocd.argoproj.io/source-uid": "u"}},
        "spec": {
            "project": "agent-s-ops",
            "destination": {"name": agent, "namespace": "ops"},
            "source": {"repoURL": "https://example.test/ops", "path": "."},
        },
    }
    hub.write(mirror, writer=hub.principal, namespace=agent)

    def patched(kind: str, name: str, namespace: str, **body: Any) -> str:
        words = ("patch", kind, name, "-n", namespace, "--type=merge", "-p", json.dumps(body))
        return hub.kubectl(*words, writer=server, check=False).stderr

    may = "only the principal and that agent may"
    assert f"{may} change it" in patched(
        "appproject", "agent-s-ops", hub.argocd, spec={"description": "mine"}
    )
    assert f"{may} change it" in patched("application", "web", agent, spec={"project": "default"})
    for edited in ({"labels": {"team": "shop"}}, {"annotations": {"team": "shop"}}):
        assert f"{may} change it" in patched("application", "web", agent, metadata=edited)
        assert f"{may} change it" in patched("appproject", "agent-s-ops", hub.argocd, metadata=edited)
    for kind, name, namespace in (("appproject", "agent-s-ops", hub.argocd), ("application", "web", agent)):
        deleted = hub.kubectl("delete", kind, name, "-n", namespace, writer=server, check=False)
        assert f"{may} delete it" in deleted.stderr
    assert patched("application", "web", agent, operation={"sync": {}}) == ""
    asked = {"annotations": {"argocd.argoproj.io/refresh": "hard", "argocd.argoproj.io/hydrate": "normal"}}
    assert patched("application", "web", agent, metadata=asked) == ""
    ending = {"phase": "Terminating", "operation": {}, "startedAt": "2026-01-01T00:00:00Z"}
    assert patched("application", "web", agent, status={"operationState": ending}) == ""
    hub.kubectl("delete", "application", "web", "-n", agent, writer=hub.principal)
    hub.kubectl("delete", "appproject", "agent-s-ops", "-n", hub.argocd, writer=hub.principal)
    hub.cluster.drop_namespace(agent)


@pytest.mark.parametrize("mark", ["agent", "source_uid"])
def test_a_wrong_name_is_refused_with_the_right_one(hub: Guarded, mark: str) -> None:
    marked = {"agent": "agent-e"} if mark == "agent" else {"source_uid": "u", "sourceNamespaces": ["agent-e"]}
    said = told(hub, project("ops", **marked), writer=hub.principal)
    assert "metadata.name: a project of the agent agent-e must be called agent-e-ops, not ops" in said
    assert "Call it agent-e-ops." in said


def test_a_wrong_namespace_is_refused_with_the_right_one(hub: Guarded, namespace: str) -> None:
    said = told(hub, project("agent-e-ops", agent="agent-e"), writer=hub.principal, namespace=namespace)
    assert f"must be in the namespace {hub.argocd}, not {namespace}" in said


def test_a_name_that_another_agent_or_the_control_plane_has_is_refused(hub: Guarded) -> None:
    hub.write(project("agent-f-g-ops", agent="agent-f", roles=[]), writer=hub.principal)
    taken = until(
        lambda: (
            "already"
            in (
                said := told(hub, project("agent-f-g-ops", agent="agent-f-g", roles=[]), writer=hub.principal)
            )
            and said
        ),
        what="the name of another agent's project is taken",
    )
    assert (
        "agent-f-g-ops is a project of the agent agent-f already, so it cannot be one of the agent agent-f-g"
        in taken
    )
    hub.write(project("agent-h-native", roles=[]))
    native = until(
        lambda: (
            "already"
            in (said := told(hub, project("agent-h-native", agent="agent-h", roles=[]), writer=hub.principal))
            and said
        ),
        what="the name of a native project is taken",
    )
    assert "agent-h-native is a project of the control plane already" in native


def test_equal_destinations_are_a_warning_for_the_principal_and_a_denial_for_others(hub: Guarded) -> None:
    twice = [{"server": "https://a.test", "namespace": "x"}, {"server": "https://b.test", "namespace": "x"}]
    done = hub.write(project("agent-i-ops", agent="agent-i", destinations=twice), writer=hub.principal)
    assert "Warning: project/duplicate-destination: " in done.stderr
    same = [{"server": "*", "namespace": "x"}] * 2
    native = told(hub, project("native", destinations=same, roles=[]))
    assert "[project/duplicate-destination]" in native


def test_an_application_of_somebody_else_cannot_use_an_agents_project(hub: Guarded) -> None:
    hub.write(project("agent-j-ops", agent="agent-j"), writer=hub.principal)
    application = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "borrower"},
        "spec": {
            "project": "agent-j-ops",
            "source": {"repoURL": "https://example.test/ops", "path": ".", "targetRevision": "v1"},
            "destination": {"server": "https://kubernetes.default.svc", "namespace": "ops"},
        },
    }
    said = until(
        lambda: "refuses" in (found := told(hub, application)) and found,
        what="the project is known as agent-j's",
    )
    assert "agent-j-ops is a project of the agent agent-j" in said
