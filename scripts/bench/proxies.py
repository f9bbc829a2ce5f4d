"""A live manifest through principal and agent, beside the same GET at the agent's API server, on real API servers.

Where `ARGOCD_AGENT_BIN` names one, a real argocd-agent's pair is asked in the same way afterwards.
"""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from argocd import names
from kube.resources import APPLICATIONS, CONFIG_MAPS
from kube.store import Object
from scripts.argocd_agent import BINARY
from scripts.bench.crowds import Crowd, Reader, crowd, read_directly, read_through, reader
from scripts.bench.figures import Figure, quantile
from scripts.bench.paired import AGENT, GO, Pair, application, argocd_agents, ours, pair_with, tell
from scripts.bench.sidecar_processes import NAMESPACE, cpu_seconds
from scripts.ports import free_port

NAME = "proxies: live manifests of one agent's cluster, principal and agent in processes of their own, TLS"

DIRECT = "a GET at the agent's API server"
ROUNDS = 200
TURNS = 10
UPDATES = 6
READING_SECONDS = 5.0
LOOKING_SECONDS = 0.1
SETTLING_SECONDS = 0.5
READERS = (20, 100)
GO_PORT = 9090  # argocd-agent's resource proxy listens nowhere else
LATENCY_GOAL, THROUGHPUT_GOAL, PROPAGATION_GOAL = 4.0, -300.0, 1.5


def manifest() -> Object:
    """Of 10 kB, as many are."""
    mark = f"shop:/ConfigMap:{NAMESPACE}/prices"
    return {
        "metadata": {"name": "prices", "annotations": {names.TRACKING_ID: mark}},
        "data": {f"price-{number}": "x" * 90 for number in range(100)},
    }


@dataclass
class Measured:
    """Milliseconds, requests a second by readers, and what becomes of updates beside them."""

    through: list[float] = field(default_factory=list)
    direct: list[float] = field(default_factory=list)
    rates: dict[int, float] = field(default_factory=dict)
    parallel: dict[int, list[float]] = field(default_factory=dict)
    cpu: dict[int, float] = field(default_factory=dict)
    """Milliseconds of both sidecars for each request."""
    looking: dict[int, "Propagation"] = field(default_factory=dict)
    restless: dict[int, "Propagation"] = field(default_factory=dict)
    """The same beside readers who ask again at once."""


@dataclass
class Propagation:
    """Milliseconds of updates, and how many reads there were in a second beside them."""

    calm: list[float] = field(default_factory=list)
    beside: list[float] = field(default_factory=list)
    floor: list[float] = field(default_factory=list)
    """Beside as many reads that do not pass the sidecars."""
    rates: list[float] = field(default_factory=list)


async def measure(pair: Pair, port: int) -> Measured:
    measured = Measured()
    next(pair.numbers)  # the first is the revision that it is created with
    await pair.hub.create(APPLICATIONS, application("shop"), namespace=AGENT)
    await pair.workload.create(CONFIG_MAPS, manifest(), namespace=NAMESPACE)
    # argocd-agent's agent tests nothing without Argo CD's own settings.
    settings = {"name": names.ARGOCD_CM, "labels": {"app.kubernetes.io/part-of": "argocd"}}
    await pair.workload.create(CONFIG_MAPS, {"metadata": settings}, namespace=NAMESPACE)

    async def direct() -> float:
        started = time.perf_counter()
        await pair.workload.get(CONFIG_MAPS, name="prices", namespace=NAMESPACE)
        return (time.perf_counter() - started) * 1e3

    async with reader(pair.folder, port) as found, pair.arrival.open() as arrival:
        tell("one reader")
        for _ in range(ROUNDS):
            measured.through.append(await found.read())
            measured.direct.append(await direct())
        for readers in READERS:
            tell(f"{readers} readers")
            before = cpu_seconds(*pair.sidecars)
            times, seconds = await reading(found, readers)
            measured.cpu[readers] = (cpu_seconds(*pair.sidecars) - before) * 1e3 / len(times)
            measured.rates[readers] = len(times) / seconds
            measured.parallel[readers] = times
        update = partial(pair.update, pair.hub, AGENT, arrival, "shop")
        for readers in READERS:
            tell(f"propagation beside {readers} readers")
            measured.looking[readers] = await propagation(update, pair, port, readers, LOOKING_SECONDS)
            tell(f"propagation beside {readers} readers without pauses")
            measured.restless[readers] = await propagation(update, pair, port, readers, 0.0)
    return measured


