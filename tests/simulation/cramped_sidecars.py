"""Ends whose queues hold hardly anything: what finds no room is found by comparing, and operations too."""

from dataclasses import replace

from sidecars.delivery.timing import Budget
from sidecars.mirroring.link import Runtime
from tests.simulation.plain_sidecars import PlainSidecars
from tests.simulation.sidecars import LIMITS, Sidecars
from tests.simulation.world import World

# An Application takes 1.5 kB here: each queue has room for three, all of them for a few more.
QUEUE_BYTES = 5_000
ALL_BYTES = 12_000
SIZES = (2_000, QUEUE_BYTES, ALL_BYTES)


class CrampedSidecars(Sidecars):
    """The principal's."""

    name = "cramped"

    def principals_surroundings(self) -> Runtime:
        return _cramped(super().principals_surroundings(), queue_bytes=QUEUE_BYTES)


class _Ends(Sidecars):
    """All of them, down to one event in a queue: whoever asks has no room to answer."""

    sizes: tuple[int, ...] = SIZES

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._sizes = {end: self._random.choice(self.sizes) for end in ("principal", "agents")}

    def _runtime(self) -> Runtime:
        return _cramped(super()._runtime(), queue_bytes=self._sizes["agents"])

    def principals_surroundings(self) -> Runtime:
        return _cramped(super()._runtime(), queue_bytes=self._sizes["principal"])


class CrampedEnds(_Ends):
    name = "cramped-ends"


class CrampedPlain(_Ends, PlainSidecars):
    name = "cramped-plain"
    sizes = SIZES[1:]


def _cramped(runtime: Runtime, *, queue_bytes: int) -> Runtime:
    budget, arrived = (Budget(limit=ALL_BYTES, share=queue_bytes, reserve=0) for _ in range(2))
    return replace(
        runtime,
        outbox=replace(LIMITS, bytes=queue_bytes, reserve_bytes=0),
        budget=budget,
        arrived=arrived,
    )
