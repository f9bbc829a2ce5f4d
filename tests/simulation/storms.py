"""What goes wrong while a simulation runs, drawn from its seed."""

import asyncio
from collections.abc import Sequence
from random import Random

from tests.simulation.network import FINE, Weather
from tests.simulation.world import World


def some_weather(random: Random) -> Weather:
    """From bad to terrible, each sort of trouble sometimes alone."""
    return Weather(
        loss=random.choice((0.0, 0.02, 0.2)),
        duplication=random.choice((0.0, 0.05, 0.3)),
        reordering=random.choice((0.0, 0.05, 0.3)),
        latency=(0.001, random.choice((0.01, 0.2, 2.0))),
        straying=(0.05, random.choice((0.5, 10.0))),
        noticing=(0.01, random.choice((1.0, 30.0))),
    )


class Storm:
    """Faults among `places` (names of processes) and between pairs of them, until it is told to end."""

    def __init__(
        self,
        world: World,
        *,
        places: Sequence[str],
        pairs: Sequence[tuple[str, str]],
        stores: Sequence[str] = (),
        every: float,
    ) -> None:
        self._world = world
        self._random = Random(world.random.random())
        self._places = places
        self._pairs = pairs
        self._stores = stores
        self._every = every
        self._end = 0.0

    async def rage(self, seconds: float) -> None:
        """Faults overlap; all end together, with everything still in disorder, when this returns."""
        loop = asyncio.get_running_loop()
        self._end = loop.time() + seconds
        async with asyncio.TaskGroup() as group:
            while loop.time() < self._end:
                group.create_task(self._strike())
                await self._sleep(self._random.expovariate(1 / self._every))
        self._world.network.heal()
        self._world.failing = 0.0
        self._world.note("calm")

    async def _strike(self) -> None:
        faults = [self._weather, self._partition, self._reset, self._restart, self._slow, self._api_errors]
        if self._stores:
            faults.append(self._watches)
        fault = self._random.choice(faults)
        self._world.note(f"fault {fault.__name__}")
        self._world.count(f"fault: {fault.__name__.removeprefix('_')}")
        await fault()

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(self._left(seconds))

    def _left(self, seconds: float) -> float:
        # A little beyond the end: of a remainder below the clock's resolution nothing would pass.
        left = self._end - asyncio.get_running_loop().time() + 0.001
        return max(0.0, min(seconds, left))

    async def _weather(self) -> None:
        self._world.network.weather = some_weather(self._random)
        await self._sleep(self._random.uniform(1, 40))
        self._world.network.weather = FINE

    async def _partition(self) -> None:
        one, two = self._random.choice(self._pairs)
        self._world.network.part(one, two)
        await self._sleep(self._random.uniform(1, 60))
        self._world.network.reunite(one, two)

    async def _reset(self) -> None:
        self._world.network.cut(self._random.choice(self._places))

    async def _restart(self) -> None:
        place = self._random.choice(self._places)
        await self._world.restart(place, self._left(self._random.choice((0.0, 1.0, 20.0))))

    async def _slow(self) -> None:
        place = self._random.choice(self._places)
        self._world.network.slow_down(place, self._random.uniform(0.5, 8.0))
        await self._sleep(self._random.uniform(1, 30))
        self._world.network.slow_down(place, 0.0)

    async def _api_errors(self) -> None:
        self._world.failing = self._random.choice((0.05, 0.3, 0.9))
        await self._sleep(self._random.uniform(1, 30))
        self._world.failing = 0.0

    async def _watches(self) -> None:
        """Watches end, and may not go on from where they were."""
        store = self._world.store(self._random.choice(self._stores))
        if self._random.random() < 0.5:
            store.compact()
        store.cut_watches()
