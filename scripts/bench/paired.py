"""Two API servers with sidecars between them, and what benchmarks write and see there.

Whatever is compared is written and watched in the same way, in turns. The bare writes go to a namespace of the
workload cluster that the agent does not watch, so that the sidecars do not work on them.
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import AbstractContextManager, aclosing, asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from kube.live import LiveStore
from kube.resources import APP_PROJECTS, APPLICATIONS, NAMESPACES, SECRETS
from kube.store import Object, PatchKind, WatchEventKind
from scripts.argocd_agent import BINARY, agent_arguments, principal_arguments
from scripts.bench.live_sidecars import run_agent, run_principal
from scripts.bench.sidecar_processes import NAMESPACE, START_SECONDS, Papers, child, cluster_secret
from scripts.cluster.controlplane import Cluster
from scripts.ports import free_port

AGENT = "agent-a"
ASIDE = "bare"
GO = "argocd-agent's pair"
WITHIN = 30.0


def application(name: str) -> Object:
    return {
        "metadata": {"name": name},
        "spec": {
            "project": "default",
            "source": {"repoURL": "https://git.example.org/a.git", "path": ".", "targetRevision": "v0"},
            "destination": {"name": AGENT, "namespace": "shop"},
        },
    }


class Wait:
    """For objects to look as they shall; `over` is told when the last one did."""

    def __init__(self, wanted: Iterable[str], looks: Callable[[Object], bool]) -> None:
        self._missing = set(wanted)
        self._looks = looks
        self.over: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def see(self, item: Object) -> None:
        name = item["metadata"]["name"]
        if name in self._missing and self._looks(item):
            self._missing.discard(name)
            if not self._missing and not self.over.done():
                self.over.set_result(time.perf_counter())


class Sight:
    """What a watch shows of the Applications of a namespace. Cheap, for it shares the machine with what it sees."""

    def __init__(self, store: LiveStore, namespace: str) -> None:
        self._store, self._namespace = store, namespace
        self._waits: list[Wait] = []

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Sight"]:
        page = await self._store.list(APPLICATIONS, namespace=self._namespace, limit=1)
        watching = asyncio.create_task(self._watch(page.resource_version))
        watching.add_done_callback(self._ended)
        try:
            yield self
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    def _ended(self, watching: asyncio.Task[None]) -> None:
        """Whoever waits would wait for ever."""
        error = None if watching.cancelled() else watching.exception()
        for wait in self._waits:
            if error is not None and not wait.over.done():
                wait.over.set_exception(error)

    async def _watch(self, version: str) -> None:
        """An API server ends the watch of somebody who reads too slowly, and this process writes as well."""
        while True:
            events = self._store.watch(APPLICATIONS, namespace=self._namespace, resource_version=version)
            async with aclosing(events) as stream:
                async for event in stream:
                    version = event.object["metadata"]["resourceVersion"]
                    if event.kind is not WatchEventKind.BOOKMARK:
                        for wait in self._waits:
                            wait.see(event.object)

    async def until(
        self, wanted: Iterable[str], looks: Callable[[Object], bool], *, within: float = WITHIN
    ) -> float:
        """When the last of them was seen."""
        wait = Wait(wanted, looks)
        self._waits.append(wait)
        try:
            async with asyncio.timeout(within):
                return await wait.over
        finally:
            self._waits.remove(wait)


class Pair:
    """Both clusters; the sidecars, known by their process ids, run between them."""

    def __init__(
        self, hub: LiveStore, workload: LiveStore, *, folder: Path, workload_kubeconfig: Path
    ) -> None:
        """`folder` has everybody's certificates."""
        self.hub, self.workload = hub, workload
        self.workload_kubeconfig = workload_kubeconfig
        self.folder = folder
        self.sidecars: list[int] = []
        self.numbers = count()

    @property
    def arrival(self) -> Sight:
        return Sight(self.workload, NAMESPACE)

    @property
    def aside(self) -> Sight:
        return Sight(self.workload, ASIDE)

    def names(self, size: int) -> list[str]:
        return [f"app-{next(self.numbers)}" for _ in range(size)]

    async def create(self, store: LiveStore, namespace: str, sight: Sight) -> float:
        (name,) = self.names(1)
        write = store.create(APPLICATIONS, application(name), namespace=namespace)
        return await timed(write, sight.until([name], anyhow))

    async def update(self, store: LiveStore, namespace: str, sight: Sight, name: str) -> float:
        version = f"v{next(self.numbers)}"
        write = patched(
            store, {"spec": {"source": {"targetRevision": version}}}, name=name, namespace=namespace
        )
        changed = lambda item: item["spec"]["source"]["targetRevision"] == version  # noqa: E731
        return await timed(write, sight.until([name], changed))

    async def status(self, store: LiveStore, namespace: str, sight: Sight, name: str) -> float:
        revision = str(next(self.numbers))
        write = patched(store, status_of(revision), name=name, namespace=namespace)
        return await timed(write, sight.until([name], lambda item: revision_of(item) == revision))


