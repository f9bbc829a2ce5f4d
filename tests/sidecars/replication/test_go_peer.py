"""A principal of ours whose peer is argocd-agent's, scripted: what it becomes, and who may be promoted."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from certs.authority import LeafSubject
from certs.key_pair import Material
from kube.resources import APPLICATIONS
from scripts.ports import free_port
from sidecars.fleet.ha_client import HaClient, HaRefusedError
from sidecars.replication.control.promotion import Word
from sidecars.replication.control.settings import HaSettings, PreferredRole
from sidecars.replication.control.start import PeerView, Start, decide
from sidecars.replication.control.status import status
from sidecars.replication.record import HaRecord, HaRole
from sidecars.wire.generated import hacontrol_pb2
from sidecars.wire.tls import ServerCredentials
from tests.sidecars import pair_in_memory
from tests.sidecars.captured_logs import logged
from tests.sidecars.processes import Pki
from tests.sidecars.replication.hubs import application, until
from tests.sidecars.replication.paired_principals import JO, NAMES, FencedStore, Region
from tests.sidecars.replication.scripted_go_primary import ScriptedGoPrimary, snapshot_of, stored
from tiphys.errors import CallError

JO_ON_THE_WIRE = hacontrol_pb2.Word(who="jo", reason="a test")
FORCE = Word(who="jo", why="the primary is gone", force=True, epoch=0)


class GoPeer:
    """Where a `Region` looks for its peer: a port and, on another, a health page."""

    def __init__(self, pki: Pki) -> None:
        self.port = free_port()
        self.primary = ScriptedGoPrimary(snapshot_of(stored("web")))
        subject = LeafSubject(common_name=NAMES["a"], dns_names=("localhost",))
        pair = pki.authority.issue(
            subject, now=datetime.now(UTC), lifetime=timedelta(hours=1), server=True, client=True
        )
        self._material = Material(pair=pair, roots=pki.authority.pair.certificate)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        credentials = ServerCredentials(self._material, require_client_certificate=True)
        async with self.primary.running(credentials.grpc, port=self.port):
            yield


@asynccontextmanager
async def beside(role: PreferredRole) -> AsyncIterator[tuple[Region, GoPeer]]:
    """Neither is started yet."""
    pki = Pki()
    ours, peer = Region("b", FencedStore(), pki, role=role, port=free_port()), GoPeer(pki)
    ours.peer = peer  # type: ignore[assignment]
    async with peer.primary.health_page() as url:
        ours.ha["peer_health_url"] = url
        try:
            yield ours, peer
        finally:
            await ours.stop()


async def test_a_standby_of_a_go_primary_is_promoted_with_force_and_begins_a_pair() -> None:
    async with beside(PreferredRole.REPLICA) as (ours, peer):
        async with peer.listening():
            await ours.start()
            await ours.until("replicating")
            with pytest.raises(CallError, match="still replicating from peer"):
                await ours.controller.promote(JO)
        await ours.until("disconnected")
        with pytest.raises(CallError, match="nothing can be compared"):
            await ours.controller.promote(JO)
        assert await ours.controller.promote(FORCE) == "active"
        record = ours.controller.role.held_record()
        assert (record.epoch, record.parity, record.holding, bool(record.pair)) == (1, 1, True, True)
        # The record decides at a restart too, whatever the old one is now.
        await ours.stop()
        peer.primary.state = "replicating"
        async with peer.listening():
            await ours.start()
            await ours.until("active")


async def test_one_that_was_active_follows_a_go_peer_that_was_promoted_meanwhile() -> None:
    async with beside(PreferredRole.PRIMARY) as (ours, peer):
        peer.primary.state = "replicating"
        async with peer.listening():
            await ours.start()
            await ours.until("active")
            mine = application("mine")
            await ours.store.create(APPLICATIONS, mine, namespace="agent-a")
            await ours.stop()
            peer.primary.state = "active"
            await ours.start()
            await ours.until("replicating")
            await pair_in_memory.until(
                ours.store, APPLICATIONS, lambda there: set(there) == {"mine", "web"}, namespace="agent-a"
            )
            # It serves under no epoch: that this one had a higher one proves nothing.
            peer.primary.state = "replicating"
            await until(lambda: ours.controller.view is not None)
            with pytest.raises(CallError, match="nothing can be compared"):
                await ours.controller.promote(JO)
            assert (
                await ours.controller.promote(Word(who="jo", why="failback", force=True, epoch=1)) == "active"
            )
            assert ours.controller.role.held_record().served_epoch == 3


@pytest.mark.parametrize(
    ("peer", "start"),
    [
        (PeerView(plain_state="active"), Start.STANDBY),
        (PeerView(plain_state="disconnected"), Start.ACTIVE),
        (PeerView(problem="no answer"), Start.ACTIVE),
    ],
)
def test_a_new_process_of_an_active_one_goes_on_unless_a_go_peer_is_active(
    peer: PeerView, start: Start
) -> None:
    """Within a Lease of the old process's end somebody may have promoted it, and it has no epoch to be known by."""
    record = HaRecord(
        pair="p", principal="a", role=HaRole.ACTIVE, epoch=1, served_epoch=1, parity=1, history="h"
    )
    assert decide(record, HaSettings(), peer, principal="a", handed_over=True).start is start


async def test_two_actives_are_said_where_one_is_argocd_agents() -> None:
    async with beside(PreferredRole.PRIMARY) as (ours, peer):
        peer.primary.state = "replicating"
        async with peer.listening():
            await ours.start()
            await ours.until("active")
            peer.primary.state = "active"
            said = logged()
            await ours.controller.ask()
            await ours.controller.ask()
            assert len(said("argocd-agent's principal is active too: demote one of the two")) == 1
            assert status(ours.controller)["peer"]["state"] == "active"


async def test_a_replica_that_never_met_a_primary_is_not_promoted() -> None:
    async with beside(PreferredRole.REPLICA) as (ours, _peer):
        await ours.start()
        await ours.until("syncing")
        with pytest.raises(CallError, match="never met its primary"):
            await ours.controller.promote(FORCE)


async def test_a_switchover_to_a_go_peer_is_refused_with_its_reason() -> None:
    async with beside(PreferredRole.PRIMARY) as (ours, peer):
        peer.primary.state = "replicating"
        async with peer.listening():
            await ours.start()
            await ours.until("active")
            assert ours.process is not None
            assert ours.process.pair is not None
            assert ours.process.pair.admin is not None
            admin = HaClient(address=f"127.0.0.1:{ours.process.pair.admin.port}")
            with pytest.raises(HaRefusedError, match="argocd-agent's, which takes no token"):
                [line async for line in admin.switchover(JO_ON_THE_WIRE, dry_run=True)]
