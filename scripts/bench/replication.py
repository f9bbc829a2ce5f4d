"""A standby's copy: how far behind, how soon found, how dear the first one.

Lag, bursts and repairs on two real API servers, each side in a process of its own, in turns with bare writes.
Ten thousand Applications on embedded stores, both sides in this process, where every message can be looked at.
"""

import asyncio
import resource
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from kube.embedded import EmbeddedStore
from kube.live import LiveStore
from kube.resources import APPLICATIONS
from kube.store import Object, Store
from scripts.bench.figures import Figure
from scripts.bench.live_replication import SCOPE, STANDBY, FixedRole, LivePair, hub_caches
from scripts.bench.paired import (
    AGENT,
    ASIDE,
    Pair,
    Sight,
    anyhow,
    application,
    connected,
    furnished,
    patched,
    tell,
    timed,
)
from scripts.bench.sidecar_processes import NAMESPACE, Papers
from scripts.cluster.controlplane import Cluster
from sidecars.delivery.timing import Timing
from sidecars.replication.messages import (
    PrimaryMessage,
    PrimaryWord,
    ReplicaMessage,
    ReplicaStart,
    ReplicaWord,
)
from sidecars.replication.objects import ReplicatedObjects
from sidecars.replication.primary.source import ReplicationSource
from sidecars.replication.standby.follower import Follower
from sidecars.replication.states import HaState

NAME = "replication: a primary and a standby, TLS, two API servers; 10 000 Applications on embedded stores"

BARE = "bare write and watch"
ROUNDS = 60
LAG_GOAL = 2.2
BURST = 3_000
BURST_GOAL = 1.2
WRITERS = 16
CHANGES = 20
MANY = 10_000
ROUND_TRIPS_GOAL = 4.0
COMPARED_GOAL = 30.0
WINDOW_GOAL = 2.2
MESSAGE_GOAL = 2.0
WITHIN = 600.0


async def run() -> list[Figure]:
    return [*await _live(), *await _embedded()]


# Real API servers.


