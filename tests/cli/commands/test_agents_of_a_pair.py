"""`tiphys agents list` of a pair: on which side an agent is, and under which epoch."""

import asyncio
import json
from typing import Any

import pytest
from click.testing import CliRunner

from argocd import names
from cli.commands import agents
from kube.embedded import EmbeddedStore
from kube.resources import SECRETS
from scripts.cluster.controlplane import Cluster
from scripts.cluster.testing import Kubectl
from tests.cli.golden_files import compare
from tests.cli.principal_page import a_principals_page
from tests.sidecars import processes
from tests.sidecars.pair_in_memory import ARGOCD
from tests.sidecars.processes import PATIENCE
from tests.sidecars.replication.paired_principals import JO, FencedStore, Region, regions

AGENTS = ("agent-a", "agent-b")


def cluster_secret(agent: str) -> dict[str, Any]:
    labels = {names.SECRET_TYPE: names.SECRET_TYPE_CLUSTER, names.AGENT_NAME: agent}
    return {
        "metadata": {"name": f"cluster-{agent}", "labels": labels},
        "stringData": {"name": agent, "server": f"https://{agent}.example.org", "config": "{}"},
    }


async def page(region: Region) -> dict[str, Any]:
    """What it tells of its agents, without ports and moments."""
    assert region.process is not None
    status, body = await processes.fetch(region.process.pages.port, "/agents")
    assert status == 200, body
    return json.loads(body.replace(f"localhost:{region.peer.port}", "principal-b.example.com:443"))  # type: ignore[no-any-return]


def settled(found: dict[str, dict[str, Any]]) -> bool:
    """The agent has everything that was waiting for it, and both regions have met."""
    told = found["active"]
    waiting = [each["queue"] for each in told["agents"]]
    return waiting == [0] and told["regions"][1]["state"] == "replicating"


async def pages_of_a_pair() -> dict[str, dict[str, Any]]:
    """Of the active one, of its standby, and of one that was left by the other."""
    a, b, workload = FencedStore(), FencedStore(), EmbeddedStore(namespaces=[ARGOCD])
    found = {}
    async with regions(a, b) as (one, two):
        await asyncio.gather(one.start(), two.start())
        await one.until("active")
        await two.until("replicating")
        for agent in AGENTS:
            await a.create(SECRETS, cluster_secret(agent), namespace=ARGOCD)
        async with processes.connected_agent(workload, one.pki, name=AGENTS[0], port=one.port):
            async with asyncio.timeout(PATIENCE):
                while not settled(found := {"active": await page(one)}):
                    await one.controller.ask()
                    await asyncio.sleep(0.01)
            await two.controller.ask()
            found["standby"] = await page(two)
        await one.controller.demote(JO)
        await two.until("disconnected")
        await two.controller.ask()
        found["nobody"] = await page(two)
    return found


@pytest.mark.cluster
def test_a_list_shows_who_serves_an_agent_and_the_epoch(
    cluster: Cluster, namespace: str, kubectl: Kubectl
) -> None:
    for agent in AGENTS:
        body = {"apiVersion": "v1", "kind": "Secret", **cluster_secret(agent)}
        kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(body))
    for name, told in asyncio.run(pages_of_a_pair()).items():
        for region in told["regions"]:
            region["lag"] = region["detail"] = ""
        with a_principals_page(told) as url:
            for form in ("text", "json"):
                place = ("--kubeconfig", str(cluster.kubeconfig), "--principal-namespace", namespace)
                words = ["list", *place, "--principal-url", url, "-o", form]
                done = CliRunner().invoke(agents.command, words, catch_exceptions=False)
                assert done.exit_code == 0, done.output
                compare(f"agents/pair-{name}.{form}.txt", done.output.replace(url, "URL"))
