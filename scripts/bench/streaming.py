"""An Application's way from a control plane to a workload cluster and its status' way back, on real API servers."""

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

from argocd import names
from kube.live import LiveStore
from kube.resources import APP_PROJECTS, APPLICATIONS, NAMESPACES, SECRETS
from kube.store import EventKind, Object, PatchKind
from scripts.bench.figures import Figure
from scripts.bench.sidecar_processes import (
    NAMESPACE,
    START_SECONDS,
    Papers,
    child,
    free_port,
    run_agent,
    run_principal,
)
from scripts.cluster.controlplane import Cluster

NAME = "streaming: one managed agent, principal and agent in processes of their own, two API servers, TLS"

AGENT = "agent-a"
BARE = "bare write and watch"
ROUNDS = 60
BURSTS = (200, 500)
STATUS_WRITES = 3
AT_ONCE = 16
WITHIN = 30.0

PROPAGATION_GOAL = 3.0
BURST_GOAL = -0.8
STATUS_GOAL = 1.3


def application(name: str) -> Object:
    return {
        "metadata": {"name": name},
        "spec": {
            "project": "default",
            "source": {"repoURL": "https://git.example.org/a.git", "path": ".", "targetRevision": "v0"},
            "destination": {"name": AGENT, "namespace": "shop"},
        },
    }


class Sight:
    """What a watch has shown of the Applications of a namespace, and when."""

    def __init__(self, store: LiveStore, namespace: str) -> None:
        self._store, self._namespace = store, namespace
        self._there: dict[str, Object] = {}
        self._changed = asyncio.Condition()

    async def run(self) -> None:
        page = await self._store.list(APPLICATIONS, namespace=self._namespace)
        events = self._store.watch(
            APPLICATIONS, namespace=self._namespace, resource_version=page.resource_version
        )
        async with aclosing(events) as stream:
            async for event in stream:
                if event.kind is EventKind.BOOKMARK:
                    continue
                async with self._changed:
                    self._there[event.object["metadata"]["name"]] = event.object
                    self._changed.notify_all()

    async def until(self, condition: Callable[[dict[str, Object]], bool], *, within: float = WITHIN) -> float:
        async with asyncio.timeout(within), self._changed:
            await self._changed.wait_for(lambda: condition(self._there))
        return time.perf_counter()


class Pair:
    """Both clusters, watched, with the sidecars between them."""

    def __init__(self, hub: LiveStore, workload: LiveStore) -> None:
        self.hub, self.workload = hub, workload
        self.hub_sight, self.sight = Sight(hub, AGENT), Sight(workload, NAMESPACE)
        self.bare_sight = Sight(hub, "bare")
        self.numbers = count()

    async def timed(
        self,
        write: Callable[[], Awaitable[Any]],
        sight: Sight,
        condition: Callable[[dict[str, Object]], bool],
    ) -> float:
        started = time.perf_counter()
        seen = asyncio.ensure_future(sight.until(condition))
        await write()
        return await seen - started

    async def create(self, namespace: str, sight: Sight) -> float:
        name = f"app-{next(self.numbers)}"
        write = lambda: self.hub.create(APPLICATIONS, application(name), namespace=namespace)  # noqa: E731
        return await self.timed(write, sight, lambda there: name in there)

    async def update(self, namespace: str, sight: Sight, name: str) -> float:
        version = f"v{next(self.numbers)}"
        patch = {"spec": {"source": {"targetRevision": version}}}
        write = lambda: _patched(self.hub, patch, name=name, namespace=namespace)  # noqa: E731
        return await self.timed(
            write,
            sight,
            lambda there: name in there and there[name]["spec"]["source"]["targetRevision"] == version,
        )

    async def status(self, store: LiveStore, namespace: str, sight: Sight, name: str) -> float:
        revision = str(next(self.numbers))
        write = lambda: _patched(store, _status(revision), name=name, namespace=namespace)  # noqa: E731
        return await self.timed(write, sight, lambda there: _revision(there.get(name)) == revision)


async def _patched(store: LiveStore, patch: Object, *, name: str, namespace: str) -> None:
    await store.patch(APPLICATIONS, patch, name=name, namespace=namespace, kind=PatchKind.MERGE)


def _status(revision: str) -> Object:
    return {"status": {"sync": {"status": "Synced", "revision": revision}, "health": {"status": "Healthy"}}}


def _revision(item: Object | None) -> str:
    return str(((item or {}).get("status") or {}).get("sync", {}).get("revision", ""))