async def propagation(
    update: Callable[[], Awaitable[float]], pair: Pair, port: int, readers: int, looking: float
) -> Propagation:
    """In turns: while nobody reads, while they do, each looking at what it read for `looking` seconds, and while as many
    read as often at the API server itself.
    """
    found = Propagation()
    with (
        crowd(read_through, str(pair.folder), port, looking, readers=readers) as through,
        crowd(read_directly, str(pair.workload_kubeconfig), readers=readers) as direct,
    ):
        for _ in range(TURNS):
            await asyncio.sleep(SETTLING_SECONDS)  # what was asked is answered
            found.calm += [await update() * 1e3 for _ in range(UPDATES)]
            async with beside(through) as rate:
                found.beside += [await update() * 1e3 for _ in range(UPDATES)]
            found.rates.append(rate())
            direct.read_at(statistics.mean(found.rates))
            async with beside(direct):
                found.floor += [await update() * 1e3 for _ in range(UPDATES)]
    return found


@asynccontextmanager
async def beside(readers: Crowd) -> AsyncIterator[Callable[[], float]]:
    """While they read; yields how many reads there are in a second."""
    readers.go_on()
    try:
        await asyncio.sleep(SETTLING_SECONDS)  # they do not come all at once
        began, before = time.perf_counter(), readers.reads
        yield lambda: (readers.reads - before) / (time.perf_counter() - began)
    finally:
        readers.stand_still()


async def reading(found: Reader, readers: int) -> tuple[list[float], float]:
    started = time.perf_counter()
    end = started + READING_SECONDS
    times: list[float] = []

    async def read() -> None:
        while time.perf_counter() < end:
            times.append(await found.read())

    async with asyncio.TaskGroup() as group:
        for _ in range(readers):
            group.create_task(read())
    return times, time.perf_counter() - started


def figures(measured: Measured, others: Measured | None) -> list[Figure]:
    found = []
    for at, goal in ((0.5, LATENCY_GOAL), (0.99, None)):
        title, ours_ = f"live manifest, p{at * 100:.0f}", quantile(measured.through, at)
        theirs = quantile(measured.direct, at)
        found.append(Figure(title, ours_, "ms", than=DIRECT, theirs=theirs, goal=goal))
        if others is not None:
            found.append(Figure(title, ours_, "ms", than=GO, theirs=quantile(others.through, at)))
    for readers in READERS:
        title = f"{readers} parallel readers"
        found.append(Figure(title, measured.rates[readers], "/s", goal=THROUGHPUT_GOAL))
        found.append(Figure(f"{title}, p99", quantile(measured.parallel[readers], 0.99), "ms"))
        cpu = measured.cpu[readers]
        found.append(Figure(f"{title}, CPU of both sidecars for each", cpu, "ms"))
        if others is not None:
            found.append(Figure(f"{title}, CPU for each", cpu, "ms", than=GO, theirs=others.cpu[readers]))
            found.append(Figure(title, measured.rates[readers], "/s", than=GO, theirs=others.rates[readers]))
        found += of_updates(f"while {readers} look", measured.looking[readers], goal=PROPAGATION_GOAL)
        # No goal: two processors that are both busy with readers have no third for the Application.
        found += of_updates(f"beside {readers} readers without pauses", measured.restless[readers])
    return found


def of_updates(beside: str, measured: Propagation, *, goal: float | None = None) -> list[Figure]:
    what, ours_ = f"an Application's update {beside}", quantile(measured.beside, 0.5)
    floor = "while as many read at the API server"
    return [
        Figure(f"reads {beside}", statistics.mean(measured.rates), "/s"),
        Figure(
            f"{what}, p50",
            ours_,
            "ms",
            than="while nobody does",
            theirs=quantile(measured.calm, 0.5),
            goal=goal,
        ),
        Figure(f"{what}, p50", ours_, "ms", than=floor, theirs=quantile(measured.floor, 0.5)),
        Figure(
            f"{what}, p90",
            quantile(measured.beside, 0.9),
            "ms",
            than=floor,
            theirs=quantile(measured.floor, 0.9),
        ),
    ]


async def run() -> list[Figure]:
    port = free_port()
    async with pair_with(partial(ours, resource_port=port)) as pair:
        measured = await measure(pair, port)
    others = None
    if BINARY:
        async with pair_with(partial(argocd_agents, resource_proxy=True)) as pair:
            others = await measure(pair, GO_PORT)
    return figures(measured, others)
