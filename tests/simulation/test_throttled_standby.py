"""A standby whose API server turns every write away for a minute and says when to come back, while its primary is
written to all the time.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from argocd import names
from kube.embedded import Call, EmbeddedStore, Hooks, Phase
from kube.errors import TooManyRequestsError
from kube.resources import APPLICATIONS
from sidecars.delivery.timing import Timing
from sidecars.replication.messages import PrimaryMessage, ReplicaMessage, ReplicaStart
from sidecars.replication.primary.session import SessionLimits
from sidecars.replication.primary.source import ReplicationSource
from sidecars.replication.standby.apply import ApplySettings
from sidecars.replication.standby.follower import Follower
from sidecars.replication.states import HaState
from tests.sidecars.replication.hubs import (
    ARGOCD,
    Hub,
    ScriptedController,
    application,
    create,
    figure,
    fill,
)
from tests.simulation.virtual_time import VirtualLoop, run
from tests.simulation.world import WRITES

STORM_SECONDS = 60.0
WRITE_PAUSE = 0.1
"""Between two writes of the primary's users: 600 during the storm."""
OBJECTS = 100
WORKERS = 8
WINDOW, RETRIED = 20_000, 10_000
LARGE_LOG, SMALL_LOG = 2_000_000, 20_000
"""All objects take 75 000 bytes of it."""


class MeasuredStream:
    """In memory; what went down is counted."""

    history = "h1"

    def __init__(self) -> None:
        self.down: asyncio.Queue[PrimaryMessage | None] = asyncio.Queue()
        self.up: asyncio.Queue[ReplicaMessage | None] = asyncio.Queue()
        self.sent = 0

    async def send_down(self, message: PrimaryMessage) -> None:
        self.sent += len(message.payload)
        self.down.put_nowait(message)

    async def send_up(self, message: ReplicaMessage) -> None:
        self.up.put_nowait(message)


@dataclass
class End:
    history: str
    send: Callable[[Any], Awaitable[None]]
    receive: Callable[[], Awaitable[Any]]


@dataclass
class Throttle:
    """Of the standby's API server: what it was asked, when, and what it said."""

    random: Random = field(default_factory=lambda: Random(7))
    retry_after: float = 0.0
    """0: everybody is let in."""
    asked: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    cursors: list[float] = field(default_factory=list)
    written: Counter[str] = field(default_factory=Counter)

    async def __call__(self, call: Call) -> None:
        if call.verb not in WRITES or call.phase is Phase.AFTER:
            return
        now = asyncio.get_running_loop().time
        is_cursor = call.name == names.HA_CURSOR
        (self.cursors if is_cursor else self.asked).append(now())
        await asyncio.sleep(self.random.uniform(0.001, 0.02))
        if self.retry_after:
            if not is_cursor:
                self.refused.append(now())
            raise TooManyRequestsError("too many requests", retry_after=self.retry_after)
        if not is_cursor:
            self.written[call.name] += 1


