"""Events over a real stream, and what must not disturb one: malformed, oversized, sudden ends."""

import asyncio
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc
import pytest
import structlog
from grpc import aio

from argocd.agents.vocabulary import Message, Target
from sidecars.wire.envelopes import decode, encode, encode_batch, to_cloudevent
from sidecars.wire.events import Event, acknowledgement
from sidecars.wire.generated.eventstream_pb2 import Event as Envelope
from sidecars.wire.streams import MessageTooLargeError, StreamLostError
from tests.sidecars.wire.listening_principal import PATIENCE, Principal, login, refusal, subscribe, until
from tiphys.errors import SurroundingsError

EXTENSIONS = ("tiphys-extensions", "batches")


def event(number: int = 1, *, payload: bytes = b"{}") -> Event:
    return Event(
        type=Message.SPEC_UPDATE,
        target=Target.RESOURCE,
        resource_id="app_u",
        event_id=f"app_u_{number}",
        payload=payload,
    )


@asynccontextmanager
async def opened(principal: Principal, *metadata: tuple[str, str], **channel: Any) -> AsyncIterator[Any]:
    async with principal.channel(**channel) as connection:
        token = (await login(connection)).accessToken
        yield subscribe(connection, ("authorization", token), *metadata)


async def read(call: Any) -> Event:
    async with asyncio.timeout(PATIENCE):
        return decode(await call.read())


async def test_events_travel_both_ways(principal: Principal) -> None:
    async with opened(principal) as call:
        _, stream = await principal.recorder.stream()
        await call.write(encode(event()))
        assert await principal.recorder.event() == event()
        await stream.send(acknowledgement(event()))
        assert await read(call) == acknowledgement(event())
        await call.done_writing()
        assert await principal.recorder.event() is None
        assert await call.code() is grpc.StatusCode.OK


async def test_a_peer_that_did_not_announce_batches_gets_events_one_by_one(principal: Principal) -> None:
    async with opened(principal) as call:
        _, stream = await principal.recorder.stream()
        await stream.send_many(event(number) for number in range(3))
        assert [await read(call) for _ in range(3)] == [event(0), event(1), event(2)]


async def test_a_peer_that_announced_batches_gets_one_message(principal: Principal) -> None:
    async with opened(principal, EXTENSIONS) as call:
        _, stream = await principal.recorder.stream()
        events = [event(number) for number in range(3)]
        await stream.send_many(events)
        assert await call.read() == encode_batch(events)
        await stream.send_many(events[:1])
        assert await read(call) == event(0)
        await call.write(encode_batch(events))
        assert [await principal.recorder.event() for _ in range(3)] == events


async def test_a_malformed_event_is_acknowledged_logged_once_and_nothing_else_happens(
    principal: Principal,
) -> None:
    bad = to_cloudevent(event())
    bad.attributes["dataschema"].ce_string = "application"
    raw = Envelope(event=bad).SerializeToString()
    with structlog.testing.capture_logs() as lines:
        async with opened(principal) as call:
            for message in (raw, b"\xff\xff", raw, encode(event(2))):
                await call.write(message)
            assert await principal.recorder.event() == event(2)
            first = await read(call)
            assert (first.type, first.resource_id, first.event_id) == (
                Message.PROCESSED,
                "app_u",
                "app_u_1",
            )
    refused = [line["reason"] for line in lines if line["event"] == "malformed event refused"]
    assert len(refused) == 2
    assert "no dataschema of the kind uri" in refused[0]


async def test_an_event_beyond_the_limit_ends_its_stream_cheaply_and_no_other(principal: Principal) -> None:
    async with opened(principal) as bystander:
        await principal.recorder.stream()
        huge = bytes(300 * 1024 * 1024)  # zeros that take no memory until they are copied
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        async with opened(principal) as call:
            await principal.recorder.stream()
            with suppress(aio.AioRpcError):
                await call.write(huge)
            assert (await refusal(call.read()))[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        # Sender and receiver are one process: the sender's transport holds a copy, the receiver none.
        assert grown < 450
        await bystander.write(encode(event(3)))
        while (arrived := await principal.recorder.event()) != event(3):
            assert arrived is None


async def test_a_small_message_that_unpacks_beyond_the_limit_is_refused(start: Any) -> None:
    principal = await start(listening={"max_message_bytes": 1024 * 1024})
    async with principal.channel(options=[("grpc.default_compression_algorithm", 2)]) as channel:
        token = (await login(channel)).accessToken
        call = subscribe(channel, ("authorization", token))
        await principal.recorder.stream()
        await call.write(encode(event(payload=bytes(8 * 1024 * 1024))))
        code, _ = await refusal(call.read())
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_an_event_that_nobody_would_take_is_not_sent_and_the_stream_goes_on(start: Any) -> None:
    principal = await start(listening={"max_message_bytes": 1024 * 1024})
    async with opened(principal) as call:
        _, stream = await principal.recorder.stream()
        with pytest.raises(MessageTooLargeError, match="1048576 is the most: raise our --grpc"):
            await stream.send(event(payload=bytes(1024 * 1024)))
        await stream.send(event(2))
        assert await read(call) == event(2)


async def test_a_message_close_to_the_limit_is_taken_and_mentioned(start: Any) -> None:
    principal = await start(listening={"max_message_bytes": 1024 * 1024})
    with structlog.testing.capture_logs() as lines:
        async with opened(principal) as call:
            await call.write(encode(event(payload=bytes(900 * 1024))))
            assert await principal.recorder.event() is not None
    assert any("close to the largest" in line["event"] for line in lines)


async def test_an_agent_that_hangs_up_ends_the_owner_of_its_stream(principal: Principal) -> None:
    async with opened(principal) as call:
        await principal.recorder.stream()
        call.cancel()
        assert await principal.recorder.end() == "agent-1"
    await until(lambda: len(principal.server.sessions) == 0)


async def test_an_agent_whose_connection_breaks_ends_the_owner_of_its_stream(principal: Principal) -> None:
    async with opened(principal):
        await principal.recorder.stream()
    assert await principal.recorder.end() == "agent-1"


@pytest.mark.parametrize(
    "failure", [RuntimeError("secret details"), SurroundingsError("the API server is away")]
)
async def test_a_stream_that_fails_here_ends_with_a_code_on_which_go_agents_reconnect(
    principal: Principal, failure: Exception
) -> None:
    principal.recorder.failing = failure
    with structlog.testing.capture_logs() as lines:
        async with opened(principal) as call:
            code, details = await refusal(call.read())
    assert (code, details) == (
        grpc.StatusCode.UNAVAILABLE,
        "the stream failed on the principal's side",
    )
    assert [line["agent"] for line in lines if line["event"] == "stream failed"] == ["agent-1"]


async def test_sending_on_a_lost_stream_says_so(principal: Principal) -> None:
    async with opened(principal) as call:
        _, stream = await principal.recorder.stream()
        call.cancel()
        await principal.recorder.end()

    async def send_for_ever() -> None:
        async with asyncio.timeout(PATIENCE):
            while True:
                await stream.send(event())

    with pytest.raises(StreamLostError):
        await send_for_ever()


async def test_an_agent_cannot_hold_many_streams(principal: Principal) -> None:
    async with principal.channel() as channel:
        token = ("authorization", (await login(channel)).accessToken)
        calls = [subscribe(channel, token) for _ in range(8)]
        for _ in calls:
            await principal.recorder.stream()
        assert await refusal(subscribe(channel, token).read()) == (
            grpc.StatusCode.UNAVAILABLE,
            "too many streams",
        )
