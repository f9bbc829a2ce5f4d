"""A hub whose Argo CD deploys nothing itself, a workload cluster whose Argo CD does, and the sidecars between them."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from scripts.cluster.api import RefusedError
from scripts.cluster.argocd.components import Component
from scripts.cluster.argocd.installation import NAMESPACE, ArgoCd
from scripts.cluster.argocd.programs import Programs
from scripts.cluster.binaries import Binaries
from scripts.cluster.controlplane import Cluster
from tests.cluster.argocd.steered import config_map
from tests.cluster.installation import AGENT, MANIFESTS, certificates, sidecar
from tests.webhook.conftest import free_port
from tests.webhook.guarded_cluster import until

APPLICATION = f"{AGENT}/web"
TARGET = "web"

pytestmark = pytest.mark.timeout(300)


@dataclass(frozen=True, slots=True)
class Fleet:
    hub: ArgoCd
    workload: ArgoCd

    def deployed(self) -> dict[str, str] | None:
        try:
            found = self.workload.cluster.request("GET", f"/api/v1/namespaces/{TARGET}/configmaps/prices")
        except RefusedError:
            return None
        data: dict[str, str] = found["data"]
        return data


@pytest.fixture
def fleet(argocd_programs: Programs, cluster_binaries: Binaries, tmp_path: Path) -> Iterator[Fleet]:
    with ExitStack() as stack:
        hub = ArgoCd(
            stack.enter_context(Cluster(name="hub", binaries=cluster_binaries)),
            programs=argocd_programs,
            components=(Component.SERVER, Component.REPO_SERVER),
            application_namespaces=(AGENT,),
        ).start()
        workload = ArgoCd(
            stack.enter_context(Cluster(name="workload", binaries=cluster_binaries)),
            programs=argocd_programs,
            components=(Component.REPO_SERVER, Component.CONTROLLER),
        ).start()
        for argo_cd, overlay in ((hub, "control-plane"), (workload, "workload-managed")):
            argo_cd.cluster.kubectl("apply", "--server-side", "-k", str(MANIFESTS / overlay))
        certificates(hub.cluster, workload.cluster, folder=tmp_path)
        port = str(free_port())
        listening = ("--listen-host", "localhost", "--listen-port", port, "--allowed-namespaces", "*")
        stack.enter_context(sidecar("principal", hub.cluster, *listening, folder=tmp_path))
        dialling = ("--agent-mode", "managed", "--server-address", "localhost", "--server-port", port)
        stack.enter_context(sidecar("agent", workload.cluster, *dialling, folder=tmp_path))
        yield Fleet(hub, workload)


def test_an_application_made_on_the_hub_syncs_on_the_workload_cluster(fleet: Fleet) -> None:
    hub, workload = fleet.hub, fleet.workload
    repository = hub.repository("shop")
    repository.commit({"shop/prices.json": config_map("prices", tea="3")})
    workload.cluster.create_namespace(TARGET)
    project = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": "web"},
        "spec": {
            "sourceRepos": [repository.url],
            "sourceNamespaces": [AGENT],
            "destinations": [{"name": AGENT, "server": "*", "namespace": TARGET}],
        },
    }
    hub.cluster.kubectl("apply", "-n", NAMESPACE, "-f", "-", stdin=json.dumps(project))
    hub.cli(
        *("app", "create", APPLICATION, "--project", "web", "--validate=false"),
        *("--repo", repository.url, "--path", "shop", "--revision", "main"),
        *("--dest-name", AGENT, "--dest-namespace", TARGET, "--sync-policy", "automated"),
    )

    until(lambda: fleet.deployed() == {"tea": "3"}, what="it is deployed on the workload cluster")

    def sync_status() -> str:
        path = f"/apis/argoproj.io/v1alpha1/namespaces/{AGENT}/applications/web"
        status: str = hub.cluster.request("GET", path).get("status", {}).get("sync", {}).get("status", "")
        return status

    until(lambda: sync_status() == "Synced", what="the hub knows that it is synced")
