"""Live objects of a workload cluster by `argocd`, at the hub."""

import json

from tests.cluster.argocd.agent_fleet import TARGET, Fleet
from tests.cluster.installation import AGENT
from tests.webhook.guarded_cluster import until

APPLICATION = f"{AGENT}/web"


def seen_by_the_cli(fleet: Fleet) -> None:
    """Listed, shown, patched, acted upon and deleted; of an Application that is deployed."""
    hub = fleet.hub

    def listed() -> set[tuple[str, ...]]:
        done = hub.cli("app", "resources", APPLICATION, check=False)
        return {tuple(line.split()[:4]) for line in done.stdout.splitlines()[1:]}

    until(
        lambda: any("Deployment" in line and "web" in line for line in listed()),
        what="the resources are listed",
    )
    prices = ("--kind", "ConfigMap", "--resource-name", "prices")
    assert "tea" in hub.cli("app", "get-resource", APPLICATION, *prices).stdout
    patch = ("--patch", json.dumps({"data": {"tea": "8"}}), "--patch-type", "application/merge-patch+json")
    hub.cli("app", "patch-resource", APPLICATION, *prices, *patch)
    assert fleet.deployed() == {"tea": "8"}
    web = ("--kind", "Deployment", "--resource-name", "web")
    assert "restart" in hub.cli("app", "actions", "list", APPLICATION, *web[:2]).stdout
    hub.cli("app", "actions", "run", APPLICATION, "restart", *web)
    there = fleet.workload.cluster.request("GET", f"/apis/apps/v1/namespaces/{TARGET}/deployments/web")
    annotations = there["spec"]["template"]["metadata"]["annotations"]
    assert "kubectl.kubernetes.io/restartedAt" in annotations
    hub.cli("app", "delete-resource", APPLICATION, *web, "--group", "apps")
    gone = ("get", "deployment", "web", "-n", TARGET, "-o", "name", "--ignore-not-found")
    until(lambda: not fleet.workload.cluster.kubectl(*gone).stdout, what="it is deleted")
