"""Events through an outbox, a session and an inbox; finding differences; what an idle peer occupies."""

import asyncio
import gc
import random
import tracemalloc
from collections.abc import Iterable
from functools import partial
from typing import Any

import grpc

from argocd.agents.vocabulary import Message, Target
from scripts.bench.figures import Figure, awaited_side_by_side
from sidecars.delivery.comparison import ComparisonAnswer, ComparisonQuestion, ComparisonRound, answer
from sidecars.delivery.inbox import Inbox
from sidecars.delivery.inventory import Inventory
from sidecars.delivery.outbox import Outbox, OutboxLimits
from sidecars.delivery.session import Queues
from sidecars.wire.capabilities import BATCHES
from sidecars.wire.events import Event, acknowledgement, object_event
from sidecars.wire.streams import EventStream

NAME = "delivery (2 kB events of different objects, both ends in this process)"
EVENTS = 5_000
ROUNDS = 7
PEERS = 1_000

# All at once, so that the outbox's work is measured and not the events that it merges or marks.
LIMITS = OutboxLimits(bytes=64 << 20)


def events(kind: Message = Message.SPEC_UPDATE) -> list[Event]:
    return [
        object_event(
            kind,
            target=Target.APPLICATION,
            obj={
                "metadata": {
                    "name": f"app-{number}",
                    "namespace": "argocd",
                    "uid": f"{number:036}",
                    "resourceVersion": str(number),
                },
                "spec": {"padding": "x" * 1_800},
            },
        )
        for number in range(EVENTS)
    ]


class Pipe:
    """One end of a stream without a transport."""

    def __init__(self, inward: asyncio.Queue[Event], outward: asyncio.Queue[Event]) -> None:
        self._inward = inward
        self._outward = outward

    async def send(self, event: Event) -> None:
        await self._outward.put(event)

    async def send_many(self, batch: Iterable[Event]) -> None:
        for event in batch:
            await self._outward.put(event)

    async def receive(self) -> Event | None:
        return await self._inward.get()


def pair() -> tuple[Queues, Queues]:
    def end(name: str) -> Queues:
        outbox = Outbox(peer=name, limits=LIMITS)

        async def handle(_: Event) -> None:
            await asyncio.sleep(0)

        return Queues(
            outbox=outbox,
            inbox=Inbox(
                peer=name, handle=handle, acknowledge=lambda event: outbox.add(acknowledgement(event))
            ),
        )

    return end("agent"), end("principal")


async def connected(*peers: Queues) -> list["asyncio.Task[object]"]:
    here: asyncio.Queue[Event] = asyncio.Queue(64)
    there: asyncio.Queue[Event] = asyncio.Queue(64)
    pipes = (Pipe(here, there), Pipe(there, here))
    return [asyncio.create_task(peer.serve(pipe)) for peer, pipe in zip(peers, pipes, strict=True)]


async def through_delivery(batch: list[Event]) -> None:
    principal, agent = pair()
    tasks = await connected(principal, agent)
    for event in batch:
        principal.outbox.add(event)
    await principal.outbox.settled()
    for peer in (principal, agent):
        await peer.close()
    await asyncio.gather(*tasks)


async def through_queues(batch: list[Event]) -> None:
    """The least that can be done: there, handled, and an acknowledgement back."""
    there: asyncio.Queue[Event] = asyncio.Queue(64)
    back: asyncio.Queue[Event] = asyncio.Queue(64)

    async def send() -> None:
        for event in batch:
            await there.put(event)

    async def handle() -> None:
        for _ in batch:
            event = await there.get()
            await asyncio.sleep(0)
            await back.put(acknowledgement(event))

    async def hear() -> None:
        for _ in batch:
            await back.get()

    await asyncio.gather(send(), handle(), hear())


