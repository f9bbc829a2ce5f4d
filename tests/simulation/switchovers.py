"""A pair under switchovers, back and forth, with users who write on and processes that are killed at every step of it.

The operator forces nothing and waits until both sides answer: then nothing may be lost, and no operation runs twice.
"""

from argocd.reading import value
from sidecars.replication.states import HaState
from tests.simulation.paired_hubs import AGENTS, other
from tests.simulation.promotions import Fate, Promotions, revision_of


class Switchovers(Promotions):
    name = "switchovers"
    mischief = False
    # Milder than elsewhere: a switchover begins only where both sides are well.
    fate = Fate(faults_seconds=40.0, looks_seconds=2.0, killed=0.1, paused=0.01, regions=0.05, parted=0.05)

    async def _operate(self) -> None:
        await super()._operate()
        serving = [each for each in self._hubs.leading.values() if each.state is HaState.ACTIVE]
        if not serving:
            return
        standby = self._hubs.leading.get(other(serving[0].hub))
        if standby is not None and self._random.random() < self.fate.replayed:
            await self._operator.replay_token(serving[0], standby)
        elif self._random.random() < 0.7:
            await self._operator.switch_over(serving[0])

    # What must hold in the end.

    async def unfinished(self) -> list[str]:
        problems = await super().unfinished()
        if problems:
            return problems
        active = next(hub for hub, there in self._hubs.leading.items() if there.state is HaState.ACTIVE)
        there = self.applications(active)
        problems = [
            f"{'/'.join(key)}: {found} is there, {sorted(map(str, possible))} was taken"
            for key, possible in self._accepted.items()
            if (found := revision_of(there[key]) if key in there else None) not in possible
        ]
        return problems + self._operations_that_did_not_run()

    def _operations_that_did_not_run(self) -> list[str]:
        ran = {
            identity
            for agent in AGENTS
            for item in self.applications(agent).values()
            for identity in value(item, "status", "seen") or []
        }
        return [
            f"{'/'.join(key)} never ran {identity}"
            for identity, key in self._given.items()
            if identity not in ran
        ]

    def violations(self) -> list[str]:
        return [*super().violations(), *self._agents.controller.violations()]
