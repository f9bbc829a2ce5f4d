"""What one principal of a pair is, and the steps between: each writes the record first and acts afterwards."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from sidecars.delivery.timing import Timing
from sidecars.process.serving_gate import ServingGate
from sidecars.replication.control.parts import ActivePart, PrincipalFacts, ReplicaPart, SourcePart
from sidecars.replication.control.promotion import RefusedRoleChangeError
from sidecars.replication.handshake import Handshake
from sidecars.replication.metrics import EPOCH, STATE, TRANSITIONS
from sidecars.replication.record import HandoverStep, HaRecord, HaRole, RecordStore
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
        self.announce = announce
        self.state, self.detail = HaState.RECOVERING, StateDetail.NONE
        self.reason = "starting"
        self.record: HaRecord | None = None
        gate.state = self.state.value
        for each in HaState:
            STATE.labels(
                each.value
            )  # there from the start: "nobody is active" is a sum of zeros, not of nothing
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
        await self.announce("Active", f"first active of a pair: {why}")

    async def start_standby(self, reason: str, *, peer: Handshake | None) -> None:
        if self.record is None:
            first = HaRecord(
                pair="",
                principal=self.facts.principal,
                role=HaRole.STANDBY,
                epoch=0,
                peer_address=self.facts.peer_address,
            )
            self.record = await self.records.create(
                first.changed(who=OURSELVES, why=reason, what="first start as replica", now=self.timing.now())
            )
            await self.announce("Standby", f"first start as replica: {reason}")
        elif self.record.role is not HaRole.STANDBY:
            await self.become_standby(who=OURSELVES, why=reason, what="restarted as standby", peer=peer)
        await self.follow(reason)

    @property
    def has_been_whole(self) -> bool:
        """It finished a sync once, or was active itself."""
        return self.replica.progress().synced_once or self.held_record().served_epoch > 0

    def is_passed(self, peer: Handshake | None = None) -> bool:
        """It has served, and another has served since: by the record, or as the peer says."""
        record = self.held_record()
        told = peer.epoch if peer is not None and peer.pair == record.pair else 0
        return 0 < record.served_epoch < max(record.peer_epoch, told)

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
        released: tuple[str, ...] = (),
    ) -> None:
        """The record says so first; whoever dies behind it asks the peer when it starts again. `holding` is told where
        another one served until now, and what that had released.
        """
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
            released=record.released if holding is None else released,
            step=HandoverStep.NONE,
            token={},
        )
        await self.start_serving(promoted=holding is not None)
        await self.announce("Active", f"{what} under epoch {epoch}: {why}")

    async def serve_on(self, *, who: str, why: str, what: str) -> None:
        """As before a change of role that came to nothing: replicas go on where they are."""
        record = self.held_record()
        if self.source.current_log() is None:
            await self.serve(record.served_epoch, who=who, why=why, what=what)
            return
        await self.note(who=who, why=why, what=what, role=HaRole.ACTIVE, step=HandoverStep.NONE, token={})
        await self.announce("Active", f"{what}: {why}")
        await self.start_agents()

    async def claim_epoch(self, *, who: str, why: str, what: str, figures: str) -> None:
        """From now on nobody else of the pair can raise the same epoch. Whoever followed
        argocd-agent's primary has no pair yet, and begins one.
        """
        record = self.held_record()
        if not record.pair:
            record = replace(record, pair=self._new_id(), parity=1)
        await self.note(
            who=who,
            why=why,
            what=what,
            figures=figures,
            role=HaRole.PROMOTING,
            pair=record.pair,
            parity=record.parity,
            epoch=record.next_epoch,
        )

    async def start_serving(self, *, promoted: bool = False) -> None:
        record = self.held_record()
        await self.replica.adopt()
        await self._start_active(record, promoted=promoted)
        await self.source.start(epoch=record.served_epoch, history=record.history)
        self.show(HaState.ACTIVE)

    async def stop_agents(self, reason: str) -> None:
        """Replicas are served on, until `source` stops."""
        self.show(HaState.DISCONNECTED, StateDetail.DEMOTING, reason)
        await self.replica.stop()  # what a promotion began may still be at work
        await self.active.stop(reason=f"not accepting connections in state {self.state}")

    async def start_agents(self) -> None:
        await self.replica.adopt()
        await self._start_active(self.held_record())
        self.show(HaState.ACTIVE)

    async def _start_active(self, record: HaRecord, *, promoted: bool = False) -> None:
        await self.active.start(
            epoch=record.served_epoch, pair=record.pair, promoted=promoted or record.holding
        )
        for agent in record.released if record.holding else ("",):
            self.active.release(agent)

    async def stop_serving(self, reason: str) -> None:
        await self.stop_agents(reason)
        await self.source.stop()

    async def become_standby(
        self,
        *,
        who: str,
        why: str,
        what: str,
        peer: Handshake | None = None,
        step: HandoverStep = HandoverStep.NONE,
    ) -> None:
        record = self.held_record()
        await self.note(
            who=who,
            why=why,
            what=what,
            role=HaRole.STANDBY,
            step=step,
            token={},
            peer=peer.principal if peer else record.peer,
            peer_address=self.facts.peer_address,
            peer_epoch=max(record.peer_epoch, peer.epoch if peer else 0),
        )
        await self.announce("Standby", f"{what}, epoch {record.epoch}: {why}")

    async def note_peer(self, peer: Handshake) -> None:
        """A replica joins the pair of the first primary that it meets, and claims the epochs that it does not."""
        record = self.held_record()
        # A switchover from here was taken, whether or not the answer came.
        ended = {"step": HandoverStep.NONE, "token": {}} if peer.epoch > record.served_epoch else {}
        await self.note(
            who=OURSELVES,
            why=f"the peer is {peer.state}",
            what="met the peer",
            pair=record.pair or peer.pair,
            parity=1 - peer.parity if record.parity is None else record.parity,
            peer=peer.principal,
            peer_address=self.facts.peer_address,
            peer_epoch=max(record.peer_epoch, peer.epoch),
            **ended,
        )

    async def note(self, *, who: str, why: str, what: str, **fields: Any) -> None:
        """Into the audit trail, with what else changes."""
        record = self.held_record()
        self.record = await self.records.change(
            record.changed(who=who, why=why, what=what, now=self.timing.now(), **fields)
        )

    async def note_refusal(self, *, who: str, why: str, times: int) -> None:
        """Of a token; nothing else changes."""
        record = self.held_record()
        self.record = await self.records.change(
            record.refused(who=who, why=why, now=self.timing.now(), times=times)
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

    async def follow(self, reason: str, *, handed_over: bool = False) -> None:
        """The peer, once that is active. `handed_over`: that had everything."""
        state = HaState.DISCONNECTED if self.has_been_whole else HaState.SYNCING
        is_known = handed_over or self.replica.progress().is_equal
        may_have_surplus = self.held_record().served_epoch > 0 and not is_known
        diverged = may_have_surplus and self.is_passed()
        self.show(state, StateDetail.DIVERGED if diverged else StateDetail.NONE, reason)
        await self.replica.start(may_have_surplus=may_have_surplus)
