"""Many Applications at once through principal and agent, and many statuses back, on real API servers.

Both API servers, the sidecars and the writer share this machine's cores: beside what one API server takes alone, with
all of the machine, stands what both of them take when everything is written to each and nobody stands between.
Where `ARGOCD_AGENT_BIN` names one, a real argocd-agent takes the same bursts afterwards.
"""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import product
from typing import Any

from kube.live import LiveStore
from kube.resources import APPLICATIONS
from scripts.argocd_agent import BINARY
from scripts.bench.figures import Figure
from scripts.bench.paired import (
    AGENT,
    ASIDE,
    GO,
    Pair,
    Sight,
    anyhow,
    application,
    argocd_agents,
    ours,
    pair_with,
    patched,
    revision_of,
    status_of,
    tell,
    timed,
)
from scripts.bench.sidecar_processes import NAMESPACE, cpu_seconds, cpu_seconds_of_all

NAME = "bursts: one managed agent, principal and agent in processes of their own, two API servers, TLS"

ALONE = "the API server alone"
BOTH = "the same writes on both API servers"
WRITING = "writing them meanwhile"
# And how often: a short one is over in a moment, which may be a busy one.
SIZES = {500: 3, 3_000: 1}
# As `kubectl apply` of a folder writes, and as many tools at once.
WRITERS = {1: "one after another", 16: "16 at a time"}
STATUS_WRITES = 3
STATUS_WRITERS = 16
# Thousands on a busy machine.
WITHIN = 600.0

BURST_GOAL = -0.8
GROWTH_GOAL = -0.9
STATUS_GOAL = 1.3


class Arm:
    """One way of taking a burst: seconds and CPU seconds of its rounds."""

    def __init__(self, pair: Pair, sight: Callable[[], Sight], *places: tuple[LiveStore, str]) -> None:
        self._pair, self._sight, self._places = pair, sight, places
        self._seconds: list[float] = []
        self._writing: list[float] = []
        self._spent: list[float] = []
        self._sidecars: list[float] = []

    async def take(self, size: int, writers: int) -> None:
        before, mine = cpu_seconds_of_all(), cpu_seconds(*self._pair.sidecars)
        self._seconds.append(await self._burst(size, writers))
        self._spent.append((cpu_seconds_of_all() - before) / size)
        self._sidecars.append((cpu_seconds(*self._pair.sidecars) - mine) / size)

    async def _burst(self, size: int, writers: int) -> float:
        wanted, sight = self._pair.names(size), self._sight()

        async def write() -> None:
            started = time.perf_counter()
            await asyncio.gather(
                *(_written(partial(_create, *place), wanted, writers) for place in self._places)
            )
            self._writing.append(time.perf_counter() - started)

        async with sight.open():
            return await timed(write(), sight.until(wanted, anyhow, within=WITHIN))

    def rate(self, size: int) -> float:
        return size / statistics.median(self._seconds)

    def rate_of_writing(self, size: int) -> float:
        return size / statistics.median(self._writing)

    @property
    def milliseconds(self) -> float:
        """CPU time of all processes for one create."""
        return statistics.median(self._spent) * 1e3

    @property
    def of_sidecars(self) -> float:
        return statistics.median(self._sidecars) * 1e3


def _through(pair: Pair) -> Arm:
    return Arm(pair, lambda: pair.arrival, (pair.hub, AGENT))


async def _bursts(pair: Pair) -> tuple[list[Figure], dict[tuple[int, int], float]]:
    """And the rates by how they were written and how many they were."""
    figures, rates = [], {}
    for writers, (size, rounds) in product(WRITERS, SIZES.items()):
        alone = Arm(pair, lambda: pair.aside, (pair.workload, ASIDE))
        both = Arm(pair, lambda: pair.aside, (pair.hub, ASIDE), (pair.workload, ASIDE))
        through = _through(pair)
        for number in range(rounds):
            tell(f"a burst of {size:,} {WRITERS[writers]}, {number + 1} of {rounds}")
            for arm in (alone, both, through):
                await arm.take(size, writers)
        what, rate = _title(size, writers), through.rate(size)
        rates[writers, size] = rate
        figures += [
            Figure(what, rate, "/s", than=ALONE, theirs=alone.rate(size), goal=BURST_GOAL),
            Figure(what, rate, "/s", than=BOTH, theirs=both.rate(size)),
            Figure(what, rate, "/s", than=WRITING, theirs=through.rate_of_writing(size)),
            Figure("  CPU for each", through.milliseconds, "ms", than=ALONE, theirs=alone.milliseconds),
            Figure("  CPU for each", through.milliseconds, "ms", than=BOTH, theirs=both.milliseconds),
            Figure("  CPU for each, principal and agent", through.of_sidecars, "ms"),
        ]
    small, large = SIZES
    for writers, way in WRITERS.items():
        less, more = rates[writers, small], rates[writers, large]
        what = f"{large:,} creates {way}"
        figures.append(Figure(what, more, "/s", than=f"{small} creates", theirs=less, goal=GROWTH_GOAL))
    return figures, rates


def _title(size: int, writers: int) -> str:
    return f"{size:,} creates {WRITERS[writers]} arrive"


async def _beside(rates: dict[tuple[int, int], float]) -> list[Figure]:
    figures = []
    async with pair_with(argocd_agents) as pair:
        for (writers, size), rate in rates.items():
            tell(f"a burst of {size:,} {WRITERS[writers]} through {GO}")
            theirs = _through(pair)
            await theirs.take(size, writers)
            figures.append(Figure(_title(size, writers), rate, "/s", than=GO, theirs=theirs.rate(size)))
    return figures


async def _create(store: LiveStore, namespace: str, name: str) -> None:
    await store.create(APPLICATIONS, application(name), namespace=namespace)


async def _tell_status(store: LiveStore, revision: str, name: str) -> None:
    await patched(store, status_of(revision), name=name, namespace=NAMESPACE)


async def _statuses(pair: Pair) -> Figure:
    """Of as many Applications as the largest burst brought."""
    page = await pair.workload.list(APPLICATIONS, namespace=NAMESPACE)
    chosen = [item["metadata"]["name"] for item in page.items][-max(SIZES) :]
    tell(f"{STATUS_WRITES} status writes on each of {len(chosen)}")
    final = f"r{next(pair.numbers)}"
    written = 0.0

    async def write() -> None:
        nonlocal written
        started = time.perf_counter()
        for number in range(STATUS_WRITES):
            revision = final if number == STATUS_WRITES - 1 else f"{final}-{number}"
            await _written(partial(_tell_status, pair.workload, revision), chosen, STATUS_WRITERS)
        written = time.perf_counter() - started

    async with Sight(pair.hub, AGENT).open() as back:
        last = back.until(chosen, lambda item: revision_of(item) == final, within=WITHIN)
        there = await timed(write(), last)
    what = f"{STATUS_WRITES} status writes on each of {len(chosen):,}: until the hub has the last"
    return Figure(what, there, "s", than=WRITING, theirs=written, goal=STATUS_GOAL)


async def _written(write: Callable[[str], Awaitable[Any]], wanted: list[str], writers: int) -> None:
    left = iter(wanted)

    async def work() -> None:
        for name in left:
            await write(name)

    await asyncio.gather(*(work() for _ in range(writers)))


async def run() -> list[Figure]:
    async with pair_with(ours) as pair:
        figures, rates = await _bursts(pair)
        figures.append(await _statuses(pair))
    if BINARY:
        figures += await _beside(rates)
    return figures
