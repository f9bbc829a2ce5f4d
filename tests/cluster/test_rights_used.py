"""The roles in manifests/ against what the programs really call, by the API server's own audit log.

Webhook, principal and agents run with the accounts of the manifests through everything that they do. Then every
call must have been allowed, and every right must have been used.
"""

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from argocd import names
from scripts.acceptance.clusters import FailedError, until
from scripts.cluster.api import MERGE_PATCH, RefusedError
from scripts.cluster.controlplane import Cluster
from scripts.cluster.testing import Clusters
from scripts.ports import free_port
from tests.cluster.access_rights import Calls, Right, called, given, unused
from tests.cluster.installation import AGENT, allow_pair, certificates, installed, sidecar
from tests.webhook.webhook_process import Guard

HOME, ARGOCD = "tiphys-system", "argocd"
PROJECTS, APPLICATIONS = "appprojects", "applications"
PATHS = {
    PROJECTS: "/apis/argoproj.io/v1alpha1/namespaces/{}/appprojects",
    APPLICATIONS: "/apis/argoproj.io/v1alpha1/namespaces/{}/applications",
    "secrets": "/api/v1/namespaces/{}/secrets",
    "configmaps": "/api/v1/namespaces/{}/configmaps",
    "events": "/api/v1/namespaces/{}/events",
}
CONFIGURATIONS = [
    f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/tiphys"
    for kind in ("validating", "mutating")
]
SECRETS = {"tiphys-webhook-tls": "Opaque", "tiphys-webhook-ca": "kubernetes.io/tls"}
"""With types that neither can have, and that cannot be changed."""
REPOSITORY = {"argocd.argoproj.io/secret-type": "repository"}
GIT = "https://git.example.org/web.git"

LEASES = "leases.coordination.k8s.io"
WEBHOOK, PRINCIPAL, SIDECAR = "tiphys-webhook", "tiphys-principal", "tiphys-agent"
"""Accounts, and the Leases of their programs."""

pytestmark = pytest.mark.timeout(240)  # two API servers and up to three processes


class Desk:
    """An administrator's calls."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def make(self, kind: str, name: str, *, namespace: str = ARGOCD, **body: Any) -> None:
        metadata = {"name": name, **body.pop("metadata", {})}
        self._cluster.request("POST", PATHS[kind].format(namespace), self._whole(kind, metadata, body))

    @staticmethod
    def _whole(kind: str, metadata: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
        named = {PROJECTS: "AppProject", APPLICATIONS: "Application"}
        typed = {"apiVersion": "argoproj.io/v1alpha1", "kind": named[kind]} if kind in named else {}
        return {**typed, "metadata": metadata, **body}

    def change(self, kind: str, name: str, *, namespace: str = ARGOCD, **patch: Any) -> None:
        path = f"{PATHS[kind].format(namespace)}/{name}"
        self._cluster.request("PATCH", path, patch, content_type=MERGE_PATCH)

    def drop(self, kind: str, name: str, *, namespace: str = ARGOCD) -> None:
        self._cluster.request("DELETE", f"{PATHS[kind].format(namespace)}/{name}")

    def find(self, kind: str, name: str, *, namespace: str = ARGOCD) -> dict[str, Any]:
        try:
            found: dict[str, Any] = self._cluster.request("GET", f"{PATHS[kind].format(namespace)}/{name}")
        except RefusedError as error:
            if error.code != http.client.NOT_FOUND:
                raise
            return {}
        return found

    def has_event(self, reason: str, *, namespace: str = ARGOCD) -> bool:
        events = self._cluster.request("GET", PATHS["events"].format(namespace))["items"]
        return any(reason in event["reason"] for event in events)


def application(project: str = "web", *, revision: str = "main") -> dict[str, Any]:
    return {
        "project": project,
        "source": {"repoURL": GIT, "path": ".", "targetRevision": revision},
        "destination": {"server": "https://kubernetes.default.svc", "namespace": "web"},
    }


def routed(**more: Any) -> dict[str, Any]:
    destinations = [{"name": AGENT, "namespace": "web"}]
    return {"sourceRepos": [GIT], "destinations": destinations, "sourceNamespaces": [AGENT], **more}


@dataclass
class Recording:
    """What an account has called since this was made."""

    cluster: Cluster
    account: str
    since: int = field(init=False)

    def __post_init__(self) -> None:
        self.since = self.cluster.audit_count()

    @property
    def namespace(self) -> str:
        return HOME if self.account == WEBHOOK else ARGOCD

    def calls(self) -> Calls:
        user = f"system:serviceaccount:{self.namespace}:{self.account}"
        return called(self.cluster, user, since=self.since)

    @contextmanager
    def kept_waiting(self) -> Iterator[None]:
        """The program that is started in here finds its Lease held, watches it, and then sees it deleted."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {
            "holderIdentity": "somebody",
            "leaseDurationSeconds": 600,  # longer than anybody here waits
            "renewTime": now,
            "acquireTime": now,
        }
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"
        self.cluster.request("POST", path, {"metadata": {"name": self.account}, "spec": spec})
        yield
        watch = Right("watch", LEASES, self.namespace, self.account)
        until(lambda: watch in self.calls().made, what=f"{self.account} watches its Lease")
        self.cluster.request("DELETE", f"{path}/{self.account}")


