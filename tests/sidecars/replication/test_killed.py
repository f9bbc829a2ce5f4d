"""A standby's process killed at any moment, on real API servers: nothing is lost, nothing deleted, nothing written twice."""

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kube.live import LiveStore
from kube.resources import APPLICATIONS, NAMESPACES
from kube.store import Object, WatchEventKind
from scripts.bench.live_replication import STANDBY, LivePair
from scripts.bench.paired import AGENT, application
from scripts.bench.sidecar_processes import NAMESPACE, Papers
from scripts.cluster.binaries import Binaries
from scripts.cluster.controlplane import Cluster
from sidecars.replication.messages import CHUNK_BYTES

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

PER_CHUNK = 100
MANY = 300
"""Three chunks, of which two are under way at most."""
PATIENCE = 240.0


def large(number: int) -> Object:
    item = application(f"app-{number}")
    values = "x" * (CHUNK_BYTES // PER_CHUNK)
    return {
        **item,
        "spec": {**item["spec"], "source": {**item["spec"]["source"], "helm": {"values": values}}},
    }


@asynccontextmanager
async def two_hubs(binaries: Binaries) -> AsyncIterator[tuple[LivePair, LiveStore, LiveStore]]:
    with (
        tempfile.TemporaryDirectory() as folder,
        Cluster(name="replicated", binaries=binaries) as hub,
        Cluster(name="replica", binaries=binaries) as other,
    ):
        papers = Papers.write(Path(folder))
        papers.keep_agent(STANDBY)
        stores = [await LiveStore.connect(kubeconfig=each.kubeconfig) for each in (hub, other)]
        try:
            for store in stores:
                for name in (NAMESPACE, AGENT):
                    await store.create(NAMESPACES, {"metadata": {"name": name}})
            yield LivePair(hub, other, papers.folder), stores[0], stores[1]
        finally:
            for store in stores:
                await store.close()


async def applications(store: LiveStore) -> dict[str, Object]:
    page = await store.list(APPLICATIONS, namespace=AGENT)
    return {item["metadata"]["name"]: item for item in page.items}


async def until(store: LiveStore, holds: Callable[[dict[str, Object]], Any]) -> dict[str, Object]:
    async with asyncio.timeout(PATIENCE):
        while not holds(there := await applications(store)):  # noqa: ASYNC110 - two processes away
            await asyncio.sleep(0.1)
    return there


async def created(store: LiveStore, count: int) -> None:
    """Returns when a watch has shown so many."""
    names: set[str] = set()
    watch = store.watch(APPLICATIONS, namespace=AGENT, resource_version="0")
    async with asyncio.timeout(PATIENCE), aclosing(watch) as events:
        async for event in events:
            if event.kind is WatchEventKind.ADDED:
                names.add(event.object["metadata"]["name"])
                if len(names) >= count:
                    return


def versions(there: dict[str, Object], *, without: set[str]) -> dict[str, str]:
    return {name: item["metadata"]["resourceVersion"] for name, item in there.items() if name not in without}


async def test_a_standby_killed_in_a_chunk_and_after_a_write_ends_equal_and_writes_nothing_again(
    cluster_binaries: Binaries,
) -> None:
    async with two_hubs(cluster_binaries) as (pair, one, two):
        await asyncio.gather(
            *(one.create(APPLICATIONS, large(number), namespace=AGENT) for number in range(MANY))
        )
        await two.create(APPLICATIONS, application("of-the-standby"), namespace=AGENT)
        with pair.primary():
            with pair.standby() as pid:
                await created(two, PER_CHUNK + PER_CHUNK // 3)
                os.kill(pid, signal.SIGKILL)
            some = await applications(two)
            # In the middle of the second chunk; nothing goes because of what has not come.
            assert PER_CHUNK < len(some) - 1 < 2 * PER_CHUNK
            assert "of-the-standby" in some
            with pair.standby() as pid:
                # What the primary does not have goes by comparing, once the sync is whole.
                wanted = await applications(one)
                before = await until(two, lambda there: set(there) == set(wanted))
                item = wanted["app-0"]
                await one.replace(APPLICATIONS, {**item, "spec": {**item["spec"], "project": "other"}})
                await until(two, lambda there: there["app-0"]["spec"]["project"] == "other")
                os.kill(pid, signal.SIGKILL)  # likely before its cursor was kept
            with pair.standby():
                await one.create(APPLICATIONS, application("last"), namespace=AGENT)
                after = await until(two, lambda there: "last" in there)
        # Each was written once in the three lives of the standby, but for the one that was changed.
        changed = {"of-the-standby", "app-0", "last"}
        assert versions(some, without=changed).items() <= versions(before, without=changed).items()
        assert versions(before, without=changed) == versions(after, without=changed)
