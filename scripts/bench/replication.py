"""A standby's copy: how far behind, how soon found, how dear the first one.

Lag, bursts and repairs on two real API servers, each side in a process of its own, in turns with bare writes.
Ten thousand Applications on embedded stores, both sides in this process, where every message can be looked at.
"""

import asyncio
import resource
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kube.embedded import EmbeddedStore
from kube.live import LiveStore
from kube.resources import APPLICATIONS
from kube.store import Object, Store
from scripts.argocd_agent import BINARY
from scripts.bench.figures import Figure, beside
from scripts.bench.go_replication import GoPair
from scripts.bench.live_replication import SCOPE, STANDBY, FixedRole, LivePair, hub_caches
from scripts.bench.paired import (
    AGENT,
    GO,
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
from scripts.bench.replication_lag import lag
from scripts.bench.sidecar_processes import NAMESPACE, Papers
from scripts.cluster.controlplane import Cluster
from sidecars.delivery.timing import Timing
from sidecars.replication.messages import (
    PrimaryMessage,
    PrimaryWord,
    ReplicaMessage,
    ReplicaStart,
    ReplicaWord,
    decode_items,
)
from sidecars.replication.objects import ReplicatedObjects
from sidecars.replication.primary.source import ReplicationSource
from sidecars.replication.standby.follower import Follower
from sidecars.replication.states import HaState

NAME = "replication: a primary and a standby, TLS, two API servers; 10 000 Applications on embedded stores"

BURST = 3_000
BURST_GOAL = 1.2
WRITERS = 16
CHANGES = 20
MANY = 10_000
ROUND_TRIPS_GOAL = 4.0
COMPARED_GOAL = 30.0
WINDOW_GOAL = 2.0
MESSAGE_GOAL = 2.0
DELETED_SECONDS = 5.0
"""After all changes have arrived: a deletion is not far behind them, or never comes."""
WITHIN = 240.0
"""For what argocd-agent's pair does too; ours takes seconds."""


async def run() -> list[Figure]:
    figures = await _live(LivePair)
    if BINARY:
        figures = beside(figures, await _live(GoPair), than=GO)
    return [*figures, *await _embedded()]


# Real API servers.


async def _live(ends_of: type[LivePair | GoPair]) -> list[Figure]:
    tell("two API servers start")
    with (
        tempfile.TemporaryDirectory() as folder,
        Cluster(name="bench-hub") as hub,
        Cluster(name="bench-workload") as workload,
    ):
        papers = Papers.write(Path(folder))
        papers.keep_agent(STANDBY)
        ends = ends_of(hub, workload, papers.folder)
        stores = [await LiveStore.connect(kubeconfig=each.kubeconfig) for each in (hub, workload)]
        pair = Pair(*stores, folder=papers.folder, workload_kubeconfig=workload.kubeconfig)
        try:
            await furnished(*stores)
            with ends.primary():
                with ends.standby():
                    await connected(pair)
                    figures = await lag(pair)
                    wanted = pair.names(BURST)
                    figures += await _burst(pair, wanted)
                some = wanted[:: BURST // CHANGES]
                figures += await _repair(pair, ends, some, "away, within the log")
            with ends.primary():  # its log begins anew: only comparing helps
                figures += await _repair(pair, ends, some, "away, the primary restarted")
        finally:
            for store in stores:
                await store.close()
    return figures


async def _burst(pair: Pair, wanted: list[str]) -> list[Figure]:
    """None where the last did not come in time."""
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

    what = f"{BURST} writes, the last on the replica"
    try:
        async with Sight(pair.workload, AGENT).open() as arrival:
            seconds = await timed(write(), arrival.until(wanted, anyhow, within=WITHIN))
    except TimeoutError:
        tell(f"{what}: not within {WITHIN:.0f} s")
        return []
    return [Figure(what, seconds, "s", than="writing them", theirs=writing, goal=BURST_GOAL)]


async def _repair(pair: Pair, ends: LivePair | GoPair, names: list[str], how: str) -> list[Figure]:
    """The standby is away while some of thousands change."""
    tell(f"{CHANGES} changes while it is {how}")
    version, before = f"v{next(pair.numbers)}", await _versions(pair.workload)
    for name in names:
        await patched(pair.hub, {"spec": {"source": {"targetRevision": version}}}, name=name, namespace=AGENT)
    # Of the hub's: one that missed a deletion before still has what went then.
    gone = next(name for name in await _versions(pair.hub) if name not in names)
    await pair.hub.delete(APPLICATIONS, name=gone, namespace=AGENT)
    async with Sight(pair.workload, AGENT).open() as arrival:
        started = time.perf_counter()
        with ends.standby():
            looks = lambda item: item["spec"]["source"]["targetRevision"] == version  # noqa: E731
            try:
                seconds = await arrival.until(names, looks, within=WITHIN) - started
            except TimeoutError:
                tell(f"{how}: not repaired within {WITHIN:.0f} s")
                return []
            await asyncio.sleep(DELETED_SECONDS)
            after = await _versions(pair.workload)
    what = f"{CHANGES} changes among {BURST}, {how}"
    written = sum(after.get(name) != version for name, version in before.items() if name != gone)
    return [
        Figure(f"{what}: start to repaired", seconds, "s"),
        Figure(f"{what}: objects written", float(written), "", goal=float(CHANGES)),
        Figure(f"{what}: deletions that were missed", float(gone in after), "", goal=0.0),
    ]


async def _versions(store: LiveStore) -> dict[str, str]:
    page = await store.list(APPLICATIONS, namespace=AGENT)
    return {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in page.items}


# Embedded stores.


class Pipe:
    """One stream in memory; what passes is measured."""

    def __init__(self, history: str) -> None:
        self.history = history
        self._down: asyncio.Queue[PrimaryMessage | None] = asyncio.Queue()
        self._up: asyncio.Queue[ReplicaMessage | None] = asyncio.Queue()
        self.under_way = self.most_under_way = self.largest = self.sent = self.objects = 0
        self.compared_bytes = self.questions = self.round_trips = 0
        self._is_asking = False

    async def send_down(self, message: PrimaryMessage) -> None:
        size = len(message.payload)
        self.sent += size
        self.largest = max(self.largest, size)
        self.most_under_way = max(self.most_under_way, self.sent - self.under_way)
        if message.word in {PrimaryWord.ENTRIES, PrimaryWord.OBJECTS}:
            self.objects += len(decode_items(message.payload))
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
        ends = _Ends(primary, standby, one, two)
        async with _source(primary, history="first") as source:
            figures = await _snapshot(ends, source)
            figures += await _resumed(ends, source)
        async with _source(primary, history="second") as source:  # its log begins anew: only comparing helps
            figures += await _found(ends, source)
    return figures


@dataclass(frozen=True, slots=True)
class _Ends:
    """What both have, and where they have it."""

    primary: ReplicatedObjects
    standby: ReplicatedObjects
    one: Store
    two: Store

    async def change(self, version: str) -> None:
        """Some of many, while nobody follows."""
        for number in range(0, MANY, MANY // CHANGES):
            item = await self.one.get(APPLICATIONS, name=f"app-{number:05}", namespace=AGENT)
            item["spec"]["source"]["targetRevision"] = version
            await self.one.replace(APPLICATIONS, item)
        await self.primary.caught_up()

    async def synced(self, done: Callable[[], bool]) -> float:
        """Seconds."""
        started = time.perf_counter()
        async with asyncio.timeout(WITHIN):
            while not (self.primary.digests() == self.standby.digests() and done()):  # noqa: ASYNC110 - of both ends
                await asyncio.sleep(0.005)
        return time.perf_counter() - started


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
async def _source(primary: ReplicatedObjects, *, history: str) -> AsyncIterator[ReplicationSource]:
    source = ReplicationSource(primary, timing=Timing())
    await source.start(epoch=1, history=history)
    try:
        yield source
    finally:
        await source.stop()


@asynccontextmanager
async def _following(
    ends: _Ends, source: ReplicationSource, *, history: str
) -> AsyncIterator[tuple[Pipe, Follower]]:
    pipe = Pipe(history)
    tasks: list[asyncio.Future[None]] = []

    @asynccontextmanager
    async def connect(start: ReplicaStart) -> AsyncIterator[Any]:
        end: Any = pipe.primary_end()
        tasks.append(asyncio.ensure_future(source.serve(STANDBY, "", end, start)))
        yield pipe.replica_end()

    follower = Follower(
        ends.two,
        ends.standby,
        controller=FixedRole("two", HaState.SYNCING),
        connect=connect,
        timing=Timing(),
    )
    await follower.load()
    await follower.start()
    try:
        yield pipe, follower
    finally:
        await follower.stop()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _snapshot(ends: _Ends, source: ReplicationSource) -> list[Figure]:
    async with _following(ends, source, history="first") as (pipe, follower):
        seconds = await ends.synced(lambda: follower.progress().is_complete)
    mebibyte = 1 << 20
    return [
        Figure(f"snapshot of {MANY}: objects a second", MANY / seconds, "/s"),
        Figure("snapshot: under way at most", pipe.most_under_way / mebibyte, "MiB", goal=WINDOW_GOAL),
        Figure("snapshot: largest message", pipe.largest / mebibyte, "MiB", goal=MESSAGE_GOAL),
        Figure(
            "both ends and both stores: RSS", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "MiB"
        ),
    ]


async def _resumed(ends: _Ends, source: ReplicationSource) -> list[Figure]:
    """The log has what was missed."""
    await ends.change("v2")
    async with _following(ends, source, history="first") as (pipe, follower):
        seconds = await ends.synced(lambda: follower.progress().applied == source.last_sequence)
    what = f"{CHANGES} changes among {MANY} within the log"
    return [
        Figure(f"{what}: objects sent", float(pipe.objects), "", goal=float(CHANGES)),
        Figure(f"{what}: bytes sent", pipe.sent / 1e3, "kB"),
        Figure(f"{what}: start to equal", seconds, "s"),
    ]


async def _found(ends: _Ends, source: ReplicationSource) -> list[Figure]:
    await ends.change("v3")
    async with _following(ends, source, history="second") as (pipe, follower):
        seconds = await ends.synced(lambda: follower.progress().is_complete)
    what = f"{CHANGES} changes among {MANY} beyond the log"
    return [
        # The last one confirms that nothing differs any more.
        Figure(f"{what}: round trips to find them", pipe.round_trips - 1.0, "", goal=ROUND_TRIPS_GOAL),
        Figure(f"{what}: bytes of comparing", pipe.compared_bytes / 1e3, "kB", goal=COMPARED_GOAL),
        Figure(f"{what}: objects sent", float(pipe.objects), "", goal=float(CHANGES)),
        Figure(f"{what}: bytes of the objects and of comparing, down", pipe.sent / 1e3, "kB"),
        Figure(f"{what}: start to equal", seconds, "s"),
    ]
