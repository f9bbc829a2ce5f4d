"""Peers of argocd-agent's whose clock, certificate or release is another than ours, in both roles."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import orjson
import pytest
from grpc import aio

from argocd.agents.vocabulary import Message
from certs.key_pair import Material
from kube.embedded import EmbeddedStore
from kube.resources import APPLICATIONS
from sidecars.delivery.timing import Timing
from sidecars.replication.peer import PeerLink
from sidecars.replication.standby.follower import Follower
from sidecars.replication.standby.go_primary import GoConnector
from sidecars.replication.states import HaState
from sidecars.wire.generated.replication_pb2 import (
    AgentState,
    ReplicatedEvent,
    ReplicationAck,
    ReplicationSnapshot,
    Resource,
)
from sidecars.wire.tls import ServerCredentials, channel_credentials
from tests.sidecars.replication.hubs import (
    AUTHORITY,
    Hub,
    Pair,
    ScriptedController,
    application,
    certificate,
    create,
    embedded,
    until,
)
from tests.sidecars.replication.scripted_go_primary import ScriptedGoPrimary, event, snapshot_of, stored
from tests.sidecars.replication.test_go_primary import applications, following
from tests.sidecars.replication.test_go_replica import (
    OneAgent,
    ScriptedGoReplica,
    primary_of,
    recorded_scene,
    replica_of,
    revise,
)
from tests.sidecars.wire import pki

CUT_SECONDS = 7.0
"""An open stream of an authority that was withdrawn lives for five seconds; the machine is shared."""
NEWER = bytes([0xFA, 0x3F, 0x03]) + b"new"
"""A field, number 1023, that our messages do not have."""


def at(number: int, moment: datetime) -> bytes:
    """An event of a primary whose clock says so."""
    made = ReplicatedEvent.FromString(
        event(number, Message.SPEC_UPDATE, stored("web", revision=f"v{number}"))
    )
    made.processed_at_unix = int(moment.timestamp())
    return made.SerializeToString()


# Clocks.


async def test_a_primary_whose_clock_jumps_is_followed_in_the_order_of_its_numbers() -> None:
    now = datetime.now(UTC)
    jumps = (timedelta(minutes=10), timedelta(minutes=-10), timedelta(days=-20_000))
    events = [at(8 + turn, now + jump) for turn, jump in enumerate(jumps)]
    store, primary = embedded(), ScriptedGoPrimary(snapshot_of(stored("web")), *events)
    async with following(store, primary) as follower:
        await until(lambda: primary.acknowledged[-1:] == [10])
        assert await applications(store) == {"web": "v10"}
        assert (follower.progress().seen, follower.progress().applied) == (10, 10)


async def test_our_clock_jumps_and_a_go_replica_still_gets_every_number_once() -> None:
    moments = [datetime.now(UTC) + timedelta(minutes=minutes) for minutes in (0, 10, -10)]
    timing, store = Timing(now=lambda: moments[0]), embedded()
    await recorded_scene(store)
    pair = Pair(Hub(store, timing=timing), Hub(embedded()), routing=OneAgent())
    async with pair.running(following=False), replica_of(pair) as replica:
        told = []
        for turn in range(3):
            await revise(store, f"v{turn}")
            told.append(await replica.receive())
            moments[:] = moments[1:] or moments
        assert [each.sequence_num for each in told] == [1, 2, 3]
        assert told[1].processed_at_unix > told[2].processed_at_unix


# Certificates.


@asynccontextmanager
async def calling(pair: Pair, **dates: Any) -> AsyncIterator[ScriptedGoReplica]:
    issued = pki.issue("standby", AUTHORITY, usage=(pki.CLIENT, pki.SERVER), **dates)
    material = replace(certificate("standby"), pair=issued.pair())
    target = f"localhost:{pair.listening.port}"
    async with aio.secure_channel(target, channel_credentials(material)) as channel:
        yield ScriptedGoReplica(channel)


async def test_a_go_replica_with_an_expired_certificate_is_turned_away() -> None:
    async with primary_of(embedded()).running(following=False) as pair:
        async with calling(pair, ends=timedelta(minutes=-1)) as replica:
            with pytest.raises(aio.AioRpcError) as refused:
                await replica.call("GetSnapshot", b"", ReplicationSnapshot)
            assert refused.value.code() in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNAUTHENTICATED}
        assert not pair.listening.service._go_replicas


async def test_our_certificate_is_renewed_under_a_go_replica_s_stream() -> None:
    store = embedded()
    await recorded_scene(store)
    async with primary_of(store).running(following=False) as pair, replica_of(pair) as replica:
        pair.listening.swap(certificate("primary"))
        await revise(store, "v2")
        assert (await replica.receive()).sequence_num == 1
        async with calling(pair) as again:
            assert (await again.call("GetSnapshot", b"", ReplicationSnapshot)).last_sequence_num == 1


async def test_a_go_replica_of_a_withdrawn_authority_loses_its_stream() -> None:
    store = embedded()
    await recorded_scene(store)
    async with primary_of(store).running(following=False) as pair, replica_of(pair) as replica:
        pair.listening.trust.swap_roots(pki.issue("another", authority=True).pem)
        with pytest.raises(aio.AioRpcError) as ended:
            async with asyncio.timeout(CUT_SECONDS):
                await replica.receive()
        assert ended.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert "does not verify now" in (ended.value.details() or "")


async def test_a_standby_of_a_withdrawn_authority_loses_its_stream_too() -> None:
    store = embedded()
    await create(store, APPLICATIONS, application("web"), namespace="agent-a")
    pair = Pair(Hub(store), Hub(embedded()))
    async with pair.running():
        await pair.equal()
        pair.listening.trust.swap_roots(pki.issue("another", authority=True).pem)
        await until(lambda: "does not verify now" in pair.follower.progress().problem, seconds=CUT_SECONDS)


def of(name: str, issuer: pki.Issued, *trusted: pki.Issued, **dates: Any) -> Material:
    """Issued by one authority; which ones it trusts."""
    issued = pki.issue(name, issuer, usage=(pki.CLIENT, pki.SERVER), **dates)
    return Material(pair=issued.pair(), roots=b"".join(each.pem for each in trusted))


async def test_authorities_that_overlap_cost_a_go_replica_no_handshake() -> None:
    store, following = embedded(), pki.issue("the next one", authority=True)
    await recorded_scene(store)

    async def meets(pair: Pair, material: Material) -> None:
        target = f"localhost:{pair.listening.port}"
        async with aio.secure_channel(target, channel_credentials(material)) as channel:
            assert (await ScriptedGoReplica(channel).call("GetSnapshot", b"", ReplicationSnapshot)).agents

    both = (AUTHORITY, following)
    async with primary_of(store).running(following=False) as pair, replica_of(pair) as replica:
        old, new = of("standby", AUTHORITY, *both), of("standby", following, *both)
        pair.listening.trust.swap_roots(b"".join(each.pem for each in both))
        for issuer in both:
            pair.listening.swap(of("primary", issuer, *both))
            await meets(pair, old)
            await meets(pair, new)
        # The stream from before all this goes on, until its authority goes.
        await revise(store, "v2")
        assert (await replica.receive()).sequence_num == 1
        pair.listening.trust.swap_roots(following.pem)
        pair.listening.swap(of("primary", following, following))
        with pytest.raises(aio.AioRpcError, match="does not verify now"):
            async with asyncio.timeout(CUT_SECONDS):
                await replica.receive()
        await meets(pair, of("standby", following, following))


@asynccontextmanager
async def following_with_tls(
    store: EmbeddedStore, primary: ScriptedGoPrimary, shown: ServerCredentials
) -> AsyncIterator[tuple[Follower, PeerLink]]:
    controller = ScriptedController("two", HaState.SYNCING)
    async with primary.running(shown.grpc), Hub(store).running() as hub:
        address = f"localhost:{primary.port}"
        link = PeerLink(address, certificate("standby"), mine=lambda: controller.handshake)
        connector = GoConnector(link.channel, objects=hub.objects, health=primary.health)
        follower = Follower(store, hub.objects, controller=controller, connect=connector, timing=hub.timing)
        await follower.load()
        await follower.start()
        try:
            yield follower, link
        finally:
            await follower.stop()
            await link.close()


@pytest.mark.parametrize(
    "shown",
    [
        of("primary", AUTHORITY, AUTHORITY, ends=timedelta(minutes=-1)),
        of("primary", pki.issue("another", authority=True), AUTHORITY),
    ],
    ids=["expired", "of another authority"],
)
async def test_a_go_primary_with_a_certificate_that_does_not_verify_is_not_followed_until_it_has_one(
    shown: Material,
) -> None:
    credentials = ServerCredentials(shown, require_client_certificate=True)
    store, primary = embedded(), ScriptedGoPrimary(snapshot_of(stored("web")))
    async with following_with_tls(store, primary, credentials) as (follower, _):
        await until(lambda: "CERTIFICATE_VERIFY_FAILED" in follower.progress().problem)
        assert await applications(store) == {}
        assert primary.acknowledged == []
        credentials.swap(certificate("primary"))
        await until(lambda: primary.acknowledged == [7])
        assert await applications(store) == {"web": "v1"}


async def test_a_go_primary_is_followed_over_authorities_that_overlap_and_not_beyond() -> None:
    following = pki.issue("the next one", authority=True)
    both = (AUTHORITY, following)
    credentials = ServerCredentials(of("primary", AUTHORITY, *both), require_client_certificate=True)
    store, primary = embedded(), ScriptedGoPrimary(snapshot_of(stored("web")))
    async with following_with_tls(store, primary, credentials) as (follower, link):
        await until(lambda: primary.acknowledged == [7])
        for issuer, ours in ((AUTHORITY, following), (following, AUTHORITY), (following, following)):
            credentials.swap(of("primary", issuer, *both))
            link.swap(of("standby", ours, *both))
            await link.ask()
        # What began before goes on for a while; then the stream begins anew.
        await until(lambda: len(primary.acknowledged) > 1)
        assert "CERTIFICATE" not in follower.progress().problem
        # Its certificate is of an authority that is trusted here no more.
        credentials.swap(of("primary", AUTHORITY, *both))
        link.swap(of("standby", following, following))
        await until(lambda: not follower.progress().connected, seconds=CUT_SECONDS)
        await until(lambda: "CERTIFICATE_VERIFY_FAILED" in follower.progress().problem)


# Releases.


async def test_what_a_newer_primary_adds_is_left_out_and_the_rest_is_written() -> None:
    item = {**stored("web"), "novelty": {"x": 1}}
    resources = [
        Resource(kind="Application", namespace="agent-a", name="web", data=orjson.dumps(item)),
        Resource(kind="Hologram", namespace="agent-a", name="web", data=b"{}"),
        Resource(kind="Application", namespace="agent-a", name="without-data"),
        Resource(kind="Application", namespace="kube-system", name="elsewhere", data=orjson.dumps(item)),
    ]
    agent = AgentState(name="agent-a", mode="holographic", resources=resources)
    snapshot = ReplicationSnapshot(agents=[agent], last_sequence_num=7).SerializeToString() + NEWER
    unknown_type = ReplicatedEvent.FromString(event(8, Message.SPEC_UPDATE, stored("web", revision="v8")))
    unknown_type.event.type = "io.argoproj.argocd-agent.event.hologram"
    unknown_kind = ReplicatedEvent.FromString(event(9, Message.DELETE, stored("web")))
    unknown_kind.event.attributes["dataschema"].ce_uri = "hologram"
    empty = ReplicatedEvent(agent_name="agent-a", direction="outbound", sequence_num=10)
    last = event(11, Message.SPEC_UPDATE, stored("late")) + NEWER
    words = [each.SerializeToString() for each in (unknown_type, unknown_kind, empty)]
    store, primary = embedded(), ScriptedGoPrimary(snapshot, *words, last)
    async with following(store, primary) as follower:
        await until(lambda: primary.acknowledged[-1:] == [11])
        assert await applications(store) == {"web": "v1", "late": "v1"}
        web = await store.get(APPLICATIONS, name="web", namespace="agent-a")
        assert "novelty" not in web
        [refused] = follower.progress().dead_letters
        assert (refused.namespace, refused.name) == ("kube-system", "elsewhere")


async def test_what_a_newer_replica_adds_to_its_words_changes_nothing() -> None:
    store = embedded()
    await recorded_scene(store)
    async with primary_of(store).running(following=False) as pair, replica_of(pair) as replica:
        assert (await replica.call("GetSnapshot", NEWER, ReplicationSnapshot)).agents
        await revise(store, "v2")
        first = await replica.receive(acknowledges=False)
        word = ReplicationAck(acked_sequence_num=first.sequence_num).SerializeToString() + NEWER
        await replica._stream.write(word)
        served = pair.listening.service._go_replicas
        assert served is not None
        await until(lambda: served._replicas["standby"].acknowledged == 1)