@contextmanager
def refused(cluster: Cluster, name: str) -> Iterator[None]:
    """Whatever project our programs write of that name: an object that cannot be applied."""
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
    rule = {
        "apiGroups": ["argoproj.io"],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"],
        "resources": [PROJECTS],
    }
    ours = {"name": "ours", "expression": "request.userInfo.username.contains('tiphys')"}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [ours],
        "validations": [
            {"expression": f"object.metadata.name != '{name}'", "reason": "Invalid", "message": "not here"}
        ],
    }
    cluster.request("POST", f"{path}ies", {"metadata": {"name": name}, "spec": spec})
    binding = {"policyName": name, "validationActions": ["Deny"]}
    cluster.request("POST", f"{path}ybindings", {"metadata": {"name": name}, "spec": binding})
    try:
        until(lambda: "not here" in _tried(cluster, name), what="the policy counts")
        yield
    finally:
        for plural in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
            cluster.request("DELETE", f"/apis/admissionregistration.k8s.io/v1/{plural}/{name}")


def _tried(cluster: Cluster, name: str) -> str:
    thing = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": name},
        "spec": {},
    }
    trying = ("create", "--dry-run=server", "--namespace", ARGOCD, "-f", "-")
    acting = ("--as", "tiphys", "--as-group", "system:masters")
    return cluster.kubectl(*trying, *acting, stdin=json.dumps(thing), check=False).stderr


def judged(recording: Recording, overlay: str) -> None:
    """Once the program has ended: what it calls then counts too."""
    rights = given(recording.cluster, overlay, recording.account)
    with suppress(FailedError):  # the last lines of the log come a moment after the answers
        until(lambda: not unused(rights, recording.calls()), what="every right was used")
    calls = recording.calls()
    assert {str(call) for call in calls.refused} == set()
    assert {str(right) for right in rights if right.wider_than(calls.made, {HOME, ARGOCD})} == set()
    assert {str(right) for right in unused(rights, calls)} == set(), "given and never used"


def test_the_webhook_uses_every_right_that_it_has(cluster: Cluster, tmp_path: Path) -> None:
    desk = Desk(cluster)
    with installed(cluster, "webhook-only"):
        recording = Recording(cluster, WEBHOOK)
        desk.make("configmaps", "argocd-cm", data={"application.sync.impersonation.enabled": "true"})
        desk.change(
            "configmaps",
            "tiphys",
            namespace=HOME,
            data={"tiphys.yaml": "impersonation: {check-writer: true}\n"},
        )
        for secret, kind in SECRETS.items():
            desk.make("secrets", secret, namespace=HOME, type=kind, data={"tls.crt": "", "tls.key": ""})
        guard = Guard(
            cluster=cluster,
            folder=tmp_path,
            home=HOME,
            argocd=ARGOCD,
            kubeconfig=cluster.kubeconfig_of_account(WEBHOOK, namespace=HOME),
            arguments=("--denial-events",),
        )
        try:
            with recording.kept_waiting():
                guard.launch()
            guard.wait_ready()
            guard.kubeconfig = None  # an admin registers
            guard.register()
            _webhook_at_work(cluster, desk, guard)
        finally:
            guard.unregister()
            guard.stop()
        judged(recording, "webhook-only")