class ThrottledPair:
    def __init__(self, *, log_bytes: int) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.loop, self.random = loop, Random(1)
        timing = Timing(monotonic=loop.time, now=loop.now, random=Random(2))
        self.throttle = Throttle()
        namespaces = (ARGOCD, "agent-a")
        self.one = EmbeddedStore(namespaces=namespaces, clock=loop.now, random=Random(3))
        two = EmbeddedStore(
            namespaces=namespaces, clock=loop.now, random=Random(4), hooks=Hooks(faults=self.throttle)
        )
        self.primary, self.standby = Hub(self.one, timing=timing), Hub(two, timing=timing)
        limits = SessionLimits(window=WINDOW, chunk=WINDOW // 2)
        self.source = ReplicationSource(
            self.primary.objects, timing=timing, log_bytes=log_bytes, limits=limits
        )
        self.controller = ScriptedController("two", HaState.SYNCING)
        self.follower = Follower(
            two,
            self.standby.objects,
            controller=self.controller,
            connect=self._connect,
            timing=timing,
            applying=ApplySettings(workers=WORKERS, retried_bytes=RETRIED),
        )
        self.streams: list[MeasuredStream] = []

    @asynccontextmanager
    async def _connect(self, start: ReplicaStart) -> AsyncIterator[Any]:
        stream = MeasuredStream()
        self.streams.append(stream)
        primary_end: Any = End(stream.history, stream.send_down, stream.up.get)
        serving = asyncio.ensure_future(self.source.serve("standby", "", primary_end, start))
        try:
            yield End(stream.history, stream.send_up, stream.down.get)
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        await fill(self.one, OBJECTS)
        async with self.primary.running(), self.standby.running():
            await self.source.start(epoch=1, history=MeasuredStream.history)
            await self.follower.load()
            await self.follower.start()
            try:
                await self.equal()
                yield
            finally:
                await self.follower.stop()
                await self.source.stop()

    async def equal(self) -> None:
        async with asyncio.timeout(300):
            while not (  # noqa: ASYNC110 - of both ends, in virtual time
                self.primary.objects.digests() == self.standby.objects.digests()
                and [each.acknowledged for each in self.source.replicas()] == [self.source.last_sequence]
                and self.follower.progress().is_complete
            ):
                await asyncio.sleep(0.1)

    async def write_on(self, seconds: float) -> list[int]:
        """As users do; returns the sizes that the log had."""
        until, sizes = self.loop.time() + seconds, []
        while self.loop.time() < until:
            name = f"app-{self.random.randrange(OBJECTS):05}"
            item = await self.one.get(APPLICATIONS, name=name, namespace="agent-a")
            item["spec"]["source"]["targetRevision"] = f"v{self.random.random()}"
            await self.one.replace(APPLICATIONS, item)
            sizes.append(self.source.log_size[1])
            await asyncio.sleep(WRITE_PAUSE)
        await create(self.one, APPLICATIONS, application("after-all"), namespace="agent-a")
        return sizes

    async def storm(self, retry_after: float) -> tuple[list[int], int]:
        """The sizes that the log had, and the bytes that went to the standby."""
        sent = sum(stream.sent for stream in self.streams)
        for seen in (self.throttle.asked, self.throttle.cursors, self.throttle.written):
            seen.clear()
        self.throttle.retry_after = retry_after
        sizes = await self.write_on(STORM_SECONDS)
        sent = sum(stream.sent for stream in self.streams) - sent
        self.throttle.retry_after = 0.0
        return sizes, sent


def stormed(program: Callable[[ThrottledPair], Awaitable[None]], *, log_bytes: int) -> None:
    async def whole() -> None:
        pair = ThrottledPair(log_bytes=log_bytes)
        async with pair.following():
            await program(pair)

    run(whole())


@pytest.mark.parametrize("retry_after", [1.0, 5.0, 45.0])
def test_nothing_is_written_before_the_api_server_said_and_no_more_at_once_than_may_be(
    retry_after: float,
) -> None:
    async def program(pair: ThrottledPair) -> None:
        await pair.storm(retry_after)
        asked, refused = list(pair.throttle.asked), list(pair.throttle.refused)
        assert refused
        too_early = [
            call for call in asked if any(refusal < call < refusal + retry_after for refusal in refused)
        ]
        assert too_early == []
        assert len(asked) <= WORKERS * (STORM_SECONDS / retry_after + 1)
        pauses = [
            later - call
            for call, later in zip(pair.throttle.cursors, pair.throttle.cursors[1:], strict=False)
        ]
        assert min(pauses, default=retry_after) >= retry_after
        await pair.equal()

    stormed(program, log_bytes=LARGE_LOG)


def test_what_waits_is_bounded_on_both_ends_and_the_stream_outlives_the_storm() -> None:
    async def program(pair: ThrottledPair) -> None:
        sizes, sent = await pair.storm(1.0)
        assert max(sizes) <= LARGE_LOG
        # What is tried again has room of its own; a worker may have one more in its hands.
        assert sent <= WINDOW + RETRIED + WORKERS * 2_000
        assert pair.follower.progress().missing > 0
        assert len(pair.streams) == 1
        assert pair.controller.told[-1] == "in sync"  # it has lost nothing: it is late
        await pair.equal()
        assert len(pair.streams) == 1

    stormed(program, log_bytes=LARGE_LOG)


def test_what_the_log_still_has_comes_by_the_log_and_not_every_change_of_it() -> None:
    async def program(pair: ThrottledPair) -> None:
        by = ("tiphys_replication_resyncs_total", "argocd_agent_replication_events_dropped_total")
        before = [figure(name) for name in by]
        await pair.storm(5.0)
        await pair.equal()
        assert [figure(name) for name in by] == before
        assert pair.throttle.written.total() < STORM_SECONDS / WRITE_PAUSE / 3

    stormed(program, log_bytes=LARGE_LOG)


def test_what_the_log_has_no_more_is_found_by_comparing() -> None:
    async def program(pair: ThrottledPair) -> None:
        overflows = figure("argocd_agent_replication_events_dropped_total")
        snapshots = figure("tiphys_replication_snapshots_total")
        sizes, _ = await pair.storm(5.0)
        assert max(sizes) <= SMALL_LOG
        await pair.equal()
        assert figure("argocd_agent_replication_events_dropped_total") > overflows
        assert figure("tiphys_replication_snapshots_total") == snapshots

    stormed(program, log_bytes=SMALL_LOG)
