"""The controller of one principal of a pair: what it becomes when it starts, when its peer speaks, when an operator does.

One change of role at a time. Nothing becomes true before the record says so, but for one thing: whoever is shown
that another has served under a higher epoch stops at once and writes afterwards.
"""

import asyncio
from contextlib import suppress
from dataclasses import replace

from sidecars.replication.control.handover import HandoverToken, check_token, digest_of
from sidecars.replication.control.observer import TURN_SECONDS, PairObserver
from sidecars.replication.control.parts import ActivePart, ReplicaPart, SourcePart
from sidecars.replication.control.promotion import (
    RefusedRoleChangeError,
    Word,
    check_promotion,
    figures,
)
from sidecars.replication.control.role import OURSELVES
from sidecars.replication.control.start import Decision, PeerView, Start, decide
from sidecars.replication.handshake import Handshake
from sidecars.replication.metrics import FAILBACKS, FAILOVERS
from sidecars.replication.record import HaRole
from sidecars.replication.states import HaState, StateDetail
from tiphys import logs
from tiphys.errors import TiphysError

# Two actives that can reach each other find out within this.
ASK_INTERVAL_SECONDS = 5.0
FENCE_INTERVAL_SECONDS = 30.0
_RETRY_SECONDS = 1.0

log = logs.get_logger()