async def _propagation(pair: Pair) -> list[Figure]:
    """In turns with the bare figure, so that a busy moment meets both."""
    await pair.create(AGENT, pair.sight)
    await pair.create("bare", pair.bare_sight)
    ours, theirs = "app-0", "app-1"
    ways: dict[
        str, tuple[Callable[[], Coroutine[Any, Any, float]], Callable[[], Coroutine[Any, Any, float]]]
    ] = {
        "create": (lambda: pair.create(AGENT, pair.sight), lambda: pair.create("bare", pair.bare_sight)),
        "update": (
            lambda: pair.update(AGENT, pair.sight, ours),
            lambda: pair.update("bare", pair.bare_sight, theirs),
        ),
        "status back": (
            lambda: pair.status(pair.workload, NAMESPACE, pair.hub_sight, ours),
            lambda: pair.status(pair.hub, "bare", pair.bare_sight, theirs),
        ),
    }
    figures = []
    for what, (mine, bare) in ways.items():
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(ROUNDS):
            times[0].append(await mine() * 1e3)
            times[1].append(await bare() * 1e3)
        for quantile, title in ((0.5, "p50"), (0.99, "p99")):
            mine_at, bare_at = (_quantile(each, quantile) for each in times)
            goal = PROPAGATION_GOAL if title == "p50" else None
            figures.append(Figure(f"{what}, {title}", mine_at, "ms", than=BARE, theirs=bare_at, goal=goal))
    return figures


def _quantile(times: list[float], at: float) -> float:
    return statistics.quantiles(times, n=100, method="inclusive")[round(at * 100) - 1]


async def _bursts(pair: Pair) -> list[Figure]:
    figures = []
    for size in BURSTS:
        alone = await _burst(pair, "bare", size, pair.bare_sight)
        ours = await _burst(pair, AGENT, size, pair.sight)
        what = f"a burst of {size} creates arrives"
        figures.append(
            Figure(what, size / ours, "/s", than="the API server alone", theirs=size / alone, goal=BURST_GOAL)
        )
    return figures


async def _burst(pair: Pair, namespace: str, size: int, sight: Sight) -> float:
    wanted = [f"burst-{next(pair.numbers)}" for _ in range(size)]
    started = time.perf_counter()
    seen = asyncio.ensure_future(sight.until(lambda there: all(name in there for name in wanted), within=300))
    await _at_once(
        lambda name=name: pair.hub.create(APPLICATIONS, application(name), namespace=namespace)
        for name in wanted
    )
    return await seen - started


async def _statuses(pair: Pair, size: int) -> Figure:
    """Applications that arrived with the last burst."""
    page = await pair.workload.list(APPLICATIONS, namespace=NAMESPACE)
    chosen = [item["metadata"]["name"] for item in page.items][:size]
    final = f"r{next(pair.numbers)}"
    started = time.perf_counter()
    seen = asyncio.ensure_future(
        pair.hub_sight.until(
            lambda there: all(_revision(there.get(name)) == final for name in chosen), within=300
        )
    )
    for number in range(STATUS_WRITES):
        revision = final if number == STATUS_WRITES - 1 else f"{final}-{number}"
        await _at_once(
            lambda name=name, revision=revision: _patched(
                pair.workload, _status(revision), name=name, namespace=NAMESPACE
            )
            for name in chosen
        )
    written = time.perf_counter() - started
    there = await seen - started
    what = f"{STATUS_WRITES} status writes on each of {len(chosen)}: until the hub has the last"
    return Figure(what, there, "s", than="writing them", theirs=written, goal=STATUS_GOAL)


async def _at_once(calls: Any) -> None:
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(call: Callable[[], Awaitable[Any]]) -> None:
        async with gate:
            await call()

    await asyncio.gather(*(one(call) for call in calls))


@asynccontextmanager
async def _pair(hub: Cluster, workload: Cluster) -> AsyncIterator[Pair]:
    stores = [await LiveStore.connect(kubeconfig=each.kubeconfig) for each in (hub, workload)]
    for store, namespaces in zip(stores, ((NAMESPACE, AGENT, "bare"), (NAMESPACE,)), strict=True):
        for name in namespaces:
            await store.create(NAMESPACES, {"metadata": {"name": name}})
    secret = {
        "metadata": {
            "name": f"cluster-{AGENT}",
            "labels": {names.SECRET_TYPE: "cluster", names.AGENT_NAME: AGENT},
        },
        "stringData": {"name": AGENT, "server": f"https://proxy?agentName={AGENT}", "config": "{}"},
    }
    await stores[0].create(SECRETS, secret, namespace=NAMESPACE)
    pair = Pair(stores[0], stores[1])
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(sight.run()) for sight in (pair.hub_sight, pair.sight, pair.bare_sight)]
        yield pair
        for task in tasks:
            task.cancel()
    for store in stores:
        await store.close()


async def _connected(pair: Pair) -> None:
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
            if event.kind is EventKind.ADDED:
                return


async def run() -> list[Figure]:
    with (
        tempfile.TemporaryDirectory() as folder,
        Cluster(name="bench-hub") as hub,
        Cluster(name="bench-workload") as workload,
    ):
        papers = Papers.write(Path(folder))
        papers.keep_agent(AGENT)
        port = free_port()
        async with _pair(hub, workload) as pair:
            with (
                child(run_principal, str(hub.kubeconfig), folder, port),
                child(run_agent, str(workload.kubeconfig), folder, port, AGENT),
            ):
                await _connected(pair)
                return [*await _propagation(pair), *await _bursts(pair), await _statuses(pair, BURSTS[-1])]
