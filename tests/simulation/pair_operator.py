"""The operator of a pair: he sees both sides, mends what waits for him, and now and then does what he need not."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from random import Random
from typing import Any

from kube.store import Object
from sidecars.replication.control.handover import HandoverToken
from sidecars.replication.control.promotion import Word
from sidecars.replication.record import HaRole
from sidecars.replication.states import HaState, StateDetail
from tests.simulation.pair_checks import PairChecks
from tests.simulation.paired_hubs import AGENTS, HUBS, LeadingHub, PairedHubs, lines, other
from tests.simulation.world import World
from tiphys.errors import TiphysError

# An answer that takes longer than every bound of the controller will not come.
PATIENCE_SECONDS = 200.0
HEAL_SECONDS = 5.0
"""Between two looks in the end, when nobody disturbs any more."""

Applications = Callable[[str], dict[tuple[str, str], Object]]


class PairOperator:
    def __init__(
        self,
        world: World,
        hubs: PairedHubs,
        checks: PairChecks,
        *,
        applications: Applications,
        careful: bool,
        forced: float,
    ) -> None:
        """`careful`: he waits until both sides answer, and forces nothing; otherwise he does in a share of cases."""
        self._world = world
        self._careful = careful
        self._forced = forced
        self._hubs = hubs
        self._checks = checks
        self._applications = applications
        self._random = Random(world.random.random())
        self._looked_at = -HEAL_SECONDS
        self._refused: dict[str, int] = dict.fromkeys(HUBS, 0)

    def reason(self, hub: str) -> str:
        there = self._hubs.leading.get(hub)
        return (
            "nobody leads"
            if there is None
            else f"{there.controller.role.detail} {there.controller.role.reason}"
        )

    async def heal(self) -> None:
        if self._world.loop.time() - self._looked_at >= HEAL_SECONDS:
            self._looked_at = self._world.loop.time()
            await self.look(mischief=False)

    async def look(self, *, mischief: bool) -> None:
        there = dict(self._hubs.leading)
        for hub in HUBS:
            if hub in there:
                await self._mend(there[hub])
        serving = [each for each in there.values() if each.state is HaState.ACTIVE]
        if not serving:
            await self._promote_one(list(there.values()), is_storm=mischief)
        elif mischief:
            await self._meddle(serving[0], there.get(other(serving[0].hub)))

    async def _mend(self, there: LeadingHub) -> None:
        role = there.controller.role
        if (role.state, role.detail) == (HaState.RECOVERING, StateDetail.WAITING):
            await self._answer_waiting(there)
        if role.state is not HaState.ACTIVE:
            for kind in role.replica.progress().held_deletions:
                await self._tell(
                    there, "accept-deletions", there.controller.accept_deletions(kind, self._word())
                )
        elif role.active.held() and self._may_release(there):
            self._world.count("held objects released")
            here = self._applications(there.hub)
            for agent in AGENTS:
                self._checks.deletable |= {key for key in self._applications(agent) if key not in here}
            await self._tell(there, "release", there.controller.release("", self._word()))

    def _may_release(self, there: LeadingHub) -> bool:
        """He looks at what is held first; and not while the other one still tells agents something."""
        self._world.count("objects held")
        peer = self._hubs.leading.get(other(there.hub))
        return peer is not None and peer.state is HaState.REPLICATING and self._random.random() < 0.3

    async def _answer_waiting(self, there: LeadingHub) -> None:
        record, peers = there.controller.role.record, self._hubs.fences[other(there.hub)].record
        if record is None:
            if peers is None or not peers.pair:
                await self._tell(there, "bootstrap", there.controller.resume(self._word(), bootstrap=True))
        elif record.role is HaRole.PROMOTING:
            self._world.count("promotions interrupted")
            peer = self._hubs.leading.get(other(there.hub))
            if self._careful and peer is None:
                return
            if self._random.random() < 0.5 or (peer is not None and peer.state is HaState.ACTIVE):
                await self._tell(there, "demote", there.controller.demote(self._word()))
            else:
                await self._promote(there, force=False)
        elif peers is None or peers.served_epoch < record.served_epoch:
            await self._tell(there, "resume", there.controller.resume(self._word()))

    async def _promote_one(self, there: list[LeadingHub], *, is_storm: bool) -> None:
        """Whoever served last has most; the other one where that is dead for long."""
        standbys = [each for each in there if each.state is not HaState.RECOVERING]
        if self._careful and len(standbys) < len(HUBS):
            return
        if not standbys or any(each.controller.role.detail is StateDetail.PROMOTING for each in there):
            return
        best = max(standbys, key=lambda each: each.controller.role.held_record().served_epoch)
        if is_storm and not self._careful and self._random.random() < 0.3:
            best = self._random.choice(standbys)
        patience = 3 if len(there) == len(HUBS) else 1
        force = self._refused[best.hub] >= patience and not self._careful
        if await self._promote(best, force=force):
            self._refused[best.hub] = 0
        else:
            self._refused[best.hub] += 1

    async def _promote(self, there: LeadingHub, *, force: bool) -> bool:
        record = there.controller.role.record
        self._checks.promoted_by_operator.add(id(there.process))
        word = Word(who="jo", why="a storm", force=force, epoch=record.highest_epoch if record else None)
        return await self._tell(
            there, "forced promotion" if force else "promotion", there.controller.promote(word)
        )

    async def _meddle(self, active: LeadingHub, standby: LeadingHub | None) -> None:
        forces, dice = self._random.random() < self._forced, self._random.random()
        if standby is not None and (forces or dice < 0.08):
            await self._promote(standby, force=forces)
        elif dice < 0.16:
            await self._tell(active, "demotion", active.controller.demote(self._word()))
        elif dice < 0.44:
            await self.switch_over(active)
        elif standby is not None and dice < 0.5:  # two operators at once
            self._world.count("two operators at once")
            async with asyncio.TaskGroup() as group:
                group.create_task(self._promote(standby, force=True))
                group.create_task(self._tell(active, "demotion", active.controller.demote(self._word())))

    async def replay_token(self, active: LeadingHub, standby: LeadingHub) -> None:
        """Of an earlier switchover: it promotes nobody."""
        if self._checks.tokens:
            token = HandoverToken(**self._random.choice(self._checks.tokens))
            # As one that hands over: an active one is refused whatever it shows.
            giver = replace(active.controller.handshake, state=HaState.DISCONNECTED)
            await self._tell(standby, "old token", standby.controller.take_over(token, giver))

    async def switch_over(self, active: LeadingHub) -> bool:
        steps = lines(active.pair.switchover.run(self._word()), self._world.note)
        return await self._tell(active, "switchover", steps)

    def _word(self) -> Word:
        return Word(who="jo", why="a storm")

    async def _tell(self, there: LeadingHub, what: str, work: Coroutine[Any, Any, Any]) -> bool:
        self._world.note(f"{there.hub} is told: {what}")
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await there.told(work)
        except (TiphysError, TimeoutError) as error:
            self._world.note(f"{there.hub}: {what} failed: {str(error)[:200] or 'no answer'}")
            self._world.count(f"{what} refused")
            return False
        self._world.note(f"{there.hub}: {what} done")
        self._world.count(f"{what} done")
        return True
