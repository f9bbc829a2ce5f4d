"""A cache on a real API server: compaction, a crash, cut and silent connections, five thousand objects.

In each nothing is lost, and no object is told twice as new: `Recorder` fails at once otherwise.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kube.cache import Cache
from kube.live import LiveStore
from kube.projections import whole
from kube.resources import APPLICATIONS, CONFIG_MAPS
from kube.store import ListPage, Object, PatchKind, Resource
from scripts.cluster.controlplane import Cluster
from tests.kube.cutting_proxy import Proxy, proxy_to
from tests.kube.objects import application, config_map
from tests.kube.recorder import Recorder

BOUND = 60.0
"""Seconds: an API server that starts on a busy machine is slow."""


class CountingStore(LiveStore):
    """Counts lists by their first pages."""

    lists = 0

    async def list(self, resource: Resource, **options: Any) -> ListPage:
        self.lists += not options.get("continue_token")
        return await super().list(resource, **options)


@dataclass
class Scene:
    """`writer` has a way of its own; the cache sees the cluster through the proxy."""

    cluster: Cluster
    namespace: str
    proxy: Proxy
    writer: LiveStore
    reader: CountingStore
    cache: Cache[Object]
    recorder: Recorder
    resource: Resource

    async def create(self, *names: str) -> None:
        await asyncio.gather(*(self.writer.create(self.resource, self.body(name)) for name in names))

    def body(self, name: str) -> Object:
        make = application if self.resource == APPLICATIONS else config_map
        return make(name, namespace=self.namespace)

    async def change(self, name: str, path: str) -> None:
        patch = {"spec": {"source": {"path": path}}}
        await self.writer.patch(
            APPLICATIONS, patch, name=name, namespace=self.namespace, kind=PatchKind.MERGE
        )

    async def delete(self, *names: str) -> None:
        for name in names:
            await self.writer.delete(self.resource, name=name, namespace=self.namespace)

    async def caught_up(self) -> None:
        """Everything written so far has arrived, exactly as it is."""
        await self.compare(self.cache, self.recorder, "the-last")

    async def compare(self, cache: Cache[Object], recorder: Recorder, last_name: str) -> None:
        last = await self.writer.create(self.resource, self.body(last_name))
        page = await self.writer.list(self.resource, namespace=self.namespace)
        async with asyncio.timeout(BOUND):
            await cache.reached(last["metadata"]["resourceVersion"])
        assert recorder.knows(page)


@asynccontextmanager
async def playing(
    cluster: Cluster,
    namespace: str,
    folder: Path,
    *,
    watch_idle: float = 120.0,
    resource: Resource = APPLICATIONS,
) -> AsyncIterator[Scene]:
    async with proxy_to(cluster.port) as proxy:
        through = proxy.kubeconfig(cluster.kubeconfig, folder / "config")
        writer = await LiveStore.connect(kubeconfig=cluster.kubeconfig)
        reader = await CountingStore.connect(kubeconfig=through, watch_idle=watch_idle)
        cache: Cache[Object] = Cache(reader, resource, projection=whole, namespace=namespace)
        recorder = Recorder(cache)
        try:
            async with asyncio.TaskGroup() as group:
                task = group.create_task(cache.run())
                async with asyncio.timeout(BOUND):
                    await cache.synced()
                yield Scene(cluster, namespace, proxy, writer, reader, cache, recorder, resource)
                task.cancel()
        finally:
            await reader.close()
            await writer.close()


async def test_a_cache_survives_compaction(private_cluster: Cluster, tmp_path: Path) -> None:
    namespace = private_cluster.create_namespace()
    async with playing(private_cluster, namespace, tmp_path) as scene:
        await scene.create("kept", "changed", "deleted", "reborn")
        await scene.recorder.until(lambda: len(scene.recorder.changes) == 4)
        scene.reader.lists = 0
        scene.proxy.block()
        await scene.change("changed", "elsewhere")
        await scene.delete("deleted", "reborn")
        await scene.create("reborn", "passing")
        await scene.delete("passing")
        # Only an API server that starts after the compaction has no history of its own.
        await asyncio.to_thread(private_cluster.compact)
        await asyncio.to_thread(private_cluster.kill_api_server)
        await asyncio.to_thread(private_cluster.start_api_server)
        scene.proxy.unblock()
        await scene.caught_up()
        assert scene.reader.lists >= 1
        assert sorted(scene.recorder.changes[4:]) == sorted(
            [("*", "changed"), ("-", "deleted"), ("-", "reborn"), ("+", "reborn"), ("+", "the-last")]
        )


async def test_a_cache_survives_a_crash_of_the_api_server(private_cluster: Cluster, tmp_path: Path) -> None:
    namespace = private_cluster.create_namespace()
    async with playing(private_cluster, namespace, tmp_path) as scene:
        await scene.create(*(f"a{number}" for number in range(20)))
        # One that is deleted below before it was seen need never be told.
        await scene.recorder.until(lambda: len(scene.recorder.changes) == 20)
        await asyncio.to_thread(private_cluster.kill_api_server)
        await asyncio.to_thread(private_cluster.start_api_server)
        await scene.change("a3", "elsewhere")
        await scene.delete("a4")
        await scene.caught_up()
        names = [f"a{number}" for number in range(20)]
        assert sorted(scene.recorder.told_as_new()) == sorted([*names, "the-last"])


async def test_a_cache_survives_cuts_in_the_middle(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    async with playing(cluster, namespace, tmp_path) as scene:
        scene.reader.lists = 0
        for number in range(60):
            await scene.create(f"a{number}")
            if number % 6 == 0:
                scene.proxy.connected.clear()
                scene.proxy.cut()
            if number % 6 == 4:  # so that the next cut meets a watch
                async with asyncio.timeout(BOUND):
                    await scene.proxy.connected.wait()
            if number % 5 == 0:
                await scene.delete(f"a{number}")
        await scene.caught_up()
        assert scene.proxy.connections >= 10
        # A cut costs a new watch, not a new list.
        assert scene.reader.lists == 0
        assert len(scene.recorder.told_as_new()) == 61


async def test_a_cache_notices_silence(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    async with playing(cluster, namespace, tmp_path, watch_idle=0.5) as scene:
        scene.proxy.stall()
        await scene.create("a")
        scene.proxy.connected.clear()
        async with asyncio.timeout(BOUND):
            await scene.proxy.connected.wait()
        scene.proxy.resume()
        await scene.caught_up()
        assert sorted(scene.recorder.told_as_new()) == ["a", "the-last"]


async def test_a_cache_holds_five_thousand_objects(private_cluster: Cluster, tmp_path: Path) -> None:
    count = 5000
    namespace = private_cluster.create_namespace()  # goes with its cluster: deleting all that takes its time
    async with playing(private_cluster, namespace, tmp_path, resource=CONFIG_MAPS) as scene:
        for start in range(0, count, 500):
            await scene.create(*(f"a{number}" for number in range(start, start + 500)))
            scene.proxy.cut()
        await scene.caught_up()
        assert len(scene.cache) == count + 1
        assert len(scene.recorder.told_as_new()) == count + 1
        late: Cache[Object] = Cache(scene.reader, CONFIG_MAPS, projection=whole, namespace=namespace)
        recorder = Recorder(late)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(late.run())
            await asyncio.sleep(0)
            await scene.delete("a0", "a4999")
            await scene.compare(late, recorder, "even-later")
            task.cancel()
