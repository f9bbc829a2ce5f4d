"""A primary's streams in virtual time: how often it compares, whom it takes for gone, what it takes for nonsense."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from sidecars.delivery.comparison import ComparisonAnswer
from sidecars.delivery.timing import Timing
from sidecars.replication.kinds import KINDS
from sidecars.replication.messages import (
    PrimaryMessage,
    PrimaryWord,
    ReplicaMessage,
    ReplicaStart,
    ReplicaWord,
)
from sidecars.replication.primary.session import SILENCE_SECONDS
from sidecars.replication.primary.source import MAX_REPLICAS, ReplicationSource
from sidecars.replication.standby.follower import Follower
from sidecars.replication.states import HaState
from tests.sidecars.replication.hubs import Hub, ScriptedController, embedded, fill
from tests.simulation.virtual_time import VirtualLoop, run
from tiphys.errors import SurroundingsError

HISTORY = "h1"
MINUTE = 60.0
START = ReplicaStart(history=HISTORY, whole=True)
"""It has everything: nothing is sent but what is new."""


class ScriptedReplica:
    """Hears everything and says what it is told to."""

    def __init__(self, *words: ReplicaMessage) -> None:
        self.heard: list[PrimaryMessage] = []
        self._words = list(words)

    async def send(self, message: PrimaryMessage) -> None:
        self.heard.append(message)

    async def receive(self) -> ReplicaMessage | None:
        if not self._words:
            await asyncio.Event().wait()
        return self._words.pop(0)


@dataclass
class End:
    """Of a stream in memory."""

    send: Callable[[Any], Awaitable[None]]
    receive: Callable[[], Awaitable[Any]]
    history: str = HISTORY


@asynccontextmanager
async def primary(*, objects: int = 0) -> AsyncIterator[tuple[ReplicationSource, Timing]]:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    timing = Timing(monotonic=loop.time, now=loop.now, random=Random(1))
    store = embedded()
    await fill(store, objects)
    async with Hub(store, timing=timing).running() as hub:
        source = ReplicationSource(hub.objects, timing=timing)
        await source.start(epoch=1, history=HISTORY)
        try:
            yield source, timing
        finally:
            await source.stop()


def test_a_replica_that_says_nothing_is_gone() -> None:
    async def program() -> None:
        async with primary() as (source, timing):
            began = timing.monotonic()
            with pytest.raises(SurroundingsError, match="has said nothing for 30 s"):
                await source.serve("standby", "", ScriptedReplica(), START)
            assert SILENCE_SECONDS < timing.monotonic() - began < SILENCE_SECONDS + 10
            assert source.replicas() == []

    run(program())


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([ReplicaMessage(word=ReplicaWord.ACKNOWLEDGED, acknowledged=1)], "1 is acknowledged, 0 was sent"),
        ([ReplicaMessage(word=ReplicaWord.ACKNOWLEDGED, taken=1)], "0 is acknowledged, 0 was sent"),
        (
            [
                ReplicaMessage(
                    word=ReplicaWord.ANSWER,
                    payload=ComparisonAnswer(scope=KINDS[0].name, round="0", number=1).payload(),
                )
            ]
            * 65,
            "more answers than questions",
        ),
        ([ReplicaMessage(word=ReplicaWord.ANSWER, payload=b"{")], "."),
    ],
    ids=["the future", "more than was sent", "answers", "garbage"],
)
def test_a_replica_that_says_what_cannot_be_loses_its_stream(
    words: list[ReplicaMessage], reason: str
) -> None:
    async def program() -> None:
        async with primary() as (source, _):
            with pytest.raises(SurroundingsError, match=reason):
                await source.serve("standby", "", ScriptedReplica(*words), START)
            assert source.replicas() == []

    run(program())


def test_one_replica_more_than_there_may_be_is_refused_and_the_others_go_on() -> None:
    async def program() -> None:
        async with primary() as (source, _):

            def stream(name: str) -> asyncio.Future[None]:
                return asyncio.ensure_future(source.serve(name, "", ScriptedReplica(), START))

            streams = [stream(f"standby-{number}") for number in range(MAX_REPLICAS)]
            await asyncio.sleep(1)
            with pytest.raises(SurroundingsError, match="10 replicas are connected, which is the most"):
                await stream("one-more")
            # One of them comes anew: its old stream ends, and does not count.
            again = stream("standby-0")
            await asyncio.sleep(1)
            assert len(source.replicas()) == MAX_REPLICAS
            assert [each.done() for each in streams] == [True] + [False] * (MAX_REPLICAS - 1)
            await source.stop()
            await asyncio.gather(*streams, again, return_exceptions=True)

    run(program())


def test_everything_is_compared_every_minute_although_nothing_happens() -> None:
    async def program() -> None:
        async with primary(objects=3) as (source, timing):
            down: asyncio.Queue[PrimaryMessage] = asyncio.Queue()
            up: asyncio.Queue[ReplicaMessage] = asyncio.Queue()
            compared: list[float] = []

            async def send_down(message: PrimaryMessage) -> None:
                if message.word is PrimaryWord.COMPARED:
                    compared.append(timing.monotonic())
                down.put_nowait(message)

            @asynccontextmanager
            async def connect(start: ReplicaStart) -> AsyncIterator[Any]:
                end: Any = End(send_down, up.get)
                serving = asyncio.ensure_future(source.serve("standby", "", end, start))
                try:
                    yield End(up.put, down.get)
                finally:
                    serving.cancel()
                    await asyncio.gather(serving, return_exceptions=True)

            two = embedded()
            async with Hub(two, timing=timing).running() as standby:
                follower = Follower(
                    two,
                    standby.objects,
                    controller=ScriptedController("two", HaState.SYNCING),
                    connect=connect,
                    timing=timing,
                )
                await follower.load()
                await follower.start()
                await asyncio.sleep(5)
                rounds = len(compared)
                assert rounds >= len(KINDS)
                await asyncio.sleep(10 * MINUTE)
                assert len(compared) - rounds == 10 * len(KINDS)
                progress = follower.progress()
                assert progress.is_equal
                assert progress.compared_seconds is not None
                assert progress.compared_seconds <= MINUTE + 1
                await follower.stop()

    run(program())
