"""An Application's way from a control plane to a workload cluster and its status' way back, on real API servers.

Whatever is compared is written and watched in the same way, in turns. The bare writes go to a namespace of the
workload cluster that the agent does not watch, so that the sidecars do not work on them.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import aclosing, asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from argocd import names
from kube.live import LiveStore
from kube.resources import APP_PROJECTS, APPLICATIONS, NAMESPACES, SECRETS
from kube.store import EventKind, Object, PatchKind
from scripts.bench.figures import Figure
from scripts.bench.live_sidecars import run_agent, run_principal
from scripts.bench.sidecar_processes import (
    NAMESPACE,
    START_SECONDS,
    Papers,
    child,
    cpu_seconds,
    cpu_seconds_of_all,
    free_port,
)
from scripts.cluster.controlplane import Cluster

NAME = "streaming: one managed agent, principal and agent in processes of their own, two API servers, TLS"

AGENT = "agent-a"
ASIDE = "bare"
BARE = "bare write and watch"
ALONE = "the API server alone"
BOTH = "the same writes on both API servers"
ROUNDS = 60
# And how often: a short one is over in a moment, which may be a busy one.
BURSTS = {500: 3, 3_000: 1}
WRITERS = 16
STATUS_WRITES = 3
WITHIN = 30.0
# A burst of thousands on a busy machine.
BURST_WITHIN = 600.0

PROPAGATION_GOAL = 3.0
BURST_GOAL = -0.8
GROWTH_GOAL = -0.9
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
        try:
            yield self
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _watch(self, version: str) -> None:
        events = self._store.watch(APPLICATIONS, namespace=self._namespace, resource_version=version)
        async with aclosing(events) as stream:
            async for event in stream:
                if event.kind is not EventKind.BOOKMARK:
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
    """Both clusters; the sidecars run between them."""

    def __init__(self, hub: LiveStore, workload: LiveStore) -> None:
        self.hub, self.workload = hub, workload
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
        return await _timed(write, sight.until([name], _any))

    async def update(self, store: LiveStore, namespace: str, sight: Sight, name: str) -> float:
        version = f"v{next(self.numbers)}"
        write = _patched(
            store, {"spec": {"source": {"targetRevision": version}}}, name=name, namespace=namespace
        )
        changed = lambda item: item["spec"]["source"]["targetRevision"] == version  # noqa: E731
        return await _timed(write, sight.until([name], changed))

    async def status(self, store: LiveStore, namespace: str, sight: Sight, name: str) -> float:
        revision = str(next(self.numbers))
        write = _patched(store, _status(revision), name=name, namespace=namespace)
        return await _timed(write, sight.until([name], lambda item: _revision(item) == revision))


async def _timed(write: Awaitable[Any], seen: Coroutine[Any, Any, float]) -> float:
    watching = asyncio.create_task(seen)
    await asyncio.sleep(0)  # it looks before anything is written
    started = time.perf_counter()
    await write
    return await watching - started


def _any(_: Object) -> bool:
    return True


async def _patched(store: LiveStore, patch: Object, *, name: str, namespace: str) -> None:
    await store.patch(APPLICATIONS, patch, name=name, namespace=namespace, kind=PatchKind.MERGE)


def _status(revision: str) -> Object:
    return {"status": {"sync": {"status": "Synced", "revision": revision}, "health": {"status": "Healthy"}}}


def _revision(item: Object) -> str:
    return str((item.get("status") or {}).get("sync", {}).get("revision", ""))


async def _propagation(pair: Pair) -> list[Figure]:
    """In turns with the bare figure, so that a busy moment meets both."""
    async with (
        pair.arrival.open() as arrival,
        Sight(pair.hub, AGENT).open() as back,
        pair.aside.open() as aside,
    ):
        await pair.create(pair.hub, AGENT, arrival)
        await pair.create(pair.workload, ASIDE, aside)
        ours, theirs = "app-0", "app-1"
        ways: dict[
            str, tuple[Callable[[], Coroutine[Any, Any, float]], Callable[[], Coroutine[Any, Any, float]]]
        ] = {
            "create": (
                lambda: pair.create(pair.hub, AGENT, arrival),
                lambda: pair.create(pair.workload, ASIDE, aside),
            ),
            "update": (
                lambda: pair.update(pair.hub, AGENT, arrival, ours),
                lambda: pair.update(pair.workload, ASIDE, aside, theirs),
            ),
            "status back": (
                lambda: pair.status(pair.workload, NAMESPACE, back, ours),
                lambda: pair.status(pair.workload, ASIDE, aside, theirs),
            ),
        }
        figures = []
        for what, (mine, bare) in ways.items():
            _tell(what)
            times: tuple[list[float], list[float]] = ([], [])
            for _ in range(ROUNDS):
                times[0].append(await mine() * 1e3)
                times[1].append(await bare() * 1e3)
            for quantile, title in ((0.5, "p50"), (0.99, "p99")):
                mine_at, bare_at = (_quantile(each, quantile) for each in times)
                goal = PROPAGATION_GOAL if title == "p50" else None
                figures.append(
                    Figure(f"{what}, {title}", mine_at, "ms", than=BARE, theirs=bare_at, goal=goal)
                )
    return figures


def _quantile(times: list[float], at: float) -> float:
    return statistics.quantiles(times, n=100, method="inclusive")[round(at * 100) - 1]


class Arm:
    """One way of taking a burst: seconds and CPU seconds of its rounds."""

    def __init__(self, pair: Pair, sight: Callable[[], Sight], *places: tuple[LiveStore, str]) -> None:
        self._pair, self._sight, self._places = pair, sight, places
        self.seconds: list[float] = []
        self.spent: list[float] = []

    async def take(self, size: int) -> None:
        before = cpu_seconds_of_all()
        self.seconds.append(await _burst(self._pair, size, self._sight(), self._places))
        self.spent.append(cpu_seconds_of_all() - before)

    def rate(self, size: int) -> float:
        return size / statistics.median(self.seconds)

    def milliseconds(self, size: int) -> float:
        """CPU time of all processes for one create."""
        return statistics.median(self.spent) / size * 1e3


async def _bursts(pair: Pair, sidecars: list[int]) -> list[Figure]:
    """Against one API server, and against what two of them take at best on the same cores."""
    figures, rates, spent = [], [], 0.0
    for size, rounds in BURSTS.items():
        alone = Arm(pair, lambda: pair.aside, (pair.workload, ASIDE))
        both = Arm(pair, lambda: pair.aside, (pair.hub, ASIDE), (pair.workload, ASIDE))
        ours = Arm(pair, lambda: pair.arrival, (pair.hub, AGENT))
        for number in range(rounds):
            _tell(f"a burst of {size:,}, {number + 1} of {rounds}")
            await alone.take(size)
            await both.take(size)
            before = cpu_seconds(*sidecars)
            await ours.take(size)
            spent = (cpu_seconds(*sidecars) - before) / size
        rate = ours.rate(size)
        rates.append(rate)
        what, cost = f"a burst of {size:,} creates arrives", f"all CPU time for one of {size:,} creates"
        milliseconds = ours.milliseconds(size)
        figures += [
            Figure(what, rate, "/s", than=ALONE, theirs=alone.rate(size), goal=BURST_GOAL),
            Figure(what, rate, "/s", than=BOTH, theirs=both.rate(size)),
            Figure(cost, milliseconds, "ms", than=ALONE, theirs=alone.milliseconds(size)),
            Figure(cost, milliseconds, "ms", than=BOTH, theirs=both.milliseconds(size)),
        ]
    small, large = BURSTS
    growth = Figure(
        f"a burst of {large:,}", rates[1], "/s", than=f"one of {small}", theirs=rates[0], goal=GROWTH_GOAL
    )
    return [*figures, growth, Figure("of which principal and agent", spent * 1e3, "ms")]


async def _burst(pair: Pair, size: int, sight: Sight, places: tuple[tuple[LiveStore, str], ...]) -> float:
    wanted = pair.names(size)
    async with sight.open():
        writes = asyncio.gather(*(_written(partial(_create, *place), wanted) for place in places))
        return await _timed(writes, sight.until(wanted, _any, within=BURST_WITHIN))


async def _create(store: LiveStore, namespace: str, name: str) -> None:
    await store.create(APPLICATIONS, application(name), namespace=namespace)


async def _tell_status(store: LiveStore, revision: str, name: str) -> None:
    await _patched(store, _status(revision), name=name, namespace=NAMESPACE)


async def _statuses(pair: Pair) -> Figure:
    """Of as many Applications as the largest burst brought."""
    page = await pair.workload.list(APPLICATIONS, namespace=NAMESPACE)
    chosen = [item["metadata"]["name"] for item in page.items][-max(BURSTS) :]
    _tell(f"{STATUS_WRITES} status writes on each of {len(chosen)}")
    final = f"r{next(pair.numbers)}"
    written = 0.0

    async def write() -> None:
        nonlocal written
        started = time.perf_counter()
        for number in range(STATUS_WRITES):
            revision = final if number == STATUS_WRITES - 1 else f"{final}-{number}"
            await _written(partial(_tell_status, pair.workload, revision), chosen)
        written = time.perf_counter() - started

    async with Sight(pair.hub, AGENT).open() as back:
        last = back.until(chosen, lambda item: _revision(item) == final, within=BURST_WITHIN)
        there = await _timed(write(), last)
    what = f"{STATUS_WRITES} status writes on each of {len(chosen):,}: until the hub has the last"
    return Figure(what, there, "s", than="writing them", theirs=written, goal=STATUS_GOAL)


async def _written(write: Callable[[str], Awaitable[Any]], wanted: list[str]) -> None:
    left = iter(wanted)

    async def work() -> None:
        for name in left:
            await write(name)

    await asyncio.gather(*(work() for _ in range(WRITERS)))


def _tell(what: str) -> None:
    """Minutes pass: somebody may be looking."""
    if sys.stderr.isatty():
        print(f"  … {what}", file=sys.stderr, flush=True)


@asynccontextmanager
async def _pair(hub: Cluster, workload: Cluster) -> AsyncIterator[Pair]:
    stores = [await LiveStore.connect(kubeconfig=each.kubeconfig) for each in (hub, workload)]
    for store in stores:
        for name in (NAMESPACE, AGENT, ASIDE):
            await store.create(NAMESPACES, {"metadata": {"name": name}})
    secret = {
        "metadata": {
            "name": f"cluster-{AGENT}",
            "labels": {names.SECRET_TYPE: "cluster", names.AGENT_NAME: AGENT},
        },
        "stringData": {"name": AGENT, "server": f"https://proxy?agentName={AGENT}", "config": "{}"},
    }
    await stores[0].create(SECRETS, secret, namespace=NAMESPACE)
    try:
        yield Pair(stores[0], stores[1])
    finally:
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
    _tell("two API servers start")
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
                child(run_principal, str(hub.kubeconfig), folder, port) as principal,
                child(run_agent, str(workload.kubeconfig), folder, port, AGENT) as agent,
            ):
                await _connected(pair)
                sidecars = [principal.pid, agent.pid]
                return [
                    *await _propagation(pair),
                    *await _bursts(pair, sidecars),
                    await _statuses(pair),
                ]
