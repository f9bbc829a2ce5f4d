"""A switchover: the active one hands over to its replica, which lacks nothing then. Each step is in the record, and what
was done is undone where the replica cannot follow in time.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from sidecars.replication.control.controller import HaController
from sidecars.replication.control.handover import HandoverToken, digest_of
from sidecars.replication.control.promotion import RefusedRoleChangeError, UnknownOutcomeError, Word
from sidecars.replication.handshake import Handshake
from sidecars.replication.peer import PeerRefusedError, PeerUnreachableError
from sidecars.replication.primary.source import ReplicaStatus
from sidecars.replication.record import HandoverStep
from sidecars.replication.states import HaState
from tiphys import logs
from tiphys.errors import TiphysError

# For the replica to have everything once agents are stopped, fence included; else it is undone.
REACH_SECONDS = 60.0
# Of all steps where nothing lags: one to three on the machines that it was tried on.
USUAL_SECONDS = 2.0
# A peer that was given the token promotes itself within a few seconds, or says no.
TAKE_OVER_SECONDS = 60.0
# Where its answer was lost, to hear from it that it serves.
SEEN_SECONDS = 10.0
# To record that it is undone; nobody serves meanwhile.
UNDO_SECONDS = 20.0
RETRY_SECONDS = 1.0
# Of what came past the fence: it is named, not shown.
LATE_BYTES = 1 << 20
MOST_NAMED = 20
# More than it has steps: nobody waits for whoever listens.
MAX_LINES = 16

log = logs.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchoverParts:
    """`settled` returns when the caches know every write that was accepted. `give` hands the token to the peer and
    returns its epoch.
    """

    settled: Callable[[], Awaitable[None]]
    give: Callable[[HandoverToken], Awaitable[int]]
    new_nonce: Callable[[], str]


class Switchover:
    def __init__(self, controller: HaController, parts: SwitchoverParts) -> None:
        self._controller = controller
        self._parts = parts

    async def plan(self) -> list[str]:
        """What would happen; raises RefusedRoleChangeError where it cannot."""
        replica, peer = await self._checked()
        behind = f"{replica.lag_events} events, {replica.lag_bytes} bytes, {replica.lag_seconds:.1f} s behind"
        seconds = replica.lag_seconds + USUAL_SECONDS
        differing = sorted(kind for kind, equal in replica.digests_equal.items() if not equal)
        found = (
            f"the last comparison found differences in {', '.join(differing)}: where they stay, all is undone"
        )
        return [
            f"nobody serves agents for about {seconds:.0f} s",
            f"stop agents, write what they have told ({self._controller.role.active.connected} connected)",
            f"replica {replica.identity} reaches the last sequence: it is {behind}",
            *([found] if differing else []),
            "this cluster's fence closes: from then on nobody writes here",
            f"where the two take longer than {REACH_SECONDS:.0f} s, all is undone",
            f"{peer} promotes itself with a token for exactly this state; {TAKE_OVER_SECONDS:.0f} s at most",
            "this one follows",
        ]

    async def run(self, word: Word) -> AsyncIterator[str]:
        """A line per step. Whoever listens may leave: it goes on to its end, or to where it is undone."""
        lines: asyncio.Queue[str | None] = asyncio.Queue(MAX_LINES)
        change = self._controller.begin_change(self._run(word, lines.put_nowait), name="switchover")
        change.add_done_callback(lambda _: lines.put_nowait(None))
        while (line := await lines.get()) is not None:
            yield line
        if change.cancelled():
            raise UnknownOutcomeError(
                "this principal ended in the middle of it: its record decides when it starts"
            )
        change.result()

    async def _run(self, word: Word, tell: Callable[[str], None]) -> None:
        controller, role = self._controller, self._controller.role
        async with controller.turn():
            replica, peer = await self._checked()
            await role.note(who=word.who, why=word.why, what="switchover begun", step=HandoverStep.DRAINING)
            tell("agents are stopped, what they have told is being written")
            try:
                await role.stop_agents("a switchover")
                async with asyncio.timeout(REACH_SECONDS):
                    token = await self._closed(replica.identity, peer, word, tell)
            except (TiphysError, TimeoutError) as error:
                reason = str(error) or f"the replica did not have everything within {REACH_SECONDS:.0f} s"
                await self._undo(word, reason)
                raise RefusedRoleChangeError(f"all is undone: {reason}") from error
            tell(f"nobody writes here any more; sequence {token.sequence} is the last")
            epoch = await self._given(token, word)
            if late := self._late(token):
                log.error("written past the closed fence", **{logs.NAME: late})
                tell(f"past the closed fence came, and the peer lacks: {late}")
            await role.source.stop()
            try:
                await role.note(
                    who=word.who, why=word.why, what="switchover done", step=HandoverStep.NONE, token={}
                )
            except TiphysError as error:  # it is noted with the peer's epoch, when that is
                log.warning("the switchover is done, and not recorded yet", **{logs.ERROR: str(error)})
            await role.follow("handed over", handed_over=True)
            tell(f"the peer is active under epoch {epoch}; this one follows")

    async def _closed(
        self, identity: str, peer: str, word: Word, tell: Callable[[str], None]
    ) -> HandoverToken:
        """Nobody writes here any more, and the replica has everything."""
        controller, role = self._controller, self._controller.role
        await role.source.reached(identity)
        tell("the replica has everything")
        await role.become_standby(
            who=word.who, why=word.why, what="switchover: closed to writers", step=HandoverStep.FENCED
        )
        await controller.prove_fence()
        await self._parts.settled()
        await role.source.reached(identity)  # whatever is the last: nobody can write any more
        token = self._token(peer)
        await role.note(
            who=word.who,
            why=word.why,
            what="switchover: token given",
            step=HandoverStep.HANDING_OVER,
            token=token.plain(),
        )
        return token

    def _late(self, token: HandoverToken) -> str:
        """By an API server that had not heard of the fence yet: it is replaced when this one follows."""
        entries = self._controller.role.source.current_log().after(token.sequence, limit=LATE_BYTES)
        return ", ".join(f"{entry.key.kind} {entry.key.text}" for entry in entries[:MOST_NAMED])

    def _token(self, taker: str) -> HandoverToken:
        role, record = self._controller.role, self._controller.role.held_record()
        return HandoverToken(
            nonce=self._parts.new_nonce(),
            pair=record.pair,
            epoch=record.served_epoch,
            giver=record.principal,
            taker=taker,
            history=record.history,
            sequence=role.source.last_sequence,
            digest=digest_of(role.source.digests()),
            holding=record.holding,
            released=record.released,
        )

    async def _given(self, token: HandoverToken, word: Word) -> int:
        """Refused: all is undone. No answer: it may have been taken, so this one stays a standby whatever happens."""
        try:
            async with asyncio.timeout(TAKE_OVER_SECONDS):
                return await self._parts.give(token)
        except PeerRefusedError as error:
            await self._undo(word, str(error))
            raise RefusedRoleChangeError(f"the peer refused, and all is undone: {error}") from error
        except (PeerUnreachableError, TimeoutError) as error:
            log.warning("the peer was given the token", **{logs.ERROR: logs.describe(error)})
            epoch = await self._seen(token.epoch)
            if epoch is not None:
                return epoch
            role = self._controller.role
            await role.source.stop()
            await role.follow("the peer was given the token and has not answered", handed_over=True)
            raise UnknownOutcomeError(
                "the peer was given the token and has not answered: this one is a standby now. Look at both sides;"
                " promote one of them"
            ) from error

    async def _seen(self, given: int) -> int | None:
        """The epoch under which the peer says that it serves, where it says so soon: only an answer was lost then."""
        with suppress(TimeoutError):
            async with asyncio.timeout(SEEN_SECONDS):
                while True:
                    view = await self._controller.ask()
                    told = view.handshake if view else None
                    if told is not None and told.state is HaState.ACTIVE and told.epoch > given:
                        return told.epoch
                    await asyncio.sleep(RETRY_SECONDS)
        return None

    async def _undo(self, word: Word, reason: str) -> None:
        """The peer serves by no token of this one. What cannot be recorded in time is settled later, by the record."""
        controller, role = self._controller, self._controller.role
        log.warning("the switchover is undone", **{logs.REASON: reason})
        until = asyncio.get_running_loop().time() + UNDO_SECONDS
        while True:
            try:
                # What was written last may have arrived without an answer.
                role.record = await role.records.read() or role.record
                view = await controller.ask()
                if view is None or not self._is_passed(view.handshake):
                    await role.serve_on(who=word.who, why=reason, what="switchover undone")
                    return
                break
            except TiphysError as error:
                if asyncio.get_running_loop().time() >= until:
                    raise UnknownOutcomeError(
                        f"{reason}; and it is not undone yet, which goes on: {error}. Look at `tiphys ha status`"
                    ) from error
                log.warning("the switchover cannot be undone yet", **{logs.ERROR: str(error)})
            await asyncio.sleep(RETRY_SECONDS)
        raise UnknownOutcomeError(f"{reason}; and the peer was promoted meanwhile: this one will follow it")

    def _is_passed(self, peer: Handshake | None) -> bool:
        return peer is not None and peer.epoch > self._controller.role.held_record().served_epoch

    async def _checked(self) -> tuple[ReplicaStatus, str]:
        """The peer is whoever answers at its address, not any replica that was heard."""
        controller, role = self._controller, self._controller.role
        if role.state is not HaState.ACTIVE:
            raise RefusedRoleChangeError(f"a switchover begins where it is active; this one is {role.state}")
        view = await controller.ask()
        if view is None or view.problem:
            words = view.problem if view else "no peer is configured"
            raise RefusedRoleChangeError(f"the peer cannot be asked: {words}")
        if view.handshake is None:
            raise RefusedRoleChangeError(
                "the peer is argocd-agent's, which takes no token: `tiphys ha demote` here, then"
                " `argocd-agentctl ha promote` there"
            )
        if view.handshake.state is not HaState.REPLICATING:
            raise RefusedRoleChangeError(f"the peer is {view.handshake.state}, not replicating")
        peer = view.handshake.principal
        replica = next((each for each in role.source.replicas() if each.principal == peer), None)
        if replica is None:
            raise RefusedRoleChangeError("no replica is connected: the peer has no stream from here")
        if any(replica.held_deletions.values()):
            held = ", ".join(f"{count} {kind}" for kind, count in sorted(replica.held_deletions.items()))
            raise RefusedRoleChangeError(
                f"the replica holds deletions back, {held}: `tiphys ha accept-deletions` there"
            )
        if not controller.fence_report.stands:
            raise RefusedRoleChangeError(f"this cluster is not fenced: {controller.fence_report.problem}")
        return replica, peer
