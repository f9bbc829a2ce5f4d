"""Two hubs and a workload cluster, each with a real API server; principals are processes that are killed."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from argocd import names
from kube.errors import ForbiddenError
from kube.leases import LeaseTiming
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


async def settled(pair: PairOfHubs) -> tuple[Hub, Hub]:
    """Both run, whatever the test before has left: the active one and the other."""
    a, b = pair.a, pair.b
    if a.process is None and b.process is None:
        b.start(role="replica")
        a.start()
    for hub in (a, b):
        await hub.until("active", "replicating")
    active, standby = (a, b) if (await a.status())["state"] == "active" else (b, a)
    await equal(active, standby)
    return active, standby


@pytest.mark.proof
async def test_a_fence_that_is_edited_is_noticed_and_keeps_from_promoting(pair: PairOfHubs) -> None:
    active, standby = await settled(pair)
    binding = ("validatingadmissionpolicybinding", names.HA_FENCE, "--type=merge", "-p")
    standby.cluster.kubectl("patch", *binding, '{"spec": {"validationActions": ["Audit"]}}')
    try:
        words = ""
        async with asyncio.timeout(60):
            while "this cluster is not fenced" not in words:  # an API server hears of it by its own watch
                with pytest.raises(HaRefusedError) as caught:
                    await standby.admin.change_role("Promote", word())
                words = str(caught.value)
    finally:
        standby.cluster.kubectl("patch", *binding, '{"spec": {"validationActions": ["Deny"]}}')
    await standby.until("replicating", so=lambda told: told["fenced"])
    assert (await active.status())["state"] == "active"


@pytest.mark.proof
async def test_an_active_one_that_was_paused_beyond_its_lease_writes_nothing_and_steps_back(
    pair: PairOfHubs,
) -> None:
    active, standby = await settled(pair)
    active.signal(signal.SIGSTOP)
    try:
        await standby.until("disconnected")
        await standby.admin.change_role("Promote", word())
        await asyncio.sleep(LeaseTiming().duration)
        began = len(active.cluster.audited())
    finally:
        active.signal(signal.SIGCONT)
    await active.until("replicating")
    user = f"system:serviceaccount:{ARGOCD}:tiphys-principal"
    written = {
        event["objectRef"].get("name", event["objectRef"]["resource"])
        for event in active.cluster.audited()[began:]
        if event["user"]["username"] == user and event["verb"] in {"create", "update", "patch", "delete"}
    }
    assert written <= {"tiphys-principal", names.HA_RECORD, names.HA_CURSOR, names.HA_CANARY, "events"}
    await equal(standby, active)


@pytest.mark.proof
async def test_a_standby_killed_while_it_applies_deletes_nothing_and_writes_nothing_twice(
    pair: PairOfHubs,
) -> None:
    active, standby = await settled(pair)
    names_made = {f"burst-{number}" for number in range(60)}
    async with active.store() as at_active, standby.store() as at_standby:
        for number, each in enumerate(sorted(names_made)):
            await at_active.create(APP_PROJECTS, project(each), namespace=ARGOCD)
            if number == 30:
                standby.kill()
        before = {
            item["metadata"]["name"]: item["metadata"]["resourceVersion"]
            for item in (await at_standby.list(APP_PROJECTS, namespace=ARGOCD)).items
        }
        began = len(standby.cluster.audited())
        standby.start()
        await equal(active, standby)
        after = {
            item["metadata"]["name"]: item["metadata"]["resourceVersion"]
            for item in (await at_standby.list(APP_PROJECTS, namespace=ARGOCD)).items
        }
    assert names_made <= set(after)
    assert {name: after.get(name) for name in before} == before
    deleted = [event for event in standby.cluster.audited()[began:] if event["verb"] == "delete"]
    assert [event["objectRef"].get("name") for event in deleted] == []