def _webhook_at_work(cluster: Cluster, desk: Desk, guard: Guard) -> None:
    until(lambda: desk.find("configmaps", "argocd-cm")["data"].get("installationID"), what="an id of its own")
    for secret in SECRETS:
        desk.change("secrets", secret, namespace=HOME, data={"tls.crt": ""})
        until(lambda: desk.find("secrets", secret, namespace=HOME)["data"]["tls.crt"], what="a repair")  # noqa: B023 - called at once
        desk.drop("secrets", secret, namespace=HOME)
        until(lambda: desk.find("secrets", secret, namespace=HOME), what="a new one")  # noqa: B023 - as above
    until(lambda: guard.status()["guarded"], what="trust in the new authority")
    for path in CONFIGURATIONS:
        entries = range(len(cluster.request("GET", path)["webhooks"]))
        # A patch, for the webhook may write at the same time.
        emptied = [{"op": "remove", "path": f"/webhooks/{entry}/clientConfig/caBundle"} for entry in entries]
        cluster.request("PATCH", path, emptied, content_type="application/json-patch+json")
        until(
            lambda: cluster.request("GET", path)["webhooks"][0]["clientConfig"].get("caBundle"),  # noqa: B023 - as above
            what="the caBundle again",
        )
    until(lambda: guard.status()["guarded"], what="answers again")
    with pytest.raises(RefusedError, match="source-repo-format"):
        desk.make(PROJECTS, "bad", spec={"sourceRepos": ["!*"]})
    until(lambda: desk.has_event("Denied") or desk.has_event("Refused"), what="an event about the denial")
    account = {
        "server": "https://kubernetes.default.svc",
        "namespace": "web",
        "defaultServiceAccount": "deployer",
    }
    desk.make(PROJECTS, "acting", spec={**routed(), "destinationServiceAccounts": [account]})
    desk.change("configmaps", "tiphys", namespace=HOME, data={"tiphys.yaml": "no-such-key: 1\n"})
    until(
        lambda: cluster.request("GET", PATHS["events"].format(HOME))["items"],
        what="an event about the configuration",
    )


@dataclass
class Pair:
    """A principal and an agent, both running, and what they call."""

    principal: Recording
    agent: Recording
    programs: ExitStack
    pages_port: int

    @property
    def desks(self) -> tuple[Desk, Desk]:
        """At the hub and at the edge."""
        return Desk(self.principal.cluster), Desk(self.agent.cluster)


@pytest.fixture
def pair(mode: str, clusters: Clusters, tmp_path: Path) -> Iterator[Pair]:
    """Under the accounts of the manifests; each waited for its Lease first."""
    hub, workload, port = clusters.control_plane, clusters.workload, free_port()
    pages = free_port()
    listening = (
        *("--listen-host", "localhost", "--listen-port", str(port), "--agents-port", str(pages)),
        *("--allowed-namespaces", "*"),
        # Of a pair, whose epoch its agents keep.
        *("--ha-enabled", "--ha-allowed-replication-clients", "peer", "--ha-admin-port", str(free_port())),
    )
    dialling = ("--agent-mode", mode, "--server-address", "localhost", "--server-port", str(port))
    with installed(hub, "control-plane"), installed(workload, f"workload-{mode}"), ExitStack() as programs:
        certificates(hub, workload, folder=tmp_path)
        allow_pair(hub)
        principal, agent = Recording(hub, PRINCIPAL), Recording(workload, SIDECAR)
        with principal.kept_waiting(), agent.kept_waiting():
            programs.enter_context(sidecar("principal", hub, *listening, folder=tmp_path))
            programs.enter_context(sidecar("agent", workload, *dialling, folder=tmp_path))
        yield Pair(principal, agent, programs, pages)


@pytest.mark.parametrize("mode", ["managed"])
def test_a_principal_may_do_what_it_does_and_its_managed_agent_uses_every_right(pair: Pair) -> None:
    with refused(pair.agent.cluster, "refused"), pair.programs:
        _managed_at_work(*pair.desks)
    assert pair.principal.calls().refused == set()
    judged(pair.agent, "workload-managed")


@pytest.mark.parametrize("mode", ["autonomous"])
def test_a_principal_and_its_autonomous_agent_use_every_right_that_they_have(pair: Pair) -> None:
    with refused(pair.principal.cluster, f"{AGENT}-refused"), pair.programs:
        _autonomous_at_work(*pair.desks)
        _agents_asked_for(pair.principal.cluster, pair.pages_port)
    judged(pair.principal, "control-plane")
    judged(pair.agent, "workload-autonomous")


