"""Who may not replicate, and what a primary may not say: refused with a reason, and nothing changes."""

from typing import Any

import grpc
import pytest
from grpc import aio

from argocd import names
from certs.key_pair import Material
from kube.resources import APPLICATIONS, CONFIG_MAPS
from sidecars.replication.envelopes import START_KEY
from sidecars.replication.handshake import KEY, Handshake
from sidecars.replication.messages import ReplicaStart
from sidecars.replication.states import HaState
from sidecars.wire.generated.replication_pb2 import ReplicationStatus, StatusRequest
from sidecars.wire.tls import channel_credentials
from tests.sidecars.replication.hubs import (
    ARGOCD,
    AUTHORITY,
    Hub,
    Pair,
    certificate,
    create,
    embedded,
    figure,
    fill,
    until,
)
from tests.sidecars.wire import pki

FOREIGN = pki.issue("somebody else's authority", authority=True)


async def ask(pair: Pair, material: Material, *, mine: Handshake | None = None) -> tuple[Any, Any, str]:
    """Status: the answer or its code, what stands in the trailing metadata, and the words."""
    target = f"localhost:{pair.listening.port}"
    async with aio.secure_channel(target, channel_credentials(material)) as channel:
        call = channel.unary_unary("/replicationapi.Replication/Status")(
            StatusRequest().SerializeToString(), metadata=mine.metadata() if mine else (), timeout=20
        )
        try:
            answer: Any = ReplicationStatus.FromString(await call)
            return answer, Handshake.of(await call.trailing_metadata()), ""
        except aio.AioRpcError as error:
            return error.code(), Handshake.of(error.trailing_metadata()), error.details() or ""


async def test_status_is_answered_in_every_state_and_says_what_we_are() -> None:
    async with Pair(Hub(embedded()), Hub(embedded())).running(following=False) as pair:
        for state in HaState:
            pair.active.say(state=state, epoch=7)
            answer, trailing, _ = await ask(pair, certificate("standby"), mine=pair.passive.handshake)
            assert answer.current_sequence_num == 0
            assert (trailing.state, trailing.epoch, trailing.pair, trailing.history) == (
                state,
                7,
                "pair-1",
                "h1",
            )


@pytest.mark.parametrize(
    ("material", "code", "words"),
    [
        (
            lambda: certificate("agent-a"),
            grpc.StatusCode.PERMISSION_DENIED,
            'identity "agent-a" not in allowed replication clients',
        ),
        (
            lambda: certificate("stranger"),
            grpc.StatusCode.PERMISSION_DENIED,
            'identity "stranger" not in allowed replication clients',
        ),
        (
            lambda: Material(
                pair=pki.issue("standby", AUTHORITY, usage=(pki.SERVER,)).pair(), roots=AUTHORITY.pem
            ),
            None,
            "",
        ),
        (
            lambda: Material(pair=certificate("standby", issuer=FOREIGN).pair, roots=AUTHORITY.pem),
            None,
            "",
        ),
    ],
    ids=["an agent's certificate", "an unknown client", "not for clients", "another authority's"],
)
async def test_whoever_is_not_on_the_list_learns_nothing(
    material: Any, code: grpc.StatusCode | None, words: str
) -> None:
    async with Pair(Hub(embedded()), Hub(embedded())).running(following=False) as pair:
        refused, _, said = await ask(pair, material())
        # What TLS itself refuses has no words of ours.
        assert refused is (code or grpc.StatusCode.UNAVAILABLE)
        assert words in said
        assert pair.active.heard_of == []


