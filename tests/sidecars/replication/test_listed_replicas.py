"""Several may replicate, and one of them is the peer: what another one says of itself changes nobody's role."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from grpc import aio

from certs.key_pair import Material
from sidecars.replication.control import controller
from sidecars.replication.control.handover import TAKE_OVER
from sidecars.replication.control.role import PairRole
from sidecars.replication.peer import STATUS
from sidecars.replication.states import HaState
from sidecars.wire.generated.replication_pb2 import StatusRequest
from sidecars.wire.tls import channel_credentials
from tests.sidecars.replication.hubs import until
from tests.sidecars.replication.paired_principals import (
    JO,
    NAMES,
    FencedStore,
    Region,
    following,
    regions,
    token_of,
)
from tests.sidecars.replication.step_store import audit, record, switched
from tests.sidecars.replication.test_pair import eventually_replicating

if TYPE_CHECKING:
    from sidecars.replication.handshake import Handshake

THIRD = "principal-c"
ASKED = StatusRequest().SerializeToString()


@asynccontextmanager
async def with_a_third() -> AsyncIterator[tuple[Region, Region]]:
    """A third principal of the fleet is on both lists."""
    async with regions(FencedStore(), FencedStore()) as (one, two):
        for region in (one, two):
            region.ha = {"allowed_clients": frozenset({*NAMES.values(), THIRD})}
        await following(one, two)
        await eventually_replicating(one, two)
        await until(lambda: record(one).peer == two.controller.handshake.principal)
        yield one, two


async def says(
    region: Region, certificate: str, mine: "Handshake", *, path: str = STATUS, request: bytes = ASKED
) -> tuple[grpc.StatusCode, str]:
    """Of itself, to the region; how that answers."""
    pair = region.pki.pair(certificate, server=False)
    credentials = channel_credentials(Material(pair=pair, roots=region.pki.authority.pair.certificate))
    async with aio.secure_channel(f"localhost:{region.port}", credentials) as channel:
        try:
            await channel.unary_unary(path)(request, metadata=mine.metadata(), timeout=30)
        except aio.AioRpcError as error:
            return error.code(), error.details() or ""
    return grpc.StatusCode.OK, ""


@pytest.mark.parametrize("poses", [False, True], ids=["as itself", "as the peer"])
async def test_whoever_else_may_replicate_deposes_nobody_by_what_it_says(*, poses: bool) -> None:
    async with with_a_third() as (one, two):
        before, asked = record(one), one.controller.asked_at
        peer = two.controller.handshake
        claims = replace(peer, state=HaState.ACTIVE, epoch=98)
        mine = claims if poses else replace(claims, principal="third")
        assert await says(one, THIRD, mine) == (grpc.StatusCode.OK, "")
        # A reason to ask the peer, and what that answers is what counts.
        await until(lambda: one.controller.asked_at != asked)
        async with one.controller.turn():
            pass
        assert one.state == "active"
        assert (record(one).peer, record(one).peer_epoch) == (before.peer, before.peer_epoch)
        assert "stepped down" not in audit(one)
        view = one.controller.view
        assert view is not None
        assert view.handshake is not None
        assert view.handshake.principal == peer.principal


async def test_whoever_else_may_replicate_is_no_peer_that_has_answered() -> None:
    """Not with an epoch that is lower, by which this one would serve again although the peer may have been promoted."""
    async with with_a_third() as (one, two):
        mine = replace(two.controller.handshake, principal="third", state=HaState.SYNCING, epoch=0)
        await two.stop()
        await one.stop()
        await one.start()
        await until(lambda: "whether the peer was promoted since is not known" in one.controller.role.reason)
        asked = one.controller.asked_at
        await says(one, THIRD, mine)
        await until(lambda: one.controller.asked_at != asked)
        async with one.controller.turn():
            pass
        assert one.state == "recovering"


async def test_a_replica_joins_nobody_but_its_own_primary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "ASK_INTERVAL_SECONDS", 3600.0)
    async with regions(FencedStore(), FencedStore()) as (one, two):
        two.ha = {"allowed_clients": frozenset({*NAMES.values(), THIRD})}
        await two.start()
        await two.until("syncing")
        mine = replace(two.controller.handshake, principal="third", state=HaState.ACTIVE, epoch=7, pair="q")
        await says(two, THIRD, mine)
        await one.start()
        await one.until("active")
        await two.until("replicating")
        assert record(two).pair == record(one).pair


async def test_the_only_other_one_on_the_list_is_the_peer_also_where_it_calls_and_cannot_be_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(controller, "ASK_INTERVAL_SECONDS", 3600.0)
    stepped_down: list[Any] = []
    stop_serving = PairRole.stop_serving

    async def noted(role: PairRole, reason: str) -> None:
        stepped_down.append(reason)
        await stop_serving(role, reason)

    monkeypatch.setattr(PairRole, "stop_serving", noted)
    async with regions(FencedStore(), FencedStore()) as (one, two):
        await following(one, two)
        await eventually_replicating(one, two)
        mine = replace(two.controller.handshake, state=HaState.ACTIVE, epoch=2)
        await two.stop()
        await says(one, NAMES["b"], mine)
        await one.until("disconnected")
        assert stepped_down == ["the peer has served under epoch 2, this one under 1"]


async def test_whoever_else_may_replicate_promotes_nobody_by_a_token() -> None:
    """It knows all that a token says: it has the same objects, and numbers."""
    async with with_a_third() as (one, two):
        giver = replace(one.controller.handshake, state=HaState.DISCONNECTED)  # which it is not
        answer = await says(two, THIRD, giver, path=TAKE_OVER, request=token_of(giver, two).encoded())
        words = "the token is refused: whoever shows it is not this principal's peer"
        assert answer == (grpc.StatusCode.FAILED_PRECONDITION, words)
        assert (one.state, two.state) == ("active", "replicating")
        assert record(two).audit[-1].what == "token refused"


async def test_among_several_the_peer_itself_is_heard_and_handed_over_to() -> None:
    async with with_a_third() as (one, two):
        assert (await switched(one))[-1] == "the peer is active under epoch 2; this one follows"
        await one.until("replicating")
        await eventually_replicating(two, one)
        # And deposes by its own answer, for which its call was the reason.
        await one.controller.promote(replace(JO, force=True, epoch=2))
        await two.until("replicating")
        assert "stepped down" in audit(two)
