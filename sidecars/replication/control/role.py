"""What one principal of a pair is, and the steps between: each writes the record first and acts afterwards."""

from collections.abc import Awaitable, Callable
from typing import Any

from sidecars.delivery.timing import Timing
from sidecars.process.serving_gate import ServingGate
from sidecars.replication.control.parts import ActivePart, PrincipalFacts, ReplicaPart, SourcePart
from sidecars.replication.control.promotion import RefusedRoleChangeError
from sidecars.replication.handshake import Handshake
from sidecars.replication.metrics import EPOCH, STATE, TRANSITIONS
from sidecars.replication.record import HaRecord, HaRole, RecordStore
from sidecars.replication.states import HaState, StateDetail, is_allowed
from tiphys import logs

OURSELVES = "tiphys"

log = logs.get_logger()

Announce = Callable[[str, str], Awaitable[None]]
"""Tells the world of a change: its name and a sentence."""


class PairRole:
    """State and record. The parts are attached before anything is asked of it: they know it too."""

    active: ActivePart
    source: SourcePart
    replica: ReplicaPart

    def __init__(
        self,
        *,
        facts: PrincipalFacts,
        records: RecordStore,
        gate: ServingGate,
        timing: Timing,
        new_id: Callable[[], str],
        announce: Announce,
    ) -> None:
        self.facts = facts
        self.records = records
        self._gate = gate
        self.timing = timing
        self._new_id = new_id
        self._announce = announce
        self.state, self.detail = HaState.RECOVERING, StateDetail.NONE
        self.reason = "starting"
        self.record: HaRecord | None = None
        gate.state = self.state.value
        STATE.labels(self.state.value).set(1)

    @property
    def handshake(self) -> Handshake:
        record, facts = self.record, self.facts
        return Handshake(
            pair=record.pair if record else "",
            principal=facts.principal,
            state=self.state,
            epoch=record.served_epoch if record else 0,
            history=record.history if record and self.state is HaState.ACTIVE else "",
            parity=(record.parity if record else None) or 0,
            namespace=facts.namespace,
            mapping=facts.mapping,
            allowed_namespaces=facts.allowed_namespaces,
            authorities=facts.authorities,
        )

    def show(self, state: HaState, detail: StateDetail = StateDetail.NONE, reason: str = "") -> None:
        assert is_allowed(self.state, state), f"{self.state} is not followed by {state}"
        if state is not self.state:
            TRANSITIONS.labels(self.state.value, state.value).inc()
            STATE.labels(self.state.value).set(0)
            STATE.labels(state.value).set(1)
        if (state, detail) != (self.state, self.detail):
            log.info("state", **{logs.KIND: state.value, logs.REASON: reason or detail.value})
        self.state, self.detail, self.reason = state, detail, reason
        self._gate.state = state.value
        EPOCH.set(self.record.served_epoch if self.record else 0)

    def held_record(self) -> HaRecord:
        if self.record is None:
            raise RefusedRoleChangeError(f"{self.records.where} is not there yet")
        return self.record

    # Starting.

    async def bootstrap(self, *, who: str, why: str) -> None:
        """The first active one of a new pair claims the odd epochs."""
        first = HaRecord(
            pair=self._new_id(),
            principal=self.facts.principal,
            role=HaRole.ACTIVE,
            epoch=1,
            served_epoch=1,
            parity=1,
            history=self._new_id(),
        )
        self.record = await self.records.create(
            first.changed(who=who, why=why, what="bootstrap", now=self.timing.now())
        )
        await self.start_serving()
        await self._announce("Active", f"first active of a pair: {why}")

    async def start_standby(self, reason: str, *, peer: Handshake | None) -> None:
        if self.record is None:
            first = HaRecord(pair="", principal=self.facts.principal, role=HaRole.STANDBY, epoch=0)
            self.record = await self.records.create(
                first.changed(who=OURSELVES, why=reason, what="first start as replica", now=self.timing.now())
            )
        elif self.record.role is not HaRole.STANDBY:
            await self.become_standby(who=OURSELVES, why=reason, what="restarted as standby", peer=peer)
        self.show(HaState.DISCONNECTED if self.has_been_whole else HaState.SYNCING, reason=reason)
        await self.replica.start()

    @property
    def has_been_whole(self) -> bool:
        """It finished a sync once, or was active itself."""
        return self.replica.progress().synced_once or self.held_record().served_epoch > 0

    # Serving, and not.

    async def serve(
        self,
        epoch: int,
        *,
        who: str,
        why: str,
        what: str,
        figures: str = "",
        holding: bool | None = None,
    ) -> None:
        """The record says so first; whoever dies behind it asks the peer when it starts again."""
        record = self.held_record()
        await self.note(
            who=who,
            why=why,
            what=what,
            figures=figures,
            role=HaRole.ACTIVE,
            epoch=epoch,
            served_epoch=epoch,
            history=self._new_id(),
            holding=record.holding if holding is None else holding,
        )
        await self.start_serving()
        await self._announce("Active", f"{what} under epoch {epoch}: {why}")

    async def claim_epoch(self, *, who: str, why: str, what: str, figures: str) -> None:
        """From now on the fence is open, and nobody else of the pair can raise the same epoch."""
        record = self.held_record()
        await self.note(
            who=who,
            why=why,
            what=what,
            figures=figures,
            role=HaRole.PROMOTING,
            epoch=record.next_epoch,
        )

    async def start_serving(self) -> None:
        record = self.held_record()
        await self.replica.adopt()
        await self.active.start(epoch=record.served_epoch, pair=record.pair, promoted=record.holding)
        await self.source.start(epoch=record.served_epoch, history=record.history)
        self.show(HaState.ACTIVE)

    async def stop_agents(self, reason: str) -> None:
        """Replicas are served on, until `source` stops."""
        self.show(HaState.DISCONNECTED, StateDetail.DEMOTING, reason)
        await self.active.stop(reason=f"not accepting connections in state {self.state}")

    async def start_agents(self) -> None:
        record = self.held_record()
        await self.active.start(epoch=record.served_epoch, pair=record.pair, promoted=record.holding)
        self.show(HaState.ACTIVE)

    async def stop_serving(self, reason: str) -> None:
        await self.stop_agents(reason)
        await self.source.stop()

    async def become_standby(
        self, *, who: str, why: str, what: str, peer: Handshake | None = None, step: str = ""
    ) -> None:
        record = self.held_record()
        await self.note(
            who=who,
            why=why,
            what=what,
            role=HaRole.STANDBY,
            step=step,
            peer=peer.principal if peer else record.peer,
            peer_epoch=max(record.peer_epoch, peer.epoch if peer else 0),
        )
        await self._announce("Standby", f"{what}, epoch {record.epoch}: {why}")

    async def note_peer(self, peer: Handshake) -> None:
        """A replica joins the pair of the first primary that it meets, and claims the epochs that it does not."""
        record = self.held_record()
        await self.note(
            who=OURSELVES,
            why=f"the peer is {peer.state}",
            what="met the peer",
            pair=record.pair or peer.pair,
            parity=1 - peer.parity if record.parity is None else record.parity,
            peer=peer.principal,
            peer_epoch=max(record.peer_epoch, peer.epoch),
        )

    async def note(self, *, who: str, why: str, what: str, **fields: Any) -> None:
        """Into the audit trail, with what else changes."""
        record = self.held_record()
        self.record = await self.records.change(
            record.changed(who=who, why=why, what=what, now=self.timing.now(), **fields)
        )

    def is_news(self, peer: Handshake) -> bool:
        """Something that the record does not know yet."""
        record = self.record
        if record is None:
            return False
        joins = not record.pair and peer.pair and peer.state is HaState.ACTIVE
        learns = (
            record.pair != ""
            and record.pair == peer.pair
            and (record.peer != peer.principal or record.peer_epoch < peer.epoch)
        )
        return bool(joins or learns)

    async def follow(self, detail: StateDetail, reason: str) -> None:
        self.show(HaState.DISCONNECTED, detail, reason)
        await self.replica.start()