async def test_an_agent_on_the_list_is_still_an_agent() -> None:
    pair = Pair(Hub(embedded()), Hub(embedded()), allowed=frozenset({"agent-a"}))
    async with pair.running(following=False):
        code, _, words = await ask(pair, certificate("agent-a"))
        assert code is grpc.StatusCode.PERMISSION_DENIED
        assert "is an agent's" in words


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"principal": "one"}, "the peer is this principal itself"),
        ({"pair": "pair-2"}, "pair pair-1 here, pair-2 there"),
        ({"namespace": "other"}, "--namespace argocd here, other there"),
        ({"mapping": "destination"}, "mapped by namespace here"),
        ({"allowed_namespaces": ("*",)}, "--allowed-namespaces agent-* here, * there"),
        ({"authorities": ("another",)}, "authority of agents' certificates authority-1 here, another there"),
    ],
    ids=["ourselves", "pair", "namespace", "mapping", "allowed namespaces", "authority"],
)
async def test_two_that_are_no_pair_say_what_differs(changes: dict[str, Any], words: str) -> None:
    two = embedded()
    await fill(two, 3)
    async with Pair(Hub(embedded()), Hub(two)).running(following=False) as pair:
        pair.passive.say(**changes)
        await pair.follower.start()
        await until(lambda: any(words in told for told in pair.passive.told))
        assert pair.source.replicas() == []
        assert pair.active.heard_of == []
        assert len((await two.list(APPLICATIONS)).items) == 3


async def test_a_replica_of_ours_that_says_nothing_of_itself_is_no_replica() -> None:
    async with Pair(Hub(embedded()), Hub(embedded())).running(following=False) as pair:
        target = f"localhost:{pair.listening.port}"
        for said in ((), ((KEY, '{"pair": 1}'),)):
            async with aio.secure_channel(target, channel_credentials(certificate("standby"))) as channel:
                call = channel.stream_stream("/replicationapi.Replication/Subscribe")(
                    metadata=[*said, (START_KEY, ReplicaStart().text())], timeout=20
                )
                assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
                assert "does not say who it is" in await call.details()
        assert pair.source.replicas() == []


async def test_a_primary_of_a_lower_epoch_is_not_followed() -> None:
    async with Pair(Hub(embedded()), Hub(embedded())).running(following=False) as pair:
        pair.passive.say(epoch=2)
        await pair.follower.start()
        await until(lambda: any("epoch 1 here is lower than 2" in told for told in pair.passive.told))
        assert [peer.epoch for peer in pair.active.heard_of][:1] == [2]
        assert not pair.follower.progress().connected


async def test_a_passive_principal_replicates_to_nobody() -> None:
    async with Pair(Hub(embedded()), Hub(embedded())).running(following=False) as pair:
        pair.active.say(state=HaState.DISCONNECTED)
        await pair.follower.start()
        await until(
            lambda: any("not replicating in state disconnected" in told for told in pair.passive.told)
        )


async def test_a_sequence_from_the_future_is_refused() -> None:
    two = embedded()
    cursor = {"history": "h1", "sequence": "99", "whole": "true", "syncedOnce": "true"}
    await create(two, CONFIG_MAPS, {"metadata": {"name": names.HA_CURSOR}, "data": cursor})
    async with Pair(Hub(embedded()), Hub(two)).running() as pair:
        await until(lambda: any("has sequence 99 of history h1" in told for told in pair.passive.told))
        assert (await two.get(CONFIG_MAPS, name=names.HA_CURSOR, namespace=ARGOCD))["data"] == cursor


async def test_a_start_that_makes_no_sense_is_refused() -> None:
    errors = figure("argocd_agent_replication_forwarding_errors_total")
    async with Pair(Hub(embedded()), Hub(embedded())).running(following=False) as pair:
        target = f"localhost:{pair.listening.port}"
        for text in ("[]", '{"sequence":-1}', '{"History":"x"}', "x" * 5000, ReplicaStart().text() + "}"):
            async with aio.secure_channel(target, channel_credentials(certificate("standby"))) as channel:
                call = channel.stream_stream("/replicationapi.Replication/Subscribe")(
                    metadata=[*pair.passive.handshake.metadata(), (START_KEY, text)]
                )
                assert await call.code() in {
                    grpc.StatusCode.INVALID_ARGUMENT,
                    grpc.StatusCode.UNIMPLEMENTED,
                    grpc.StatusCode.RESOURCE_EXHAUSTED,
                }
        assert figure("argocd_agent_replication_forwarding_errors_total") > errors
        assert pair.source.replicas() == []
