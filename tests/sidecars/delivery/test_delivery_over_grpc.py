"""Two peers over the real transport, certificates aside."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import grpc
import pytest

from argocd.agents.vocabulary import Message
from sidecars.delivery.inbox import Inbox
from sidecars.delivery.outbox import Outbox, OutboxLimits
from sidecars.delivery.session import Ending, Queues
from sidecars.wire.capabilities import BATCHES
from sidecars.wire.events import Event, acknowledgement
from sidecars.wire.streams import EventStream, StreamLostError

Make = Callable[..., Event]
LIMITS = OutboxLimits(bytes=64 << 20)
COUNT = 300


class End:
    def __init__(self, name: str) -> None:
        self.applied: list[str] = []
        self.busy = asyncio.Event()
        self.outbox = Outbox(peer=name, limits=LIMITS)
        self.peer = Queues(
            outbox=self.outbox,
            inbox=Inbox(
                peer=name,
                handle=self._handle,
                acknowledge=lambda event: self.outbox.add(acknowledgement(event)),
            ),
        )

    async def _handle(self, event: Event) -> None:
        await asyncio.sleep(0)
        self.applied.append(event.event_id)
        if len(self.applied) == COUNT // 10:
            self.busy.set()


def stream(transport: Any, *, batches: bool) -> EventStream:
    return EventStream(
        read=transport.read,
        write=transport.write,
        extensions=frozenset({BATCHES} if batches else ()),
        label="peer",
        source="",
        max_message_bytes=4 << 20,
    )


class Service(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(self, end: End, *, batches: bool) -> None:
        self._end = end
        self._batches = batches
        self.endings: list[Ending] = []

    def service(self, _: Any) -> Any:
        return grpc.stream_stream_rpc_method_handler(self._serve)

    async def _serve(self, _: Any, context: Any) -> None:
        wire = stream(context, batches=self._batches)
        self.endings.append(await self._end.peer.serve(wire, batches=self._batches))


@pytest.mark.parametrize("batches", [False, True])
async def test_everything_arrives_once_in_both_directions_and_after_a_break(
    make: Make, *, batches: bool
) -> None:
    hub, spoke = End("spoke"), End("hub")
    server = grpc.aio.server()
    service = Service(hub, batches=batches)
    server.add_generic_rpc_handlers((service,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with asyncio.timeout(60), grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            for first in (0, COUNT):
                call = channel.stream_stream("/eventstream/Subscribe")()
                serving = asyncio.create_task(
                    spoke.peer.serve(stream(call, batches=batches), batches=batches)
                )
                for number in range(first, first + COUNT):
                    hub.outbox.add(make(Message.SPEC_UPDATE, f"app-{number}"))
                    spoke.outbox.add(make(Message.STATUS_UPDATE, f"app-{number}"))
                if not first:
                    await spoke.busy.wait()
                    call.cancel()
                    # An error or an end, by whether reader or writer meets it first, and where.
                    with suppress(StreamLostError, asyncio.CancelledError):
                        await serving
                    continue
                await hub.outbox.settled()
                await spoke.outbox.settled()
                await call.done_writing()
                assert await serving in {Ending.FINISHED, Ending.STOPPED}
        assert len(spoke.applied) == len(set(spoke.applied)) == 2 * COUNT
        assert len(hub.applied) == len(set(hub.applied)) == 2 * COUNT
    finally:
        await server.stop(None)
