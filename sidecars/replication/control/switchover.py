"""A switchover: the active one hands over to its replica, which lacks nothing then. Each step is in the record, and what
was done is undone where the replica cannot follow in time.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict, dataclass

from sidecars.replication.control.controller import HaController
from sidecars.replication.control.handover import HandoverToken, digest_of
from sidecars.replication.control.promotion import RefusedRoleChangeError, Word
from sidecars.replication.peer import PeerRefusedError, PeerUnreachableError
from sidecars.replication.primary.source import ReplicaStatus
from sidecars.replication.record import HaRole
from sidecars.replication.states import HaState, StateDetail
from tiphys import logs
from tiphys.errors import TiphysError

# For the replica to have everything; else it is undone.
REACH_SECONDS = 60.0
# A peer that was given the token promotes itself within a few seconds, or says no.
TAKE_OVER_SECONDS = 60.0

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

    def plan(self) -> list[str]:
        """What would happen; raises RefusedRoleChangeError where it cannot."""
        replica, peer = self._checked()
        behind = f"{replica.lag_events} events, {replica.lag_bytes} bytes, {replica.lag_seconds:.1f} s behind"
        return [
            f"stop agents, write what they have told ({self._controller.role.active.connected} connected)",
            f"replica {replica.identity} reaches the last sequence: it is {behind}",
            "this cluster's fence closes: from then on nobody writes here",
            f"{peer} promotes itself with a token for exactly this state",
            "this one follows",
        ]

    async def run(self, word: Word) -> AsyncIterator[str]:
        """A line per step."""
        controller, role = self._controller, self._controller.role
        async with controller.turn():
            replica, peer = self._checked()
            yield "agents are stopped, what they have told is being written"
            await role.note(who=word.who, why=word.why, what="switchover begun", step="draining")
            await role.stop_agents("a switchover")
            try:
                await self._reached(replica.identity)
                yield "the replica has everything"
                await role.become_standby(
                    who=word.who, why=word.why, what="switchover: closed to writers", step="fenced"
                )
                await controller.prove_fence()
                await self._parts.settled()
                await self._reached(replica.identity)
                token = self._token(peer)
                await role.note(
                    who=word.who,
                    why=word.why,
                    what="switchover: token given",
                    step="handing over",
                    token=asdict(token),
                )
                yield f"nobody writes here any more; sequence {token.sequence} is the last"
            except (TiphysError, TimeoutError) as error:
                await self._undo(word, str(error) or "the replica did not get there in time")
                raise
            epoch = await self._given(token, word)
            await role.source.stop()
            await role.note(who=word.who, why=word.why, what="switchover done", step="", token={})
            await role.follow(StateDetail.NONE, "handed over")
            yield f"the peer is active under epoch {epoch}; this one follows"

    async def _reached(self, identity: str) -> None:
        async with asyncio.timeout(REACH_SECONDS):
            await self._controller.role.source.reached(identity)

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
            role = self._controller.role
            await role.source.stop()
            await role.follow(StateDetail.NONE, "the peer was given the token and has not answered")
            raise RefusedRoleChangeError(
                "the peer was given the token and has not answered: this one is a standby now. Look at both sides;"
                " promote one of them"
            ) from error

    async def _undo(self, word: Word, reason: str) -> None:
        role = self._controller.role
        log.warning("the switchover is undone", **{logs.REASON: reason})
        record = role.held_record()
        await role.note(
            who=word.who,
            why=reason,
            what="switchover undone",
            role=HaRole.ACTIVE if record.served_epoch >= record.epoch else record.role,
            step="",
            token={},
        )
        await role.start_agents()

    def _checked(self) -> tuple[ReplicaStatus, str]:
        controller, role = self._controller, self._controller.role
        if role.state is not HaState.ACTIVE:
            raise RefusedRoleChangeError(f"a switchover begins where it is active; this one is {role.state}")
        view = controller.view
        if view is None or view.problem or view.handshake is None:
            words = view.problem if view else "no peer is configured"
            raise RefusedRoleChangeError(f"the peer cannot be asked: {words}")
        if view.handshake.state is not HaState.REPLICATING:
            raise RefusedRoleChangeError(f"the peer is {view.handshake.state}, not replicating")
        connected = [each for each in role.source.replicas() if each.connected]
        if not connected:
            raise RefusedRoleChangeError("no replica is connected")
        if not controller.fence_report.stands:
            raise RefusedRoleChangeError(f"this cluster is not fenced: {controller.fence_report.problem}")
        return connected[0], view.handshake.principal