class Service(grpc.GenericRpcHandler):  # type: ignore[misc]
    """The principal's side of one stream, without certificates and tokens."""

    def __init__(self, peer: Queues, *, batches: bool) -> None:
        self._peer = peer
        self._batches = batches

    def service(self, _: object) -> object:
        return grpc.stream_stream_rpc_method_handler(self._serve)

    async def _serve(self, _: object, context: Any) -> None:
        await self._peer.serve(wire(context, batches=self._batches), batches=self._batches)


def wire(transport: Any, *, batches: bool) -> EventStream:
    return EventStream(
        read=transport.read,
        write=transport.write,
        extensions=frozenset({BATCHES} if batches else ()),
        label="peer",
        source="",
        max_message_bytes=4 << 20,
    )


async def through_grpc(batch: list[Event], *, batches: bool) -> None:
    principal, agent = pair()
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Service(principal, batches=batches),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.stream_stream("/bench/Subscribe")()
        serving = asyncio.create_task(agent.serve(wire(call, batches=batches), batches=batches))
        for event in batch:
            principal.outbox.add(event)
        await principal.outbox.settled()
        await call.done_writing()
        await serving
    await server.stop(None)


async def batched() -> Figure:
    batch = events()[:2_000]
    together, alone = await awaited_side_by_side(
        partial(through_grpc, batch, batches=True), partial(through_grpc, batch, batches=False), rounds=3
    )
    return Figure(
        "a backlog over grpc in batches", len(batch) / together, "/s", "one by one", len(batch) / alone
    )


async def burst(count: int) -> Figure:
    """How the price of an event grows with the length of the queue."""
    batch = events()[:count]
    few = batch[: count // 10]
    long, short = await awaited_side_by_side(
        partial(through_delivery, batch), partial(through_delivery, few), rounds=5
    )
    return Figure(
        f"an event in a burst of {count}",
        long / len(batch) * 1e6,
        "µs",
        f"in one of {len(few)}",
        short / len(few) * 1e6,
        goal=1.5,
    )


def inventory(count: int) -> Inventory:
    made = Inventory()
    for number in range(count):
        made.put(f"Application/argocd/app-{number}", number.to_bytes(16))
    made.mark()
    return made


def comparison(count: int, differences: int) -> Figure:
    here, there = inventory(count), inventory(count)
    for number in random.Random(count).sample(range(count), differences):  # noqa: S311 - any will do
        there.put(f"Application/argocd/app-{number}", b"changed")
    round_ = ComparisonRound(here, scope="spec", name="round")
    sent, found = 0, 0
    while not round_.done:
        for question in round_.ask():
            asked = question.payload()
            reply = answer(there, ComparisonQuestion.read(asked)).payload()
            sent += len(asked) + len(reply)
            found += len(round_.receive(ComparisonAnswer.read(reply)))
    assert found == differences
    whole = len(ComparisonAnswer(scope="spec", round="round", number=0, items={"": here.items()}).payload())
    return Figure(f"finding {differences} of {count} keys", sent / 1000, "kB", "the whole list", whole / 1000)


async def idle() -> Figure:
    """Both ends of connected peers that have nothing to say, pipes included."""
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    peers = [pair() for _ in range(PEERS)]
    tasks = [task for two in peers for task in await connected(*two)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    for two in peers:
        for peer in two:
            await peer.close()
    await asyncio.gather(*tasks)
    return Figure("an idle peer", (after - before) / (2 * PEERS) / 1000, "kB", goal=20)


async def run() -> list[Figure]:
    batch = events()
    ours, theirs = await awaited_side_by_side(
        partial(through_delivery, batch), partial(through_queues, batch), rounds=ROUNDS
    )
    return [
        Figure("events there and acknowledged", EVENTS / ours, "/s", "bare asyncio queues", EVENTS / theirs),
        await burst(EVENTS),
        await batched(),
        await idle(),
        *(comparison(count, differences) for count in (1_000, 100_000) for differences in (1, 10, 100)),
    ]
