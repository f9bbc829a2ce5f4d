"""The controller of one principal of a pair: what it becomes when it starts, when its peer speaks, when an operator does.

One change of role at a time. Nothing becomes true before the record says so, but for one thing: whoever is shown
that another has served under a higher epoch stops at once and writes afterwards.
"""

import asyncio
from contextlib import suppress

from sidecars.replication.control.changes import RoleChanges
from sidecars.replication.control.parts import ActivePart, ReplicaPart, SourcePart
from sidecars.replication.control.promotion import Word
from sidecars.replication.control.role import OURSELVES
from sidecars.replication.control.start import Decision, PeerView, Start, decide
from sidecars.replication.handshake import Handshake
from sidecars.replication.record import HaRole, RecordChangedError
from sidecars.replication.states import HaState, StateDetail
from tiphys import logs
from tiphys.errors import TiphysError

# Two actives that can reach each other find out within this.
ASK_INTERVAL_SECONDS = 5.0
FENCE_INTERVAL_SECONDS = 30.0
_RETRY_SECONDS = 1.0
_UNFINISHED = {StateDetail.PROMOTING, StateDetail.DEMOTING}

log = logs.get_logger()


class HaController(RoleChanges):
    """`run` belongs into a task group."""

    def attach(self, *, active: ActivePart, source: SourcePart, replica: ReplicaPart) -> None:
        """Before `run`: these know their controller too."""
        self.role.active, self.role.source, self.role.replica = active, source, replica

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                self.role.record = await self.role.records.read()
                await self.role.replica.load()
                group.create_task(self._watch_peer(), name="peer")
                group.create_task(self._watch_fence(), name="fence")
                group.create_task(self._follow_what_is_heard(), name="role")
        finally:
            await self.end_change()

    async def _follow_what_is_heard(self) -> None:
        while True:
            await self.something_heard.wait()
            self.something_heard.clear()
            try:
                async with self._turn:
                    await self._decide(self.view)
                    await self._note_peer()
            except TiphysError as error:
                log.warning("what the peer said is not recorded yet", **{logs.ERROR: str(error)})
                await asyncio.sleep(_RETRY_SECONDS)
                self.something_heard.set()

    async def _note_peer(self) -> None:
        role, theirs = self.role, self.view.handshake if self.view else None
        if theirs is None or not role.is_news(theirs):
            return
        if role.state is HaState.ACTIVE and theirs.epoch > role.held_record().served_epoch:
            if self.safeguards.steps_down:
                await self._step_down(theirs)
        else:
            await role.note_peer(theirs)

    async def _step_down(self, theirs: Handshake) -> None:
        """It stops first: what it would write now is what the higher epoch was raised against."""
        role = self.role
        served = role.held_record().served_epoch
        reason = f"the peer has served under epoch {theirs.epoch}, this one under {served}"
        log.error("another principal was promoted: stepping down", **{logs.REASON: reason})
        await role.stop_serving(reason)
        while True:
            try:
                await role.become_standby(who=OURSELVES, why=reason, what="stepped down", peer=theirs)
                break
            except TiphysError as error:
                log.warning("stepped down, and cannot record it yet", **{logs.ERROR: str(error)})
            await asyncio.sleep(_RETRY_SECONDS)
            with suppress(TiphysError):  # told with the next attempt
                role.record = await role.records.read() or role.record
        self.fence_due.set()
        await role.follow(reason)

    async def _watch_peer(self) -> None:
        replaced = False
        while True:
            self.peer_due.clear()
            view = await self.ask()
            async with self._turn:
                try:
                    replaced = await self._is_replaced()
                    await self._decide(view)
                    await self._settle()
                except TiphysError as error:  # a record that cannot be written now, for instance
                    log.warning("what this principal is cannot be settled yet", **{logs.ERROR: str(error)})
                await self._release_when_equal()
            if replaced:
                raise RecordChangedError(
                    f"{self.role.records.where} was changed by somebody else: it decides anew"
                )
            with suppress(TimeoutError):
                async with asyncio.timeout(ASK_INTERVAL_SECONDS * self.timing.random.uniform(0.8, 1.2)):
                    await self.peer_due.wait()

    async def _is_replaced(self) -> bool:
        """By another replica, whose write was on its way when it lost the Lease, or by hand. A first one may be our own,
        whose answer was lost.
        """
        role, known = self.role, self.role.record
        stored = await role.records.read()
        if stored is None or (known is not None and stored.version == known.version):
            return False
        role.record = stored
        if known is None or role.state is HaState.RECOVERING or role.detail in _UNFINISHED:
            return False  # it decides what comes next
        return any(getattr(stored, part) != getattr(known, part) for part in ("role", "epoch", "history"))

    async def _settle(self) -> None:
        """Nobody is at work on a change of role any more, and one has ended in its middle: the record decides, with the
        peer's word where it was a switchover that gave no token.
        """
        role = self.role
        if role.detail not in _UNFINISHED:
            return
        role.record = await role.records.read() or role.record
        record, why = role.held_record(), "a change of role ended in its middle"
        if record.gave_no_token:
            decision = self._decision(await self.ask())
            if decision.start is Start.ACTIVE:
                await role.serve_on(who=OURSELVES, why=decision.reason, what="switchover undone")
                return
            if decision.start is Start.WAIT:
                role.reason = decision.reason
                return
        theirs = self.view.handshake if self.view else None
        if record.role is HaRole.ACTIVE and record.served_epoch > max(
            record.peer_epoch, theirs.epoch if theirs else 0
        ):
            # Recorded anew: a write whose answer was lost must not arrive any more.
            what = "finished as active" if role.source.current_log() is None else "stays active"
            await role.serve_on(who=OURSELVES, why=why, what=what)
            return
        if record.role is not HaRole.STANDBY:
            await role.become_standby(who=OURSELVES, why=why, what="taken back")
        await role.source.stop()
        await role.follow(why)

    async def _release_when_equal(self) -> None:
        """The old primary has followed to equal digests, and no agent has what neither of the two knows. Of one that neither
        knows, and that may come yet, this says nothing.
        """
        role, record = self.role, self.role.record
        if role.state is not HaState.ACTIVE or record is None or not record.holding:
            return
        # Where something is held, workloads depend on it: that is an operator's to decide.
        equal = any(
            each.digests_equal and all(each.digests_equal.values()) for each in role.source.replicas()
        )
        if not equal or role.active.held():
            return
        agents = [agent for agent in role.active.met() if agent not in record.released]
        if agents:
            with suppress(TiphysError):  # asked again with the next answer
                await self._release(agents, Word(who=OURSELVES, why="the replica has equal digests"))

    # The fence.

    async def _watch_fence(self) -> None:
        while True:
            if self.role.detail not in _UNFINISHED:
                await self.check_fence()
            self.fence_due.clear()
            try:
                async with asyncio.timeout(FENCE_INTERVAL_SECONDS):
                    await self.fence_due.wait()
            except TimeoutError:
                continue

    # Starting.

    async def _decide(self, view: PeerView | None) -> None:
        if self.role.state is not HaState.RECOVERING:
            return
        await self._apply(self._decision(view), peer=view.handshake if view else None)
        self.fence_due.set()

    def _decision(self, view: PeerView | None) -> Decision:
        return decide(
            self.role.record,
            self.settings,
            view if self.safeguards.asks_peer else None,
            principal=self.role.facts.principal,
            handed_over=self.handed_over(),
            waits_when_interrupted=self.safeguards.waits_when_interrupted,
        )

    async def _apply(self, decision: Decision, *, peer: Handshake | None) -> None:
        role, reason = self.role, decision.reason
        match decision.start:
            case Start.WAIT:
                role.show(HaState.RECOVERING, StateDetail.WAITING, reason)
            case Start.STANDBY:
                await role.start_standby(reason, peer=peer)
            case Start.ACTIVE:
                record = role.held_record()
                what = "switchover undone" if record.gave_no_token else "started as active"
                await role.serve(record.epoch, who=OURSELVES, why=reason, what=what)
            case Start.BOOTSTRAP:
                await role.bootstrap(who=OURSELVES, why=reason)
