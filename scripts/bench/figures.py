"""What a benchmark hands back, and the one way to measure two things side by side.

A benchmark is a module here with a line `NAME` and a function `run()`, plain or async, that returns figures.
Absolute times depend on the machine and the hour; a ratio to the same work done barely, measured in turns in
the same run, does not.
"""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """`goal` bounds the ratio where there is something to compare with, else the value itself."""

    what: str
    ours: float
    unit: str
    than: str = ""
    """What it is compared with, in a few words."""
    theirs: float | None = None
    goal: float | None = None
    """At most; a negative one says at least, for throughputs."""

    @property
    def ratio(self) -> float | None:
        return self.ours / self.theirs if self.theirs else None

    @property
    def met(self) -> bool | None:
        if self.goal is None:
            return None
        measured = self.ours if self.theirs is None else self.ratio
        assert measured is not None
        return measured >= -self.goal if self.goal < 0 else measured <= self.goal


def beside(figures: list[Figure], others: list[Figure], *, than: str) -> list[Figure]:
    """Each followed by the same of others, where they got there."""
    theirs = {each.what: each.ours for each in others}
    found = []
    for each in figures:
        found.append(each)
        if each.what in theirs:
            found.append(Figure(each.what, each.ours, each.unit, than=than, theirs=theirs[each.what]))
    return found


def quantile(times: list[float], at: float) -> float:
    return statistics.quantiles(times, n=100, method="inclusive")[round(at * 100) - 1]


def side_by_side(
    ours: Callable[[], object], theirs: Callable[[], object], *, rounds: int
) -> tuple[float, float]:
    """Median seconds of each, in turns, so that a busy moment of the machine meets both."""
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(rounds):
        for index in (0, 1) if turn % 2 else (1, 0):
            started = time.perf_counter()
            (ours, theirs)[index]()
            times[index].append(time.perf_counter() - started)
    return statistics.median(times[0]), statistics.median(times[1])


async def awaited_side_by_side(
    ours: Callable[[], Awaitable[object]],
    theirs: Callable[[], Awaitable[object]],
    *,
    rounds: int,
    within: float = 30.0,
) -> tuple[float, float]:
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(rounds):
        for index in (0, 1) if turn % 2 else (1, 0):
            started = time.perf_counter()
            async with asyncio.timeout(within):
                await (ours, theirs)[index]()
            times[index].append(time.perf_counter() - started)
    return statistics.median(times[0]), statistics.median(times[1])
