"""Seconds of the processor, counted as if nobody else were at work: a crowded or slow machine makes no test fail.

A short loop is timed right after the work, in the same thread, and says by how much this machine is slower now than the
one on which the bounds of tests were chosen.
"""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

LOOPS = 100_000
LOOP_SECONDS = 0.004
"""What the loop takes on a processor of 2024 that has nothing else to do."""


class ProcessorTime:
    """`seconds` is there at its end."""

    seconds: float

    def __enter__(self) -> Self:
        self._began = time.thread_time()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        took = time.thread_time() - self._began
        self.seconds = took if took < LOOP_SECONDS else took / slowness()


def least_seconds(work: Callable[[], object], *, below: float, tries: int = 5) -> float:
    """Of several tries, until one takes less than `below`: others make one slower, nobody makes it faster."""
    least = float("inf")
    for _ in range(tries):
        with ProcessorTime() as taken:
            work()
        least = min(least, taken.seconds)
        if least < below:
            break
    return least


def slowness() -> float:
    """How many times longer than there the loop takes here and now; at least one."""
    began = time.thread_time()
    total = 0
    for number in range(LOOPS):
        total += number
    return max(1.0, (time.thread_time() - began) / LOOP_SECONDS)
