"""A peer across streams."""

import asyncio
from collections.abc import Callable, Iterable
from random import Random

import pytest

from argocd.agents.vocabulary import Message
from sidecars.delivery.inbox import Inbox
from sidecars.delivery.observers import OutboxObserver
from sidecars.delivery.outbox import Outbox
from sidecars.delivery.session import SEND_SECONDS, Ending, Queues
from sidecars.delivery.timing import Timing
from sidecars.wire.events import Event, acknowledgement
from tests.simulation.virtual_time import run
from tiphys.errors import ObjectError, SurroundingsError

Make = Callable[..., Event]
Item = Event | Exception | None


class Pipe:
    """One end of a stream; the test is the other."""

    def __init__(self) -> None:
        self.inward: asyncio.Queue[Item] = asyncio.Queue()
        self.outward: asyncio.Queue[Event] = asyncio.Queue()
        self.stuck = False
        self.messages: list[int] = []

    async def send(self, event: Event) -> None:
        if self.stuck:
            await asyncio.get_running_loop().create_future()
        if len(event.payload) > 100_000:
            raise ObjectError("too large")
        self.outward.put_nowait(event)

    async def send_many(self, events: Iterable[Event]) -> None:
        batch = list(events)
        for event in batch:
            await self.send(event)
        self.messages.append(len(batch))

    async def receive(self) -> Event | None:
        item = await self.inward.get()
        if isinstance(item, Exception):
            raise item
        return item


def peer(applied: list[str] | None = None, *, observer: OutboxObserver | None = None) -> Queues:
    loop = asyncio.get_running_loop()
    timing = Timing(monotonic=loop.time, random=Random(1))
    outbox = Outbox(peer="agent-a", timing=timing, observer=observer or OutboxObserver())

    async def handle(event: Event) -> None:
        await asyncio.sleep(1)
        if applied is not None:
            applied.append(event.event_id)

    inbox = Inbox(
        peer="agent-a",
        handle=handle,
        acknowledge=lambda event: outbox.add(acknowledgement(event)),
        timing=timing,
    )
    return Queues(outbox=outbox, inbox=inbox)


def test_events_travel_both_ways_and_are_acknowledged(make: Make) -> None:
    async def program() -> None:
        applied: list[str] = []
        here, pipe = peer(applied), Pipe()
        serving = asyncio.create_task(here.serve(pipe))
        here.outbox.add(make(Message.SPEC_UPDATE, "ours"))
        pipe.inward.put_nowait(make(Message.STATUS_UPDATE, "theirs"))
        first, second = await pipe.outward.get(), await pipe.outward.get()
        assert (first.type, second.type) == (Message.SPEC_UPDATE, Message.PROCESSED)
        assert applied == [second.event_id] == ["theirs_u1_1"]
        pipe.inward.put_nowait(acknowledgement(first))
        pipe.inward.put_nowait(None)
        assert await serving == Ending.FINISHED
        assert here.outbox.figures().acknowledged == 1
        assert not here.connected

    run(program())


def test_the_next_stream_carries_on_where_the_last_one_broke(make: Make) -> None:
    async def program() -> None:
        here, broken, fresh = peer(), Pipe(), Pipe()
        here.outbox.add(make(Message.SPEC_UPDATE))
        serving = asyncio.create_task(here.serve(broken))
        event = await broken.outward.get()
        broken.inward.put_nowait(SurroundingsError("connection reset"))
        with pytest.raises(SurroundingsError, match="connection reset"):
            await serving
        began = asyncio.get_running_loop().time()
        serving = asyncio.create_task(here.serve(fresh))
        assert await fresh.outward.get() == event
        assert asyncio.get_running_loop().time() == began
        await here.close()
        assert await serving == Ending.STOPPED

    run(program())


