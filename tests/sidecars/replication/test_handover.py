"""Tokens of a switchover over the wire: whoever may not show one, says nothing of itself, or is of another pair is refused and
noted, and never pushes anything else out of the audit trail.
"""

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import grpc
import pytest
from grpc import aio

from certs.key_pair import Material
from sidecars.replication.control.handover import TAKE_OVER, HandoverToken
from sidecars.replication.control.observer import NOTED_REFUSALS
from sidecars.replication.record import AUDIT_ENTRIES, REFUSAL, REFUSED_ENTRIES, HaRecord, HaRole
from sidecars.replication.states import HaState
from sidecars.wire.tls import channel_credentials
from tests.sidecars.replication.paired_principals import (
    NAMES,
    FencedStore,
    Region,
    following,
    regions,
    token_of,
)
from tests.sidecars.replication.test_pair import eventually_replicating

if TYPE_CHECKING:
    from sidecars.replication.handshake import Handshake

NOW = datetime(2026, 11, 18, 8, 0, tzinfo=UTC)


async def shown(
    region: Region, request: bytes, *, certificate: str = NAMES["a"], handshake: "Handshake | None" = None
) -> tuple[grpc.StatusCode, str]:
    """How the region answers it."""
    pair = region.pki.pair(certificate, server=False)
    credentials = channel_credentials(Material(pair=pair, roots=region.pki.authority.pair.certificate))
    async with aio.secure_channel(f"localhost:{region.port}", credentials) as channel:
        try:
            await channel.unary_unary(TAKE_OVER)(
                request, metadata=handshake.metadata() if handshake else (), timeout=30
            )
        except aio.AioRpcError as error:
            return error.code(), error.details() or ""
    return grpc.StatusCode.OK, ""


def token(giver: "Handshake", region: Region) -> HandoverToken:
    """Right in everything but what nobody outside can know."""
    return replace(token_of(giver, region), history="", sequence=0, digest="")


def refusals(region: Region) -> list[tuple[str, str, int]]:
    trail = region.controller.role.held_record().audit
    return [(entry.who, entry.why, entry.times) for entry in trail if entry.what == REFUSAL]


async def test_strangers_other_pairs_and_garbage_are_refused_over_the_wire_and_noted() -> None:
    async with regions(FencedStore(), FencedStore()) as (one, two):
        await following(one, two)
        await eventually_replicating(one, two)
        giver = replace(one.controller.handshake, state=HaState.DISCONNECTED)
        good = token(giver, two).encoded()
        peer = giver.principal
        unlisted = 'identity "agent-a" not in allowed replication clients'
        denied, failed = grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.FAILED_PRECONDITION
        for asked, expected, who in (
            (shown(two, good, certificate="agent-a", handshake=giver), (denied, unlisted), "unknown"),
            (shown(two, good), (failed, "the caller says nothing of itself"), NAMES["a"]),
            (
                shown(two, good, handshake=replace(giver, pair="another")),
                (failed, f"no principal of this pair: pair {giver.pair} here, another there"),
                NAMES["a"],
            ),
            (shown(two, b"garbage", handshake=giver), (failed, "the token cannot be read"), NAMES["a"]),
            (
                shown(two, good, handshake=replace(giver, principal="somebody")),
                (failed, "the token is refused: whoever shows it is not this principal's peer"),
                "somebody",
            ),
            (
                shown(two, good, handshake=replace(giver, state=HaState.ACTIVE)),
                (failed, "the token is refused: whoever shows it is active"),
                peer,
            ),
            (
                shown(two, good, handshake=giver),
                (failed, "the token is refused: it is of another history"),
                peer,
            ),
        ):
            assert await asked == expected
            assert refusals(two)[-1] == (who, expected[1], 1)
        assert (one.state, two.state) == ("active", "replicating")
        # The first one again: its line moves to the end, and counts.
        await shown(two, good, certificate="agent-a", handshake=giver)
        assert refusals(two)[-1] == ("unknown", unlisted, 2)
        assert len(refusals(two)) == 7


async def test_whoever_is_refused_again_and_again_keeps_no_record_busy() -> None:
    async with regions(FencedStore(), FencedStore()) as (one, two):
        await following(one, two)
        await eventually_replicating(one, two)
        giver = replace(one.controller.handshake, state=HaState.DISCONNECTED)
        trail = [entry for entry in two.controller.role.held_record().audit if entry.what != REFUSAL]
        for _ in range(NOTED_REFUSALS + 5):
            assert (await shown(two, b"garbage", handshake=giver))[0] is grpc.StatusCode.FAILED_PRECONDITION
        assert refusals(two) == [(NAMES["a"], "the token cannot be read", NOTED_REFUSALS)]
        record = two.controller.role.held_record()
        assert [entry for entry in record.audit if entry.what != REFUSAL] == trail
        # A minute later the next one tells of those that were left out.
        await two.controller.role.note_refusal(who="x", why="y", times=1)
        two.controller._noted.clear()
        await shown(two, b"garbage", handshake=giver)
        assert refusals(two)[-1] == (NAMES["a"], "the token cannot be read", NOTED_REFUSALS + 6)


@pytest.mark.parametrize("reasons", [1, 1000], ids=["always the same", "always another"])
def test_refusals_never_push_what_has_happened_out_of_the_trail(reasons: int) -> None:
    record = HaRecord(pair="p", principal="a", role=HaRole.STANDBY, epoch=1)
    for number in range(AUDIT_ENTRIES - REFUSED_ENTRIES):
        record = record.changed(who="jo", why="", what=f"change {number}", now=NOW)
    before = record.audit
    for number in range(1000):
        record = record.refused(who="peer", why=f"reason {number % reasons}", now=NOW, times=1)
    kept = tuple(entry for entry in record.audit if entry.what != REFUSAL)
    assert kept == before
    refused = [entry for entry in record.audit if entry.what == REFUSAL]
    assert len(refused) == min(reasons, REFUSED_ENTRIES)
    assert sum(entry.times for entry in refused) == (1000 if reasons == 1 else REFUSED_ENTRIES)
    assert (record.who, record.why) == ("jo", "")