async def timed(write: Awaitable[Any], seen: Coroutine[Any, Any, float]) -> float:
    watching = asyncio.create_task(seen)
    await asyncio.sleep(0)  # it looks before anything is written
    started = time.perf_counter()
    await write
    return await watching - started


def anyhow(_: Object) -> bool:
    return True


async def patched(store: LiveStore, patch: Object, *, name: str, namespace: str) -> None:
    await store.patch(APPLICATIONS, patch, name=name, namespace=namespace, kind=PatchKind.MERGE)


def status_of(revision: str) -> Object:
    return {"status": {"sync": {"status": "Synced", "revision": revision}, "health": {"status": "Healthy"}}}


def revision_of(item: Object) -> str:
    return str((item.get("status") or {}).get("sync", {}).get("revision", ""))


def tell(what: str) -> None:
    """Minutes pass: somebody may be looking."""
    if sys.stderr.isatty():
        print(f"  … {what}", file=sys.stderr, flush=True)


Sidecars = Callable[[Cluster, Cluster, Path], AbstractContextManager[list[int]]]
"""Started between a hub and a workload cluster, with the papers of a folder; yields their process ids."""


@contextmanager
def ours(hub: Cluster, workload: Cluster, folder: Path, *, resource_port: int = 0) -> Iterator[list[int]]:
    port = free_port()
    with (
        child(run_principal, str(hub.kubeconfig), str(folder), port, resource_port) as principal,
        child(run_agent, str(workload.kubeconfig), str(folder), port, AGENT) as agent,
    ):
        yield [principal.pid, agent.pid]


@contextmanager
def argocd_agents(
    hub: Cluster,
    workload: Cluster,
    folder: Path,
    *,
    resource_proxy: bool = False,
    redis: tuple[int, int] | None = None,
) -> Iterator[list[int]]:
    """`redis`: the ports of the hub's and of the agent's, and its proxy listens too."""
    port, allowed = free_port(), f"{NAMESPACE},{AGENT}"
    at_hub: tuple[str, ...] = ()
    at_agent: tuple[str, ...] = ()
    if redis is not None:
        at_hub = ("--disable-redis-proxy=false", f"--redis-server-address=127.0.0.1:{redis[0]}")
        at_agent = (f"--redis-addr=127.0.0.1:{redis[1]}",)
    both = (
        (
            *principal_arguments(
                folder, hub, NAMESPACE, port, allowed=allowed, resource_proxy=resource_proxy
            ),
            *at_hub,
        ),
        (
            *agent_arguments(
                folder, workload, NAMESPACE, port, "managed", name=AGENT, resource_proxy=resource_proxy
            ),
            *at_agent,
        ),
    )
    started: list[subprocess.Popen[bytes]] = []
    try:
        for arguments in both:
            command = [BINARY, *arguments]
            started.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT))
        yield [process.pid for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait(timeout=10)


@asynccontextmanager
async def pair_with(sidecars: Sidecars) -> AsyncIterator[Pair]:
    tell("two API servers start")
    with (
        tempfile.TemporaryDirectory() as folder,
        Cluster(name="bench-hub") as hub,
        Cluster(name="bench-workload") as workload,
    ):
        papers = Papers.write(Path(folder))
        papers.keep_agent(AGENT)
        stores = [await LiveStore.connect(kubeconfig=each.kubeconfig) for each in (hub, workload)]
        try:
            await furnished(*stores)
            with sidecars(hub, workload, Path(folder)) as pids:
                pair = Pair(*stores, folder=Path(folder), workload_kubeconfig=workload.kubeconfig)
                pair.sidecars = pids
                await connected(pair)
                yield pair
        finally:
            for store in stores:
                await store.close()


async def furnished(hub: LiveStore, workload: LiveStore) -> None:
    for store in (hub, workload):
        for name in (NAMESPACE, AGENT, ASIDE):
            await store.create(NAMESPACES, {"metadata": {"name": name}})
    await hub.create(SECRETS, cluster_secret(AGENT), namespace=NAMESPACE)


async def connected(pair: Pair) -> None:
    """A project that every agent gets says when the sidecars are there."""
    spec = {
        "sourceRepos": ["*"],
        "sourceNamespaces": ["*"],
        "destinations": [{"name": "*", "namespace": "*"}],
    }
    await pair.hub.create(APP_PROJECTS, {"metadata": {"name": "default"}, "spec": spec}, namespace=NAMESPACE)
    watch = pair.workload.watch(APP_PROJECTS, namespace=NAMESPACE, resource_version="0")
    async with asyncio.timeout(START_SECONDS), aclosing(watch) as events:
        async for event in events:
            if event.kind is WatchEventKind.ADDED:
                return