def test_a_second_stream_supersedes_the_first_and_a_third_the_second(make: Make) -> None:
    async def program() -> None:
        here, pipes = peer(), [Pipe() for _ in range(3)]
        tasks = [asyncio.create_task(here.serve(pipe)) for pipe in pipes]
        assert await tasks[0] == Ending.SUPERSEDED
        assert await tasks[1] == Ending.SUPERSEDED
        here.outbox.add(make(Message.SPEC_UPDATE))
        await pipes[2].outward.get()
        assert pipes[0].outward.empty()
        assert pipes[1].outward.empty()
        await here.close()
        await tasks[2]

    run(program())


def test_a_peer_that_does_not_read_loses_its_stream_and_no_event(make: Make) -> None:
    async def program() -> None:
        here, pipe = peer(), Pipe()
        pipe.stuck = True
        here.outbox.add(make(Message.SPEC_UPDATE))
        with pytest.raises(SurroundingsError, match="took nothing from its stream for 60 s"):
            await here.serve(pipe)
        assert asyncio.get_running_loop().time() == pytest.approx(SEND_SECONDS)
        assert here.outbox.figures().under_way == 1

    run(program())


def test_a_backlog_travels_in_batches_where_the_peer_takes_them(make: Make) -> None:
    async def program() -> None:
        for batches, messages in ((True, [64, 36]), (False, [])):
            here, pipe = peer(), Pipe()
            for number in range(100):
                here.outbox.add(make(Message.SPEC_UPDATE, f"app-{number}"))
            serving = asyncio.create_task(here.serve(pipe, batches=batches))
            await asyncio.sleep(0.1)
            assert pipe.messages == messages
            assert pipe.outward.qsize() == 100
            await here.close()
            await serving

    run(program())


def test_an_event_that_no_transport_takes_is_abandoned_and_the_others_arrive(make: Make) -> None:
    async def program() -> None:
        abandoned: list[str] = []

        class Observer(OutboxObserver):
            def abandoned(self, peer: str, event: Event, error: Exception) -> None:
                abandoned.append(f"{event.subject}: {error}")

        for batches in (True, False):
            here, pipe = peer(observer=Observer()), Pipe()
            for name, padding in (("small", 0), ("huge", 200_000), ("other", 0)):
                here.outbox.add(make(Message.SPEC_UPDATE, name, padding=padding))
            serving = asyncio.create_task(here.serve(pipe, batches=batches))
            await asyncio.sleep(0.1)
            arrived = {pipe.outward.get_nowait().subject for _ in range(pipe.outward.qsize())}
            assert arrived == {"argocd/small", "argocd/other"}
            assert here.outbox.figures().under_way == 2
            await here.close()
            await serving
        assert abandoned == ["argocd/huge: too large"] * 2

    run(program())


def test_settling_waits_for_both_directions(make: Make) -> None:
    async def program() -> None:
        here, pipe = peer(), Pipe()
        serving = asyncio.create_task(here.serve(pipe))
        here.outbox.add(make(Message.SPEC_UPDATE))
        pipe.inward.put_nowait(make(Message.STATUS_UPDATE))
        event = await pipe.outward.get()
        await here.inbox.settled()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await here.outbox.settled()
        pipe.inward.put_nowait(acknowledgement(event))
        async with asyncio.timeout(30):
            await here.outbox.settled()
        await here.close()
        await serving

    run(program())


def test_a_closed_peer_leaves_no_task_behind(make: Make) -> None:
    async def program() -> None:
        here, pipe = peer(), Pipe()
        serving = asyncio.create_task(here.serve(pipe))
        pipe.inward.put_nowait(make(Message.STATUS_UPDATE))
        await asyncio.sleep(0.1)
        await here.close()
        assert await serving == Ending.STOPPED
        assert len(asyncio.all_tasks()) == 1

    run(program())


def test_a_mistake_in_a_stream_is_not_swallowed() -> None:
    async def program() -> None:
        here, pipe = peer(), Pipe()
        pipe.inward.put_nowait(KeyError("no such thing"))
        with pytest.raises(KeyError):
            await here.serve(pipe)

    run(program())
