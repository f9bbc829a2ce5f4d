"""Runs a scenario under a storm, waits for calm and convergence, and says which seed to replay."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tests.simulation.storms import Storm
from tests.simulation.virtual_time import EndlessError, NothingCanHappenError, run
from tests.simulation.world import World

# Longer than every backoff, patience and period of what is simulated, together.
CONVERGENCE_SECONDS = 900.0
STORM_SECONDS = 100.0
FAULTS_SECONDS = 5.0


class Scenario(Protocol):
    @property
    def name(self) -> str:
        """By which it is replayed."""
        ...

    @property
    def places(self) -> Sequence[str]:
        """Processes that may be killed, cut off and slowed down."""
        ...

    @property
    def pairs(self) -> Sequence[tuple[str, str]]:
        """Processes that talk to each other and may be kept apart."""
        ...

    @property
    def stores(self) -> Sequence[str]:
        """API servers whose watches may be cut."""
        ...

    def begin(self) -> None:
        """Starts the processes."""
        ...

    async def work(self, seconds: float) -> None:
        """What users do during the storm, for as long as it lasts."""
        ...

    async def unfinished(self) -> list[str]:
        """What has still to happen before all is well; nothing once the sides have converged."""
        ...

    def violations(self) -> list[str]:
        """What must never have happened."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    seed: int
    digest: str
    counts: Counter[str]
    seconds: float
    """Of virtual time from calm to convergence."""
    lines: list[str]


class SimulationError(AssertionError):
    """Names the seed; `lines` is the trace."""

    def __init__(
        self, scenario: str, seed: int, storm_seconds: float, problems: Sequence[str], lines: Sequence[str]
    ) -> None:
        shown = "\n  ".join(problems[:10])
        super().__init__(
            f"{scenario} with seed {seed}:\n  {shown}\n"
            f"replay: python -m tests.simulation {scenario} --seed {seed} --storm {storm_seconds:g}"
        )
        self.lines = list(lines)


def simulate(make: Callable[[World], Scenario], *, seed: int, storm_seconds: float = STORM_SECONDS) -> Result:
    """Raises SimulationError where the sides do not converge or something forbidden happened."""
    lines: list[str] = []
    name = "?"

    async def program() -> Result:
        nonlocal lines, name
        world = World(seed)
        lines = world.lines
        scenario = make(world)
        name = scenario.name
        scenario.begin()
        # Most scenarios have no opinion.
        every = getattr(scenario, "faults_seconds", FAULTS_SECONDS)
        storm = Storm(
            world, places=scenario.places, pairs=scenario.pairs, stores=scenario.stores, every=every
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(storm.rage(storm_seconds))
            group.create_task(scenario.work(storm_seconds))
        seconds = await _converge(world, scenario)
        problems = [*world.deaths(), *scenario.violations(), *await scenario.unfinished()]
        await world.stop()
        if problems:
            raise SimulationError(scenario.name, seed, storm_seconds, problems, world.lines)
        return Result(seed=seed, digest=world.digest, counts=world.counts, seconds=seconds, lines=world.lines)

    try:
        return run(program())
    except (NothingCanHappenError, EndlessError) as error:
        raise SimulationError(name, seed, storm_seconds, [str(error)], lines) from error


async def _converge(world: World, scenario: Scenario) -> float:
    began = world.loop.time()
    for _ in range(int(CONVERGENCE_SECONDS)):  # virtual seconds are free: nobody pays for looking
        if not await scenario.unfinished():
            break
        await asyncio.sleep(1)
    world.note("did not converge" if await scenario.unfinished() else "converged")
    return world.loop.time() - began
