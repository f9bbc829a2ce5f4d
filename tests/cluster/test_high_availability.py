"""Two hubs and a workload cluster, each with a real API server; principals are processes that are killed."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from kube.errors import ForbiddenError
from kube.live import LiveStore
from kube.resources import APP_PROJECTS, APPLICATIONS
from scripts.cluster.controlplane import Cluster
from sidecars.fleet.ha_client import HaRefusedError
from tests.cluster.paired_hubs import (
    AGENT,
    ARGOCD,
    Hub,
    Link,
    OneName,
    PairOfHubs,
    connected,
    record_of,
    word,
)
from tests.sidecars.pair_in_memory import application, project, until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PairOfHubs]:
    """Clusters of its own: an API server does not follow the parameter of a policy that is installed twice."""
    folder = tmp_path_factory.mktemp("pair")
    with Cluster(name="region-a") as a, Cluster(name="region-b") as b, Cluster(name="spoke") as workload:
        hubs = PairOfHubs(Hub("a", a, folder), Hub("b", b, folder), workload, folder)
        hubs.equip()
        try:
            yield hubs
        finally:
            hubs.kill()


def web(name: str) -> dict[str, Any]:
    return application(name, metadata={"namespace": AGENT})


async def applications_on(store: LiveStore, namespace: str) -> set[str]:
    return {item["metadata"]["name"] for item in (await store.list(APPLICATIONS, namespace=namespace)).items}


async def equal(active: Hub, standby: Hub) -> dict[str, Any]:
    """The standby has all, and a comparison says so."""
    await standby.until("replicating")

    def compared(told: dict[str, Any]) -> bool:
        (replica,) = [each for each in told["replicas"] if each["connected"]] or [{}]
        digests = replica.get("digests_equal") or {}
        return bool(digests) and all(digests.values()) and replica["lag_events"] == 0

    return await active.until("active", so=compared)


@pytest.fixture
async def name(pair: PairOfHubs) -> AsyncIterator[OneName]:
    async with OneName(pair.a, pair.b).listening() as listening:
        yield listening


EVERYTHING = {"first", *(f"last-{number}" for number in range(20))}


async def first_sync_and_streaming(pair: PairOfHubs, workload: LiveStore) -> None:
    async with pair.a.store() as at_a, pair.b.store() as at_b:
        await at_a.create(APP_PROJECTS, project("web", agents=AGENT), namespace=ARGOCD)
        await at_a.create(APPLICATIONS, web("first"), namespace=AGENT)
        await until(workload, APPLICATIONS, lambda there: "first" in there)
        await until(at_b, APPLICATIONS, lambda there: "first" in there, namespace=AGENT)
    await equal(pair.a, pair.b)
    with pytest.raises(HaRefusedError, match="still replicating from peer"):
        await pair.b.admin.change_role("Promote", word())


async def primary_killed_and_replica_promoted(pair: PairOfHubs, workload: LiveStore, link: Link) -> None:
    """The primary's last twenty creations reach the agent and not the replica; then it is gone."""
    a, b = pair.a, pair.b
    link.cut()
    await b.until("disconnected")
    async with a.store() as at_a:
        for number in range(20):
            await at_a.create(APPLICATIONS, web(f"last-{number}"), namespace=AGENT)
    await until(workload, APPLICATIONS, lambda there: set(there) >= EVERYTHING)
    a.kill()
    async with connected(b.cluster.kubeconfig) as other:
        with pytest.raises(ForbiddenError, match="this cluster is a standby"):
            await other.create(APPLICATIONS, web("too-early"), namespace=AGENT)
        assert await b.admin.change_role("Promote", word()) == ("active", 2)
        assert await b.health_check() == 200
        await other.create(APPLICATIONS, web("later"), namespace=AGENT)
    await until(workload, APPLICATIONS, lambda there: "later" in there)
    told = await b.until("active", so=lambda told: told["held_count"] == 20)
    assert {each["name"] for each in told["held"]} == EVERYTHING - {"first"}


async def old_primary_returns_and_steps_back(pair: PairOfHubs) -> None:
    """With its flag still saying primary."""
    a, b = pair.a, pair.b
    a.start()
    await a.until("replicating")
    await equal(b, a)
    assert record_of(a)["role"] == "standby"
    async with a.store() as at_a, b.store() as at_b:
        there = await applications_on(at_a, AGENT)
        assert there == await applications_on(at_b, AGENT) == {"first", "later"}


async def test_four_journeys(pair: PairOfHubs, name: OneName) -> None:
    a, b = pair.a, pair.b
    async with Link(a).listening() as link, pair.at_workload() as workload:
        b.start(role="replica", through=link.port)
        a.start()
        await a.until("active", so=lambda told: told["fenced"])
        assert (await a.health_check(), await b.health_check()) == (200, 503)
        await asyncio.to_thread(pair.equip_agent, a)
        with pair.agent(name):
            await first_sync_and_streaming(pair, workload)
            await primary_killed_and_replica_promoted(pair, workload, link)
            link.is_cut = False
            await old_primary_returns_and_steps_back(pair)
            # No workload has disappeared: that is an operator's word.
            assert await applications_on(workload, ARGOCD) == EVERYTHING | {"later"}
            # Failback.
            await b.admin.change_role("Demote", word())
            await a.until("disconnected")
            assert await a.admin.change_role("Promote", word()) == ("active", 3)
            await a.until("active", so=lambda told: told["connected_agents"] == 1)
            await equal(a, b)
            # Both are killed at once and come back in any order, whatever their flags prefer.
            for first, second in ((a, b), (b, a)):
                pair.kill()
                first.start(role="primary")
                await asyncio.sleep(1)
                second.start(role="primary")
                await a.until("active", so=lambda told: told["connected_agents"] == 1)
                await equal(a, b)
            assert (record_of(a)["epoch"], record_of(b)["epoch"]) == ("3", "2")
            assert await applications_on(workload, ARGOCD) == EVERYTHING | {"later"}
