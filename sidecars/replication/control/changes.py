"""Changes of role, and who asks for them: an operator, or the peer that hands over. One at a time."""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from kube.errors import UnavailableError
from sidecars.replication.control.handover import NOT_THE_PEER, HandoverToken, check_token, digest_of
from sidecars.replication.control.observer import NOTED_REFUSALS, TURN_SECONDS, PairObserver
from sidecars.replication.control.promotion import (
    RefusedRoleChangeError,
    UnknownOutcomeError,
    Word,
    check_promotion,
    check_standing,
    figures,
    serves,
)
from sidecars.replication.handshake import Handshake
from sidecars.replication.kinds import kind_called
from sidecars.replication.metrics import FAILBACKS, FAILOVERS
from sidecars.replication.record import MAX_TEXT, MOST_RELEASED, HaRole, RecordChangedError
from sidecars.replication.standby.follower import NOT_COMPARED
from sidecars.replication.states import HaState, StateDetail
from tiphys import logs
from tiphys.errors import TiphysError

NOTED_WITHIN_SECONDS = 60.0
# Whoever is refused waits for it.
NOTE_SECONDS = 5.0

log = logs.get_logger()

T = TypeVar("T")


class RoleChanges(PairObserver):
    # One that outlives whoever asked for it.

    def begin_change(self, change: Coroutine[Any, Any, T], *, name: str) -> "asyncio.Task[T]":
        """It belongs to this principal: whoever asked for it may leave, and it goes on to its end."""
        if self._change is not None:
            change.close()
            raise RefusedRoleChangeError(f"a {self._change.get_name()} is under way here")
        task = asyncio.get_running_loop().create_task(change, name=name)
        self._change = task
        task.add_done_callback(self._change_ended)
        return task

    def _change_ended(self, task: "asyncio.Task[Any]") -> None:
        self._change = None
        if not task.cancelled() and (error := task.exception()) is not None:
            words = {logs.OPERATION: task.get_name(), logs.ERROR: logs.describe(error)}
            log.warning("a change of role failed", **words)

    async def end_change(self) -> None:
        """With the process: the record tells how far it came."""
        if self._change is not None:
            self._change.cancel()
            await asyncio.wait({self._change})

    # An operator's words.

    async def promote(self, word: Word) -> HaState:
        role = self.role
        async with asyncio.timeout(TURN_SECONDS), self._turn:
            view, fence = await self.ask(), await self.check_fence()
            judged = word if self.safeguards.checks_promotion else replace(word, force=True)
            check_promotion(
                judged,
                state=role.state,
                record=role.record,
                progress=role.replica.progress(),
                peer=view,
                fence=fence,
            )
            passive = HaState.DISCONNECTED if role.state is HaState.REPLICATING else role.state
            role.show(passive, StateDetail.PROMOTING, "promoted by an operator")
            try:
                if self.safeguards.stops_following:
                    await role.replica.stop()
                    check_standing(judged, record=role.held_record(), progress=role.replica.progress())
                await self._promote(word, fenced=fence.stands)
            except TiphysError as error:
                await self._take_back(word, error)
                raise
            FAILOVERS.inc()
            self.peer_due.set()  # whoever still serves hears of the epoch at once
            return role.state

    async def _promote(
        self,
        word: Word,
        *,
        fenced: bool,
        holding: bool = True,
        released: tuple[str, ...] = (),
        what: str = "promotion",
        begun: str = "promotion begun",
    ) -> None:
        role = self.role
        if self.safeguards.stops_following:
            await role.replica.stop()
        standing = figures(role.replica.progress())
        why, forced = word.why or "an operator's word", "forced " if word.force else ""
        await role.claim_epoch(who=word.who, why=why, what=f"{forced}{begun}", figures=standing)
        record = role.held_record()
        if fenced:
            self.fence_report = await self.fence.prove(record)
            if not self.fence_report.stands:
                raise RefusedRoleChangeError(f"promotion taken back: {self.fence_report.problem}")
        await role.serve(
            record.epoch,
            who=word.who,
            why=why,
            what=f"{forced}{what}",
            figures=standing,
            holding=holding,
            released=released,
        )

    async def _take_back(self, word: Word, error: TiphysError) -> None:
        """Nobody was served: the epoch is spent, and nothing else has happened. Raises UnknownOutcomeError where the
        record does not say so: then it, and not whoever asked, decides.
        """
        role = self.role
        try:
            role.record = await role.records.read() or role.record
            if role.held_record().role is HaRole.PROMOTING:
                await role.become_standby(
                    who=word.who, why="the promotion failed", what="promotion taken back"
                )
        except TiphysError as unknown:
            raise UnknownOutcomeError(
                f"{error}; and whether it was taken back is not known: {unknown}"
            ) from unknown
        if role.held_record().role is not HaRole.STANDBY:
            raise UnknownOutcomeError(f"{error}; but the record says {role.held_record().role}") from error
        await role.follow("the promotion failed")

    # The peer's word in a switchover.

    async def take_over(self, token: HandoverToken, giver: Handshake) -> int:
        """This replica has exactly what the peer had when it stopped. Refused means that nobody serves by this token:
        whoever gave it does again. UnknownOutcomeError is raised wherever that is not certain.
        """
        if self._change is not None:
            raise UnknownOutcomeError(f"a {self._change.get_name()} is under way here")
        taking = self.begin_change(self._take_over(token, giver), name="take-over")
        try:
            await asyncio.wait({taking})
            if taking.cancelled():
                raise UnknownOutcomeError("this principal ended meanwhile")
            return taking.result()
        except RefusedRoleChangeError as error:
            await self.note_refusal(who=giver.principal, why=str(error))
            raise

    async def _take_over(self, token: HandoverToken, giver: Handshake) -> int:
        role = self.role
        async with asyncio.timeout(TURN_SECONDS), self.turn():
            if role.state is HaState.ACTIVE or role.detail is StateDetail.PROMOTING:
                # Of this very token, it may be.
                raise UnknownOutcomeError("this principal is active, or on its way to be")
            if (
                role.state not in {HaState.REPLICATING, HaState.DISCONNECTED}
                or role.detail is not StateDetail.NONE
            ):
                raise RefusedRoleChangeError(f"only a replica takes over; this one is {role.state}")
            if self.safeguards.checks_token:
                self._check_token(token, giver)
            word = Word(who=giver.principal, why=f"switchover, token {token.nonce[:8]}")
            role.show(HaState.DISCONNECTED, StateDetail.PROMOTING, "takes over from its peer")
            try:
                await self._promote(
                    word,
                    fenced=True,
                    holding=token.holding,
                    released=token.released,
                    what="switchover",
                    begun="switchover: epoch claimed",
                )
            except TiphysError as error:
                await self._take_back(word, error)
                raise RefusedRoleChangeError(str(error)) from error
            FAILOVERS.inc()
            return role.held_record().served_epoch

    def _check_token(self, token: HandoverToken, giver: Handshake) -> None:
        """By what this principal knows itself; who calls says no more than who it is and that it serves no longer."""
        role, record, progress = self.role, self.role.held_record(), self.role.replica.progress()
        if giver.principal != record.peer:
            raise RefusedRoleChangeError(NOT_THE_PEER)
        if giver.state is HaState.ACTIVE:
            raise RefusedRoleChangeError("the token is refused: whoever shows it is active")
        expected = replace(
            token,
            pair=record.pair,
            giver=record.peer,
            taker=role.facts.principal,
            epoch=max(giver.epoch, record.peer_epoch),
            history=progress.history,
            sequence=progress.applied,
            digest=digest_of(role.source.digests()),
        )
        check_token(token, expected)

    async def note_refusal(self, *, who: str, why: str) -> None:
        """Of a token, in the audit trail. Of many in a short time the next one that is noted says how many."""
        now = self.timing.monotonic()
        self._refused += 1
        if len(self._noted) == NOTED_REFUSALS and now - self._noted[0] < NOTED_WITHIN_SECONDS:
            return
        self._noted.append(now)
        times, self._refused = self._refused, 0
        log.warning("a token is refused", **{logs.PEER: who, logs.REASON: why})
        try:
            async with asyncio.timeout(NOTE_SECONDS), self._turn:
                await self.role.note_refusal(who=who, why=why, times=times)
        except (TiphysError, TimeoutError) as error:  # refused it is all the same
            log.warning("a refused token is not in the record", **{logs.ERROR: logs.describe(error)})

    # An operator's words, further.

    async def demote(self, word: Word) -> HaState:
        role, why = self.role, word.why or "an operator's word"
        async with asyncio.timeout(TURN_SECONDS), self._turn:
            record = role.held_record()
            if role.state is HaState.RECOVERING and record.role is HaRole.PROMOTING:
                await role.start_standby("the promotion was taken back", peer=None)
                return role.state
            if role.state is not HaState.ACTIVE:
                raise RefusedRoleChangeError(f"can only demote from active; this one is {role.state}")
            await role.stop_agents(why)
            try:
                await role.become_standby(who=word.who, why=why, what="demoted")
            except TiphysError as error:
                # Where something was recorded, or may have been, the record is asked as soon as it can be.
                unknown = isinstance(error, UnavailableError) and error.outcome_unknown
                if not (unknown or isinstance(error, RecordChangedError)):
                    log.warning("the demotion is undone: it cannot be recorded", **{logs.ERROR: str(error)})
                    await role.start_agents()
                self.peer_due.set()
                raise
            await role.source.stop()
            # Whoever is promoted next must not find writers here.
            self.fence_report = await self.fence.prove(role.held_record())
            await role.follow(why)
            FAILBACKS.inc()
            return role.state

    async def resume(self, word: Word, *, bootstrap: bool = False) -> HaState:
        """Only where this one waits for exactly that word."""
        role, why = self.role, word.why or "an operator's word"
        async with asyncio.timeout(TURN_SECONDS), self._turn:
            if (role.state, role.detail) != (HaState.RECOVERING, StateDetail.WAITING):
                raise RefusedRoleChangeError(f"nothing waits here: this principal is {role.state}")
            view, record = await self.ask(), role.record
            if serves(view, record):
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
            if record.role is not HaRole.ACTIVE and not record.gave_no_token:
                raise RefusedRoleChangeError(role.reason)
            told = view.handshake if view else None
            if told is not None and told.epoch > record.served_epoch:
                raise RefusedRoleChangeError(
                    f"the peer has served under epoch {told.epoch}: promote one of the two"
                )
            await role.serve(record.epoch, who=word.who, why=why, what="resumed")
            return role.state

    async def accept_deletions(self, kind: str, word: Word) -> int:
        """The record first: nothing is deleted that nobody is known to have accepted."""
        async with asyncio.timeout(TURN_SECONDS), self._turn:
            name = kind_called(kind).name
            progress = self.role.replica.progress()
            if not progress.connected:
                raise RefusedRoleChangeError(NOT_COMPARED)
            what = f"accepted {progress.held_deletions.get(name, 0)} deletions of {name}"
            await self.role.note(who=word.who, why=word.why, what=what)
            await self.role.announce("DeletionsAccepted", f"{word.who} {what}: {word.why}")
            return self.role.replica.accept_deletions(name)

    async def release(self, agent: str, word: Word) -> int:
        async with asyncio.timeout(TURN_SECONDS), self._turn:
            if self.role.state is not HaState.ACTIVE:
                raise RefusedRoleChangeError(
                    f"only an active one holds objects; this one is {self.role.state}"
                )
            if len(agent) > MAX_TEXT:
                raise RefusedRoleChangeError("no agent has a name of that length")
            return await self._release([agent] if agent else [], word)

    async def _release(self, agents: Sequence[str], word: Word) -> int:
        """None named: of all. The record first: a restart must not hold what was released, nor release what is held."""
        role = self.role
        whose = f"of {len(agents) or 'all'} agents" if len(agents) != 1 else f"of {agents[0]}"
        record = role.held_record()
        holding = record.holding and bool(agents)
        released = tuple(dict.fromkeys((*record.released, *agents))) if holding else ()
        if len(released) > MOST_RELEASED:
            raise RefusedRoleChangeError(
                f"{MOST_RELEASED} agents were released one by one: release all of them, without --agent"
            )
        what = f"released held objects {whose}"
        await role.note(who=word.who, why=word.why, what=what, holding=holding, released=released)
        await role.announce("HeldObjectsReleased", f"{word.who} released held objects {whose}: {word.why}")
        return sum(role.active.release(agent) for agent in agents or ("",))
