"""A whole installation on one API server: webhook, principal and, in a namespace that plays another cluster, an agent."""

import contextlib
import json
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from argocd import names
from checks.doctor.examined import DoctorOptions
from cli.main import tiphys
from scripts.cluster.binaries import Binaries
from scripts.cluster.controlplane import Cluster
from scripts.ports import free_port
from tests.cluster.installation import AGENT, installed, sidecar
from tests.webhook.conftest import ROOT
from tests.webhook.webhook_process import Guard

HOME, ARGOCD, SPOKE = "tiphys-system", "argocd", "argocd-spoke"
NO_WEBHOOK = "no-webhook-here"
TEAM = "team-a"
"""Where Argo CD takes Applications besides; no agent's."""
CONNECTED_SECONDS = 60
SETTINGS = "/api/v1/namespaces/{}/configmaps"


@dataclass
class WellInstallation:
    cluster: Cluster
    guard: Guard
    principal_port: int
    pages_port: int

    @property
    def hub(self) -> DoctorOptions:
        return DoctorOptions(
            application_namespaces=(TEAM,),
            principal_service="none:1",
            principal_url=f"http://127.0.0.1:{self.pages_port}",
        )

    @property
    def spoke(self) -> DoctorOptions:
        return DoctorOptions(
            namespace=NO_WEBHOOK,
            argocd_namespace=SPOKE,
            principal_service="none:1",
            server_address="localhost",
            server_port=self.principal_port,
        )


@contextmanager
def well_installation(binaries: Binaries, folder: Path) -> Iterator[WellInstallation]:
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(name="doctor", binaries=binaries))
        stack.enter_context(installed(cluster, "control-plane"))
        _settings(cluster, ARGOCD, {names.INSTALLATION_ID_KEY: "hub"})
        parameters = {"metadata": {"name": names.ARGOCD_CMD_PARAMS_CM}}
        data = {names.APPLICATION_NAMESPACES_KEY: f"{AGENT},{TEAM}"}
        cluster.request("POST", SETTINGS.format(ARGOCD), {**parameters, "data": data})
        _namespace_of_applications(cluster)
        _agent_manifests(cluster)
        _certificates(cluster, folder / "agent")
        guard = _webhook(stack, cluster, folder)
        principal_port, pages_port = free_port(), free_port()
        stack.enter_context(
            sidecar(
                "principal",
                cluster,
                *(
                    "--namespace",
                    ARGOCD,
                    "--listen-port",
                    str(principal_port),
                    "--agents-port",
                    str(pages_port),
                ),
                *("--resource-proxy-port", str(free_port())),
                *("--listen-host", "127.0.0.1", "--auth", "mtls:CN=([^,]+)", "--allowed-namespaces", "*"),
                folder=folder,
            )
        )
        stack.enter_context(
            sidecar(
                "agent",
                cluster,
                *("--namespace", SPOKE, "--agent-mode", "managed"),
                *("--server-address", "localhost", "--server-port", str(principal_port)),
                folder=folder,
                namespace=SPOKE,
            )
        )
        well = WellInstallation(cluster, guard, principal_port, pages_port)
        _wait_for_agent(pages_port)
        yield well


def _settings(cluster: Cluster, namespace: str, data: dict[str, str]) -> None:
    body = {"metadata": {"name": names.ARGOCD_CM}, "data": data}
    cluster.request("POST", SETTINGS.format(namespace), body)


def _namespace_of_applications(cluster: Cluster) -> None:
    cluster.create_namespace(TEAM)
    role = (ROOT / "manifests/components/application-namespace/role.yaml").read_text()
    moved = role.replace("namespace: applications\n", f"namespace: {TEAM}\n")
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=moved)
    path = "/spec/template/spec/containers/0/args/-"
    words = ("--application-namespace", TEAM)  # in two: the other way is in every manifest
    told = [{"op": "add", "path": path, "value": word} for word in words]
    deployment = f"/apis/apps/v1/namespaces/{HOME}/deployments/tiphys-webhook"
    cluster.request("PATCH", deployment, told, content_type="application/json-patch+json")


def _agent_manifests(cluster: Cluster) -> None:
    """Those of a workload cluster, in a namespace that plays one."""
    cluster.create_namespace(SPOKE)
    _settings(cluster, SPOKE, {names.INSTALLATION_ID_KEY: "spoke"})
    rendered = cluster.kubectl("kustomize", str(ROOT / "manifests/base/agent")).stdout
    moved = rendered.replace(f"namespace: {ARGOCD}\n", f"namespace: {SPOKE}\n")
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=moved)


def _certificates(cluster: Cluster, folder: Path) -> None:
    for words in (
        ("pki", "init"),
        ("pki", "issue", "principal", "--dns", "localhost"),
        ("pki", "issue", "redis-proxy"),
        ("pki", "issue", "resource-proxy"),
        ("agents", "create", AGENT, "--create-namespace"),
        ("pki", "issue", "agent", AGENT, "--output", str(folder)),
    ):
        done = CliRunner().invoke(tiphys, [*words, "--kubeconfig", str(cluster.kubeconfig)])
        assert done.exit_code == 0, done.output
    secret = ("create", "secret", "--namespace", SPOKE)
    pair = (f"--cert={folder / 'tls.crt'}", f"--key={folder / 'tls.key'}")
    cluster.kubectl(*secret, "tls", names.AGENT_TLS_SECRET, *pair)
    cluster.kubectl(*secret, "generic", names.AGENT_CA_SECRET, f"--from-file=ca.crt={folder / 'ca.crt'}")


def _webhook(stack: ExitStack, cluster: Cluster, folder: Path) -> Guard:
    account = cluster.kubeconfig_of_account("tiphys-webhook", namespace=HOME)
    guard = Guard(cluster=cluster, folder=folder, home=HOME, argocd=ARGOCD, kubeconfig=account).start()
    stack.callback(guard.stop)
    guard.kubeconfig = None  # an admin registers
    guard.register()
    _second_replica(cluster)
    return guard


def _second_replica(cluster: Cluster) -> None:
    """Its sign of life alone: another process would tell nothing more."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases"
    first = next(
        lease
        for lease in cluster.request("GET", path)["items"]
        if lease["metadata"]["name"].startswith("tiphys-webhook-replica-")
    )
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    version = first["spec"]["holderIdentity"].partition(" ")[2]
    spec = {"holderIdentity": f"second {version}", "leaseDurationSeconds": 3600, "renewTime": now}
    cluster.request("POST", path, {"metadata": {"name": "tiphys-webhook-replica-second"}, "spec": spec})


def _wait_for_agent(port: int) -> None:
    deadline = time.monotonic() + CONNECTED_SECONDS
    told: Any = None
    while time.monotonic() < deadline:
        with (
            contextlib.suppress(OSError, ValueError),  # not there yet, or a page for people that says to wait
            urllib.request.urlopen(f"http://127.0.0.1:{port}/agents", timeout=10) as answer,
        ):
            told = json.load(answer)
            if any(agent["connected"] for agent in told["agents"]):
                return
        time.sleep(0.1)
    raise AssertionError(f"the agent is not connected: {told}")
