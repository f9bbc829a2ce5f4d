"""Certificates, authorities and the blocklist change under open streams."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from argocd.agents.vocabulary import Mode
from certs.key_pair import Material, fingerprint
from sidecars.wire.auth.blocklist import Blocklist
from sidecars.wire.auth.tokens import Holder
from sidecars.wire.auth.trust import Trust
from sidecars.wire.capabilities import Capabilities
from sidecars.wire.server.sessions import AuthenticatedAgent, OpenStreams
from tests.sidecars.wire.listening_principal import (
    AGENT,
    AUTHORITY,
    OTHER_AUTHORITY,
    PATIENCE,
    PRINCIPAL,
    Principal,
    login,
    refresh,
    refusal,
    subscribe,
)
from tests.sidecars.wire.pki import CLIENT, SERVER, Issued, issue

GONE = (grpc.StatusCode.UNAUTHENTICATED, "authentication is no longer valid")
INVALID = (grpc.StatusCode.UNAUTHENTICATED, "invalid authentication data")
FAILED = (grpc.StatusCode.UNAUTHENTICATED, "authentication failed")


@asynccontextmanager
async def opened(principal: Principal, agent: Issued = AGENT) -> AsyncIterator[tuple[Any, Any, Any]]:
    async with principal.channel(agent) as channel:
        answer = await login(channel)
        call = subscribe(channel, ("authorization", answer.accessToken))
        await principal.recorder.stream()
        yield channel, answer, call


async def is_open(call: Any) -> bool:
    done, _ = await asyncio.wait({asyncio.ensure_future(call.code())}, timeout=0.05)
    return not done


def shown(principal: Principal) -> Any:
    return principal.channel(options=[("grpc.ssl_target_name_override", "localhost")])


async def test_a_new_certificate_is_shown_to_the_next_agent_and_open_streams_go_on(
    principal: Principal,
) -> None:
    async with opened(principal) as (_, _, call):
        renewed = issue("renewed", OTHER_AUTHORITY, usage=[SERVER])
        cut = await principal.server.swap_material(Material(renewed.pair(), AUTHORITY.pem))
        assert cut == []
        assert await is_open(call)
        async with principal.channel() as channel:  # which trusts the old authority only
            assert (await refusal(login(channel)))[0] is grpc.StatusCode.UNAVAILABLE
        await principal.server.swap_material(Material(PRINCIPAL.pair(), AUTHORITY.pem))
        async with principal.channel() as channel:
            assert (await login(channel)).accessToken


async def test_agents_of_a_withdrawn_authority_are_cut_and_stay_out(principal: Principal) -> None:
    both = AUTHORITY.pem + OTHER_AUTHORITY.pem
    await principal.server.swap_material(Material(PRINCIPAL.pair(), both))
    newer = issue("agent-2", OTHER_AUTHORITY, usage=[CLIENT])
    async with opened(principal) as (channel, answer, old), opened(principal, newer) as (_, _, new):
        cut = await principal.server.swap_material(Material(PRINCIPAL.pair(), OTHER_AUTHORITY.pem))
        assert [peer.name for peer in cut] == ["agent-1"]
        assert await refusal(old.read()) == GONE
        assert await is_open(new)
        # The connection is still there, made while the authority was good. Nothing may come of it.
        assert await refusal(login(channel)) == FAILED
        assert await refusal(refresh(channel, answer.refreshToken)) == INVALID
        token = ("authorization", answer.accessToken)
        assert await refusal(subscribe(channel, token).read()) == INVALID


async def test_a_blocked_agent_is_cut_at_once_and_its_token_is_worth_nothing(principal: Principal) -> None:
    other = issue("agent-2", AUTHORITY, usage=[CLIENT])
    async with opened(principal) as (channel, answer, blocked), opened(principal, other) as (_, _, spared):
        entries = {"data": {fingerprint(AGENT.certificate): ""}}
        cut = await principal.server.swap_blocklist(Blocklist.of(entries))
        assert [peer.name for peer in cut] == ["agent-1"]
        assert await refusal(blocked.read()) == GONE
        assert await principal.recorder.end() == "agent-1"
        assert await is_open(spared)
        token = ("authorization", answer.accessToken)
        assert await refusal(subscribe(channel, token).read()) == INVALID
        assert await refusal(refresh(channel, answer.refreshToken)) == INVALID
        assert await refusal(login(channel)) == FAILED
        await principal.server.swap_blocklist(Blocklist())
        assert (await login(channel)).accessToken


async def test_an_agent_that_is_ours_no_more_is_cut(principal: Principal) -> None:
    async with opened(principal) as (_, _, call):
        principal.gate.strangers.add("agent-1")
        assert [peer.name for peer in await principal.server.recheck()] == ["agent-1"]
        assert await refusal(call.read()) == GONE


async def test_a_stream_that_is_cut_while_it_begins_ends_for_its_agent_too(principal: Principal) -> None:
    async with principal.channel() as channel:
        token = ("authorization", (await login(channel)).accessToken)
        for _ in range(20):
            call = subscribe(channel, token)
            while not len(principal.server.sessions):  # noqa: ASYNC110 - the moment it opens, not later
                await asyncio.sleep(0)
            principal.gate.strangers.add("agent-1")
            await principal.server.recheck()
            async with asyncio.timeout(PATIENCE):
                assert await refusal(call.read()) == GONE
                while len(principal.server.sessions):  # noqa: ASYNC110 - or the next would be taken for this one
                    await asyncio.sleep(0)
            principal.gate.strangers.clear()


async def test_a_bundle_without_authorities_is_refused_and_everybody_stays(principal: Principal) -> None:
    async with opened(principal) as (_, _, call):
        with pytest.raises(Exception, match="no valid certificate"):
            await principal.server.swap_material(Material(PRINCIPAL.pair(), b""))
        assert await is_open(call)


async def test_a_stream_does_not_outlive_its_certificate(start: Any) -> None:
    principal = await start()
    short = issue("agent-1", AUTHORITY, usage=[CLIENT], ends=timedelta(seconds=2))
    async with opened(principal, short) as (_, _, call):
        assert await refusal(call.read()) == GONE


async def test_a_stream_does_not_live_for_ever(start: Any) -> None:
    principal = await start(listening={"max_stream_seconds": 0.05})
    async with opened(principal) as (_, _, call):
        assert await refusal(call.read()) == GONE


async def test_a_principal_that_stops_lets_agents_look_elsewhere(principal: Principal) -> None:
    async with opened(principal) as (_, _, call):
        async with asyncio.timeout(PATIENCE):
            await principal.server.stop()
        assert await refusal(call.read()) == (grpc.StatusCode.UNAVAILABLE, "the principal is stopping")
        assert await principal.recorder.end() == "agent-1"


async def test_a_thousand_streams_are_rechecked_without_holding_up_the_loop() -> None:
    sessions = OpenStreams(now=lambda: datetime.now(UTC))
    trust = Trust(AUTHORITY.pem, now=lambda: datetime.now(UTC))
    peer = AuthenticatedAgent(
        holder=Holder("agent-1", Mode.MANAGED),
        announced=Capabilities(),
        shown=(AGENT.certificate.public_bytes(Encoding.DER),),
    )
    managers = [
        sessions.opened(
            AuthenticatedAgent(holder=Holder(f"a{number}", peer.mode), shown=peer.shown), max_age=60
        )
        for number in range(1000)
    ]
    for manager in managers:
        manager.__enter__()
    turns = 0

    async def watch() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def complaint(asked: AuthenticatedAgent) -> str | None:
        trust.check(asked.chain)
        return None

    watcher = asyncio.create_task(watch())
    assert await sessions.recheck(complaint) == []
    watcher.cancel()
    assert turns >= 1000
    for manager in managers:
        manager.__exit__(None, None, None)
    assert len(sessions) == 0
