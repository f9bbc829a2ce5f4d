"""A virtual clock for the sidecars: minutes of heartbeats, throttles and rounds in milliseconds."""

import asyncio
from random import Random

from sidecars.delivery.timing import Timing
from sidecars.mirroring.link import Runtime
from tests.simulation.virtual_time import VirtualLoop


def runtime() -> Runtime:
    """Of the loop that runs."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop), "tests.simulation.virtual_time.run gives one"
    return Runtime(timing=Timing(monotonic=loop.time, now=loop.now, random=Random(1)))
