"""A principal whose queues hold hardly anything: what finds no room is found by comparing, and operations too."""

from dataclasses import replace

from sidecars.delivery.pacing import Budget
from sidecars.linking import Surroundings
from tests.simulation.sidecars import LIMITS, Sidecars

# An Application takes 1.5 kB here: each queue has room for three, all of them for a few more.
QUEUE_BYTES = 5_000
ALL_BYTES = 12_000


class CrampedSidecars(Sidecars):
    name = "cramped"

    def principals_surroundings(self) -> Surroundings:
        budget, arrived = (Budget(limit=ALL_BYTES, share=QUEUE_BYTES, reserve=0) for _ in range(2))
        return replace(
            super().principals_surroundings(),
            outbox=replace(LIMITS, bytes=QUEUE_BYTES, reserve_bytes=0),
            budget=budget,
            arrived=arrived,
        )