def _agents_asked_for(cluster: Cluster, port: int) -> None:
    """From outside of the pod, as the API server's proxy comes."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as outward:
        outward.connect(("192.0.2.1", 9))  # nothing is sent: this only asks for our own address
        (own, _) = outward.getsockname()

    def asked(token: str, path: str = "/agents") -> int:
        connection = http.client.HTTPConnection(own, port, timeout=30)
        try:
            connection.request("GET", path, headers={names.PAGE_TOKEN_HEADER: token} if token else {})
            return connection.getresponse().status
        finally:
            connection.close()

    reader, ours = names.PRINCIPAL_READER_ACCOUNT, (names.PAGE_AUDIENCE,)
    assert asked(cluster.account_token(reader, namespace=ARGOCD, audiences=ours)) == 200
    why = "/?application=argocd/shop"  # reads argocd-cm
    assert asked(cluster.account_token(reader, namespace=ARGOCD, audiences=ours), why) == 200
    assert asked(cluster.account_token(reader, namespace=ARGOCD)) == 401  # meant for the API server alone
    assert asked(cluster.account_token("default", namespace=ARGOCD, audiences=ours)) == 403
    assert asked("") == 401


def _managed_at_work(hub: Desk, edge: Desk) -> None:
    hub.make(PROJECTS, "web", spec=routed())
    hub.make(APPLICATIONS, "shop", namespace=AGENT, spec=application())
    login = {"project": "web", "url": GIT, "password": "first"}
    hub.make("secrets", "repo", metadata={"labels": REPOSITORY}, stringData=login)
    hub.make("configmaps", "argocd-gpg-keys-cm", data={"4AEE18F83AFDEB23": "key"})
    for kind, name in (
        (PROJECTS, "web"),
        (APPLICATIONS, "shop"),
        ("secrets", "repo"),
        ("configmaps", "argocd-gpg-keys-cm"),
    ):
        until(lambda: edge.find(kind, name), what=f"{kind} {name} at the agent")  # noqa: B023 - called at once
    hub.make(PROJECTS, "refused", spec=routed())
    until(lambda: edge.has_event("NotApplied"), what="an event of the agent's")
    edge.change(APPLICATIONS, "shop", status={"sync": {"status": "Synced"}})
    until(
        lambda: hub.find(APPLICATIONS, "shop", namespace=AGENT).get("status"),
        what="the status at the principal",
    )
    hub.change(PROJECTS, "web", spec={"description": "changed"})
    hub.change(APPLICATIONS, "shop", namespace=AGENT, spec={"source": {"targetRevision": "next"}})
    hub.change("secrets", "repo", stringData={"password": "second"})
    hub.change("configmaps", "argocd-gpg-keys-cm", data={"4AEE18F83AFDEB23": "other"})
    until(lambda: edge.find(PROJECTS, "web")["spec"].get("description"), what="the changed project")
    until(
        lambda: edge.find(APPLICATIONS, "shop")["spec"]["source"]["targetRevision"] == "next",
        what="the changed Application",
    )
    hub.drop("configmaps", "argocd-gpg-keys-cm")
    hub.drop(APPLICATIONS, "shop", namespace=AGENT)
    until(lambda: not edge.find(APPLICATIONS, "shop"), what="no Application")
    hub.drop("secrets", "repo")
    hub.drop(PROJECTS, "web")
    for kind, name in ((PROJECTS, "web"), ("secrets", "repo"), ("configmaps", "argocd-gpg-keys-cm")):
        until(lambda: not edge.find(kind, name), what=f"no {kind} {name}")  # noqa: B023 - as above


def _autonomous_at_work(hub: Desk, edge: Desk) -> None:
    name = f"{AGENT}-shop"
    edge.make(PROJECTS, "shop", spec={"sourceRepos": ["*"]})
    edge.make(APPLICATIONS, "web", spec=application("shop"))
    until(lambda: hub.find(PROJECTS, name), what="the mirrored project")
    until(lambda: hub.find(APPLICATIONS, "web", namespace=AGENT), what="the mirrored Application")
    edge.change(PROJECTS, "shop", spec={"description": "changed"})
    edge.change(APPLICATIONS, "web", spec={"source": {"targetRevision": "next"}})
    until(lambda: hub.find(PROJECTS, name)["spec"].get("description"), what="the changed project")
    until(
        lambda: hub.find(APPLICATIONS, "web", namespace=AGENT)["spec"]["source"]["targetRevision"] == "next",
        what="the changed Application",
    )
    hub.change(APPLICATIONS, "web", namespace=AGENT, operation={"sync": {"revision": "main"}})
    until(lambda: "operation" in edge.find(APPLICATIONS, "web"), what="the operation at the agent")
    edge.make(PROJECTS, "refused", spec={"sourceRepos": ["*"]})
    until(lambda: hub.has_event("NotApplied"), what="an event of the principal's")
    edge.drop(APPLICATIONS, "web")
    edge.drop(PROJECTS, "shop")
    until(lambda: not hub.find(APPLICATIONS, "web", namespace=AGENT), what="no Application")
    until(lambda: not hub.find(PROJECTS, name), what="no project")
