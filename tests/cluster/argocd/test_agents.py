"""What is made on a hub is deployed on a workload cluster, with a real Argo CD at both ends."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from argocd.agents.vocabulary import Mode
from scripts.cluster.argocd.installation import NAMESPACE
from scripts.cluster.argocd.programs import Programs
from scripts.cluster.binaries import Binaries
from tests.cluster.argocd.agent_fleet import TARGET, Fleet, started_fleet
from tests.cluster.argocd.steered import config_map
from tests.cluster.installation import AGENT
from tests.webhook.guarded_cluster import until

APPLICATION = f"{AGENT}/web"

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def fleet(argocd_programs: Programs, cluster_binaries: Binaries, tmp_path: Path) -> Iterator[Fleet]:
    with started_fleet(argocd_programs, cluster_binaries, mode=Mode.MANAGED, folder=tmp_path) as started:
        yield started


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