async def _live() -> list[Figure]:
    tell("two API servers start")
    with (
        tempfile.TemporaryDirectory() as folder,
        Cluster(name="bench-hub") as hub,
        Cluster(name="bench-workload") as workload,
    ):
        papers = Papers.write(Path(folder))
        papers.keep_agent(STANDBY)
        ends = LivePair(hub, workload, papers.folder)
        stores = [await LiveStore.connect(kubeconfig=each.kubeconfig) for each in (hub, workload)]
        pair = Pair(*stores, folder=papers.folder)
        try:
            await furnished(*stores)
            with ends.primary():
                with ends.standby():
                    await connected(pair)
                    figures = await _lag(pair)
                    wanted = pair.names(BURST)
                    figures.append(await _burst(pair, wanted))
                some = wanted[:: BURST // CHANGES]
                figures.append(await _repair(pair, ends, some, "away, within the log"))
            with ends.primary():  # its log begins anew: only comparing helps
                figures.append(await _repair(pair, ends, some, "away, the primary restarted"))
        finally:
            for store in stores:
                await store.close()
    return figures


async def _lag(pair: Pair) -> list[Figure]:
    tell("lag")
    times: dict[str, tuple[list[float], list[float]]] = {"create": ([], []), "update": ([], [])}
    async with Sight(pair.workload, AGENT).open() as arrival, pair.aside.open() as aside:
        await pair.create(pair.hub, AGENT, arrival)  # app-0
        await pair.create(pair.workload, ASIDE, aside)  # app-1
        for _ in range(ROUNDS):
            times["create"][0].append(await pair.create(pair.hub, AGENT, arrival))
            times["create"][1].append(await pair.create(pair.workload, ASIDE, aside))
            times["update"][0].append(await pair.update(pair.hub, AGENT, arrival, "app-0"))
            times["update"][1].append(await pair.update(pair.workload, ASIDE, aside, "app-1"))
    return [
        Figure(
            f"{what} on the replica, p{quantile}",
            _quantile(through, quantile) * 1e3,
            "ms",
            than=BARE,
            theirs=_quantile(barely, quantile) * 1e3,
            goal=LAG_GOAL if quantile == 50 else None,  # noqa: PLR2004 - the median
        )
        for what, (through, barely) in times.items()
        for quantile in (50, 99)
    ]


async def _burst(pair: Pair, wanted: list[str]) -> Figure:
    tell(f"{BURST} writes")
    writing = 0.0

    async def write() -> None:
        nonlocal writing
        started = time.perf_counter()
        turns = asyncio.Semaphore(WRITERS)

        async def one(name: str) -> None:
            async with turns:
                await pair.hub.create(APPLICATIONS, application(name), namespace=AGENT)

        await asyncio.gather(*map(one, wanted))
        writing = time.perf_counter() - started

    async with Sight(pair.workload, AGENT).open() as arrival:
        seconds = await timed(write(), arrival.until(wanted, anyhow, within=WITHIN))
    what = f"{BURST} writes, the last on the replica"
    return Figure(what, seconds, "s", than="writing them", theirs=writing, goal=BURST_GOAL)


async def _repair(pair: Pair, ends: LivePair, names: list[str], how: str) -> Figure:
    """The standby is away while some of thousands change."""
    tell(f"{CHANGES} changes while it is {how}")
    version = f"v{next(pair.numbers)}"
    for name in names:
        await patched(pair.hub, {"spec": {"source": {"targetRevision": version}}}, name=name, namespace=AGENT)
    async with Sight(pair.workload, AGENT).open() as arrival:
        started = time.perf_counter()
        with ends.standby():
            looks = lambda item: item["spec"]["source"]["targetRevision"] == version  # noqa: E731
            seconds = await arrival.until(names, looks, within=WITHIN) - started
    return Figure(f"{CHANGES} changes among {BURST}, {how}: start to repaired", seconds, "s")


# Embedded stores.


class Pipe:
    """One stream in memory; what passes is measured."""

    def __init__(self, history: str) -> None:
        self.history = history
        self._down: asyncio.Queue[PrimaryMessage | None] = asyncio.Queue()
        self._up: asyncio.Queue[ReplicaMessage | None] = asyncio.Queue()
        self.under_way = self.most_under_way = self.largest = self.sent = 0
        self.compared_bytes = self.questions = self.round_trips = 0
        self._is_asking = False

    async def send_down(self, message: PrimaryMessage) -> None:
        size = len(message.payload)
        self.sent += size
        self.largest = max(self.largest, size)
        self.most_under_way = max(self.most_under_way, self.sent - self.under_way)
        if message.word is PrimaryWord.QUESTION:
            self.questions += 1
            self.compared_bytes += size
            self.round_trips += not self._is_asking
        self._is_asking = message.word is PrimaryWord.QUESTION
        self._down.put_nowait(message)

    async def send_up(self, message: ReplicaMessage) -> None:
        self.under_way = max(self.under_way, message.taken)
        if message.word is ReplicaWord.ANSWER:
            self.compared_bytes += len(message.payload)
            self._is_asking = False
        self._up.put_nowait(message)

    def primary_end(self) -> "PipeEnd":
        return PipeEnd(self.history, self.send_down, self._up)

    def replica_end(self) -> "PipeEnd":
        return PipeEnd(self.history, self.send_up, self._down)


class PipeEnd:
    def __init__(
        self, history: str, send: Callable[[Any], Awaitable[None]], arriving: asyncio.Queue[Any]
    ) -> None:
        self.history = history
        self.send = send
        self.receive = arriving.get


async def _embedded() -> list[Figure]:
    tell(f"{MANY} Applications on embedded stores")
    one, two = (
        EmbeddedStore(namespaces=(NAMESPACE, AGENT), history=30_000, watch_backlog=30_000) for _ in range(2)
    )
    for number in range(MANY):
        await one.create(APPLICATIONS, _large(number), namespace=AGENT)
    async with _hub(one) as primary, _hub(two) as standby:
        figures = await _snapshot(primary, standby, two)
        figures += await _found(primary, standby, one, two)
    return figures


def _large(number: int) -> Object:
    """Two kilobytes, as Applications with a status have."""
    item = application(f"app-{number:05}")
    return {**item, "status": {"summary": {"images": [f"registry.example.org/image:{number}{'x' * 1500}"]}}}


@asynccontextmanager
async def _hub(store: Store) -> AsyncIterator[ReplicatedObjects]:
    timing = Timing()
    caches = hub_caches(store, timing)
    objects = ReplicatedObjects(caches, scope=SCOPE)
    tasks = [asyncio.ensure_future(cache.run()) for cache in caches.values()]
    try:
        await objects.synced()
        yield objects
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def _following(
    primary: ReplicatedObjects, standby: ReplicatedObjects, store: Store, *, history: str
) -> AsyncIterator[tuple[Pipe, Follower]]:
    timing = Timing()
    source = ReplicationSource(primary, timing=timing)
    await source.start(epoch=1, history=history)
    pipe = Pipe(history)
    tasks: list[asyncio.Future[None]] = []

    @asynccontextmanager
    async def connect(start: ReplicaStart) -> AsyncIterator[Any]:
        end: Any = pipe.primary_end()
        tasks.append(asyncio.ensure_future(source.serve(STANDBY, "", end, start)))
        yield pipe.replica_end()

    follower = Follower(
        store,
        standby,
        controller=FixedRole("two", HaState.SYNCING),
        connect=connect,
        timing=timing,
    )
    await follower.load()
    await follower.start()
    try:
        yield pipe, follower
    finally:
        await follower.stop()
        await source.stop()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _synced(follower: Follower, equal: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN):
        while not (equal() and follower.progress().is_complete):  # noqa: ASYNC110 - of both ends at once
            await asyncio.sleep(0.005)


async def _snapshot(primary: ReplicatedObjects, standby: ReplicatedObjects, store: Store) -> list[Figure]:
    started = time.perf_counter()
    async with _following(primary, standby, store, history="first") as (pipe, follower):
        await _synced(follower, lambda: primary.digests() == standby.digests())
        seconds = time.perf_counter() - started
    mebibyte = 1 << 20
    return [
        Figure(f"snapshot of {MANY}: objects a second", MANY / seconds, "/s"),
        Figure("snapshot: under way at most", pipe.most_under_way / mebibyte, "MiB", goal=WINDOW_GOAL),
        Figure("snapshot: largest message", pipe.largest / mebibyte, "MiB", goal=MESSAGE_GOAL),
        Figure(
            "both ends and both stores: RSS", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "MiB"
        ),
    ]


async def _found(
    primary: ReplicatedObjects, standby: ReplicatedObjects, one: Store, two: Store
) -> list[Figure]:
    """Changes while nobody follows, and a log that begins anew."""
    changed = partial(one.get, APPLICATIONS, namespace=AGENT)
    for number in range(0, MANY, MANY // CHANGES):
        item = await changed(name=f"app-{number:05}")
        item["spec"]["source"]["targetRevision"] = "v2"
        await one.replace(APPLICATIONS, item)
    await asyncio.sleep(0.5)
    started = time.perf_counter()
    async with _following(primary, standby, two, history="second") as (pipe, follower):
        await _synced(follower, lambda: primary.digests() == standby.digests())
        seconds = time.perf_counter() - started
    first_pass = pipe
    return [
        Figure(
            f"{CHANGES} changes among {MANY} beyond the log: round trips to find them",
            float(first_pass.round_trips - 1),
            "",
            goal=ROUND_TRIPS_GOAL,
        ),
        Figure("bytes of comparing", pipe.compared_bytes / 1e3, "kB", goal=COMPARED_GOAL),
        Figure("bytes of the objects and of comparing, down", pipe.sent / 1e3, "kB"),
        Figure("start to equal", seconds, "s"),
    ]


def _quantile(times: list[float], at: int) -> float:
    return statistics.quantiles(times, n=100, method="inclusive")[at - 1]