class HaController(PairObserver):
    """`run` belongs into a task group."""

    def attach(self, *, active: ActivePart, source: SourcePart, replica: ReplicaPart) -> None:
        """Before `run`: these know their controller too."""
        self.role.active, self.role.source, self.role.replica = active, source, replica

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            self.role.record = await self.role.records.read()
            await self.role.replica.load()
            async with self._turn:
                await self._decide(await self.ask())
            group.create_task(self._watch_peer(), name="peer")
            group.create_task(self._watch_fence(), name="fence")
            group.create_task(self._follow_what_is_heard(), name="role")

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
                role.record = await role.records.read() or role.record
        self.fence_due.set()
        await role.follow(StateDetail.NONE, reason)

    async def _watch_peer(self) -> None:
        while self._ask_peer is not None:
            self.peer_due.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(ASK_INTERVAL_SECONDS * self.timing.random.uniform(0.8, 1.2)):
                    await self.peer_due.wait()
            view = await self.ask()
            async with self._turn:
                await self._decide(view)
                await self._release_when_equal()

    async def _release_when_equal(self) -> None:
        """The old primary has followed to equal digests, and no agent has what neither of the two knows."""
        role, record = self.role, self.role.record
        if role.state is not HaState.ACTIVE or record is None or not record.holding:
            return
        # Where something is held, workloads depend on it: that is an operator's to decide.
        equal = any(
            each.digests_equal and all(each.digests_equal.values()) for each in role.source.replicas()
        )
        if equal and role.active.has_met_all and not role.active.held():
            with suppress(TiphysError):  # asked again with the next answer
                await self._release("", Word(who=OURSELVES, why="the replica has equal digests"))

    # The fence.

    async def _watch_fence(self) -> None:
        while True:
            if self.role.detail not in {StateDetail.PROMOTING, StateDetail.DEMOTING}:
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
        decision = decide(
            self.role.record,
            self.settings,
            view,
            principal=self.role.facts.principal,
            handed_over=self.handed_over(),
        )
        await self._apply(decision, peer=view.handshake if view else None)
        self.fence_due.set()

    async def _apply(self, decision: Decision, *, peer: Handshake | None) -> None:
        role, reason = self.role, decision.reason
        match decision.start:
            case Start.WAIT:
                role.show(HaState.RECOVERING, StateDetail.WAITING, reason)
            case Start.STANDBY:
                await role.start_standby(reason, peer=peer)
            case Start.ACTIVE:
                epoch = role.held_record().epoch
                await role.serve(epoch, who=OURSELVES, why=reason, what="started as active")
            case Start.BOOTSTRAP:
                await role.bootstrap(who=OURSELVES, why=reason)

    # An operator's words.

    async def promote(self, word: Word) -> HaState:
        role = self.role
        async with asyncio.timeout(TURN_SECONDS), self._turn:
            view, fence = await self.ask(), await self.check_fence()
            check_promotion(
                word,
                state=role.state,
                record=role.record,
                progress=role.replica.progress(),
                peer=view,
                fence=fence,
            )
            passive = HaState.DISCONNECTED if role.state is HaState.REPLICATING else role.state
            role.show(passive, StateDetail.PROMOTING, "promoted by an operator")
            try:
                await self._promote(word, fenced=fence.stands)
            except TiphysError:
                await self._take_back(word)
                raise
            FAILOVERS.inc()
            self.peer_due.set()  # whoever still serves hears of the epoch at once
            return role.state

    async def _promote(
        self, word: Word, *, fenced: bool, holding: bool = True, what: str = "promotion"
    ) -> None:
        role = self.role
        await role.replica.stop()
        standing = figures(role.replica.progress())
        why, what = word.why or "an operator's word", f"forced {what}" if word.force else what
        await role.claim_epoch(who=word.who, why=why, what=f"{what} begun", figures=standing)
        record = role.held_record()
        if fenced:
            self.fence_report = await self.fence.prove(record)
            if not self.fence_report.stands:
                raise RefusedRoleChangeError(f"promotion taken back: {self.fence_report.problem}")
        await role.serve(record.epoch, who=word.who, why=why, what=what, figures=standing, holding=holding)

    async def _take_back(self, word: Word) -> None:
        """Nobody was served: the epoch is spent, and nothing else has happened."""
        role = self.role
        role.record = await role.records.read() or role.record
        if role.held_record().role is HaRole.PROMOTING:
            await role.become_standby(who=word.who, why="the promotion failed", what="promotion taken back")
        if role.held_record().role is HaRole.STANDBY:
            role.show(role.state, reason="the promotion failed")
            await role.replica.start()

    async def take_over(self, token: HandoverToken, giver: Handshake) -> int:
        """The peer's word in a switchover: this replica has exactly what the peer had when it stopped."""
        role = self.role
        async with self.turn():
            if (
                role.state not in {HaState.REPLICATING, HaState.DISCONNECTED}
                or role.detail is not StateDetail.NONE
            ):
                raise RefusedRoleChangeError(f"only a replica takes over; this one is {role.state}")
            record, progress = role.held_record(), role.replica.progress()
            expected = replace(
                token,
                pair=record.pair,
                giver=giver.principal,
                taker=role.facts.principal,
                epoch=max(giver.epoch, record.peer_epoch),
                history=progress.history,
                sequence=progress.applied,
                digest=digest_of(role.source.digests()),
            )
            try:
                check_token(token, expected)
            except RefusedRoleChangeError as error:
                await role.note(who=giver.principal, why=str(error), what="token refused")
                raise
            word = Word(who=giver.principal, why=f"switchover, token {token.nonce[:8]}")
            role.show(HaState.DISCONNECTED, StateDetail.PROMOTING, "takes over from its peer")
            try:
                await self._promote(word, fenced=True, holding=False, what="switchover")
            except TiphysError as error:
                await self._take_back(word)
                raise RefusedRoleChangeError(str(error)) from error
            FAILOVERS.inc()
            return role.held_record().served_epoch

    async def demote(self, word: Word) -> HaState:
        role, why = self.role, word.why or "an operator's word"
        async with asyncio.timeout(TURN_SECONDS), self._turn:
            record = role.held_record()
            if role.state is HaState.RECOVERING and record.role is HaRole.PROMOTING:
                await role.start_standby("the promotion was taken back", peer=None)
                return role.state
            if role.state is not HaState.ACTIVE:
                raise RefusedRoleChangeError(f"can only demote from active; this one is {role.state}")
            await role.stop_serving(why)
            try:
                await role.become_standby(who=word.who, why=why, what="demoted")
            except TiphysError as error:
                log.warning("the demotion is undone: it cannot be recorded", **{logs.ERROR: str(error)})
                await role.start_serving()
                raise
            # Whoever is promoted next must not find writers here.
            self.fence_report = await self.fence.prove(role.held_record())
            await role.follow(StateDetail.NONE, why)
            FAILBACKS.inc()
            return role.state

    async def resume(self, word: Word, *, bootstrap: bool = False) -> HaState:
        """Only where this one waits for exactly that word."""
        role, why = self.role, word.why or "an operator's word"
        async with asyncio.timeout(TURN_SECONDS), self._turn:
            if (role.state, role.detail) != (HaState.RECOVERING, StateDetail.WAITING):
                raise RefusedRoleChangeError(f"nothing waits here: this principal is {role.state}")
            view, record = await self.ask(), role.record
            if view is not None and not view.problem and view.is_active:
                raise RefusedRoleChangeError("the peer is active: this one follows it by itself")
            if record is None:
                if not bootstrap:
                    raise RefusedRoleChangeError("there is no record yet: --bootstrap begins a new pair")
                await role.bootstrap(who=word.who, why=why)
                return role.state
            if bootstrap:
                raise RefusedRoleChangeError(
                    f"there is a record of epoch {record.epoch}: resume without --bootstrap"
                )
            if record.role is not HaRole.ACTIVE:
                raise RefusedRoleChangeError(role.reason)
            told = view.handshake if view else None
            if told is not None and told.epoch > record.served_epoch:
                raise RefusedRoleChangeError(
                    f"the peer has served under epoch {told.epoch}: promote one of the two"
                )
            await role.serve(record.epoch, who=word.who, why=why, what="resumed")
            return role.state

    async def accept_deletions(self, kind: str, word: Word) -> int:
        async with asyncio.timeout(TURN_SECONDS), self._turn:
            count = self.role.replica.accept_deletions(kind)
            await self.role.note(who=word.who, why=word.why, what=f"accepted {count} deletions of {kind}")
            return count

    async def release(self, agent: str, word: Word) -> int:
        async with asyncio.timeout(TURN_SECONDS), self._turn:
            if self.role.state is not HaState.ACTIVE:
                raise RefusedRoleChangeError(
                    f"only an active one holds objects; this one is {self.role.state}"
                )
            return await self._release(agent, word)

    async def _release(self, agent: str, word: Word) -> int:
        """The record first: a restart must not hold what was released, nor release what is held."""
        role = self.role
        whose = f"of {agent}" if agent else "of all agents"
        holding = role.held_record().holding and bool(agent)
        await role.note(who=word.who, why=word.why, what=f"released held objects {whose}", holding=holding)
        return role.active.release(agent)
