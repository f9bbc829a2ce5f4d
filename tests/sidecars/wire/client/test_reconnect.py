"""An agent stays connected through restarts, refusals and new certificates, without hammering."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from certs.key_pair import Material
from sidecars.wire.capabilities import Capabilities
from sidecars.wire.client import reconnect
from sidecars.wire.client.dialer import AgentConnection
from sidecars.wire.client.reconnect import ConnectionStatus, Reconnector
from sidecars.wire.events import heartbeat
from sidecars.wire.server.sessions import Cut
from sidecars.wire.streams import MessageTooLargeError
from tests.sidecars.wire.listening_principal import AUTHORITY, PATIENCE, Principal, until
from tests.sidecars.wire.pki import CLIENT, issue


async def follow(connection: AgentConnection) -> None:
    while await connection.receive() is not None:
        pass


class Pauses:
    """Sleeps that take no time, and how long they would have been."""

    def __init__(self, *, limit: int = 1000) -> None:
        self.taken: list[float] = []
        self._limit = limit

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)
        if len(self.taken) >= self._limit:
            await asyncio.Event().wait()


@asynccontextmanager
async def running(
    link: Reconnector, serve: Callable[[AgentConnection], Awaitable[None]] = follow
) -> AsyncIterator[None]:
    task = asyncio.ensure_future(link.run(serve))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_an_agent_returns_when_its_stream_is_cut(principal: Principal) -> None:
    states: list[ConnectionStatus] = []
    link = Reconnector(principal.dialing(), changed=states.append, sleep=Pauses())
    async with running(link):
        await principal.recorder.stream()
        for session in principal.server.sessions:
            session.cut(Cut.distrusted("a test"))
        await principal.recorder.stream()
        await until(lambda: link.link.connected)
    assert [state.connected for state in states] == [True, False, True]
    assert "UNAUTHENTICATED" in states[1].error


async def test_a_principal_that_takes_less_is_known_to_after_one_lost_stream(start: Any) -> None:
    """As argocd-agent's, which announces nothing."""
    principal = await start(listening={"max_message_bytes": 1 << 20, "announcement": Capabilities()})
    refused: list[str] = []

    async def tell(connection: AgentConnection) -> None:
        try:
            await connection.send(heartbeat())
            await connection.send(replace(heartbeat(), payload=bytes(1 << 20)))
        except MessageTooLargeError as error:
            refused.append(str(error))
        await follow(connection)

    link = Reconnector(principal.dialing(), sleep=Pauses())
    async with running(link, tell):
        await until(lambda: bool(refused))
        assert "1048576 is the most: raise the other end's --grpc-max-message-size" in refused[0]
        for _ in range(2):  # the one that was lost, and the one that replaced it
            await principal.recorder.stream()
        for session in principal.server.sessions:
            session.cut(Cut.unavailable("the principal is stopping"))
        await until(lambda: len(refused) == 2)  # by then it may have been restarted with a larger one


async def test_pauses_grow_are_scattered_and_stay_below_their_bound(principal: Principal) -> None:
    await principal.server.stop(grace=0)
    pauses = Pauses(limit=40)
    async with running(Reconnector(principal.dialing(), random=Random(1), sleep=pauses)):
        await until(lambda: len(pauses.taken) == 40)
    assert 0.25 <= pauses.taken[0] <= 1
    assert 2 <= min(pauses.taken[5:]) <= max(pauses.taken) <= reconnect.MAX_PAUSE_SECONDS
    assert len({round(pause, 3) for pause in pauses.taken}) > 30


async def test_a_refused_agent_waits_longer(principal: Principal) -> None:
    principal.gate.objection = "unknown"
    pauses = Pauses(limit=20)
    async with running(Reconnector(principal.dialing(), sleep=pauses)):
        await until(lambda: len(pauses.taken) == 20)
    assert 15 <= min(pauses.taken[10:]) <= max(pauses.taken) <= reconnect.MAX_REFUSED_PAUSE_SECONDS


async def test_a_standby_is_not_hammered(principal: Principal) -> None:
    principal.gate.state = "replicating"
    pauses = Pauses(limit=8)
    link = Reconnector(principal.dialing(), sleep=pauses)
    async with running(link):
        await until(lambda: len(pauses.taken) == 8)
    assert pauses.taken[-1] >= 2
    assert "not accepting connections in state replicating" in link.link.error


async def test_streams_that_end_at_once_are_no_reason_to_hurry(principal: Principal) -> None:
    """Another agent of the same name ends them."""
    pauses = Pauses(limit=8)

    async def lose(_connection: AgentConnection) -> None:
        return

    async with running(Reconnector(principal.dialing(), sleep=pauses), lose):
        await until(lambda: len(pauses.taken) == 8)
    assert min(pauses.taken[4:]) >= reconnect.MAX_PAUSE_SECONDS / 4


async def test_new_certificates_are_used_at_once(principal: Principal) -> None:
    pauses = Pauses(limit=1)
    link = Reconnector(principal.dialing(), sleep=pauses)
    async with running(link):
        first, _ = await principal.recorder.stream()
        renewed = issue("agent-1", AUTHORITY, usage=[CLIENT])
        await link.swap_material(Material(renewed.pair(), AUTHORITY.pem))
        second, stream = await principal.recorder.stream()
        assert first.fingerprint != second.fingerprint
        await stream.send(heartbeat())
    assert pauses.taken == []


async def test_new_certificates_end_a_pause(principal: Principal) -> None:
    stranger = issue("agent-1", usage=[CLIENT])
    link = Reconnector(principal.dialing(stranger), sleep=lambda _seconds: asyncio.sleep(3600))
    async with running(link):
        await until(lambda: link.link.attempts == 1)
        good = issue("agent-1", AUTHORITY, usage=[CLIENT])
        await link.swap_material(Material(good.pair(), AUTHORITY.pem))
        peer, _ = await principal.recorder.stream()
        assert peer.name == "agent-1"


async def test_an_owner_that_fails_ends_the_loop(principal: Principal) -> None:
    async def fail(_connection: AgentConnection) -> None:
        raise ValueError("a mistake of ours")

    with pytest.raises(ValueError, match="a mistake of ours"):
        async with asyncio.timeout(PATIENCE):
            await Reconnector(principal.dialing()).run(fail)


async def test_a_hundred_agents_return_within_seconds_of_a_restart(start: Any) -> None:
    principal = await start()
    agents = [
        Reconnector(
            principal.dialing(issue(f"agent-{number}", AUTHORITY, usage=[CLIENT])),
            sleep=lambda seconds: asyncio.sleep(seconds / 10),
        )
        for number in range(100)
    ]
    tasks = [asyncio.ensure_future(agent.run(follow)) for agent in agents]
    try:
        await until(lambda: len(principal.server.sessions) == 100)
        await principal.server.stop(grace=0)
        again = await start(listening={"port": principal.port})
        await until(lambda: len(again.server.sessions) == 100)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
