"""A live manifest through principal and agent, beside the same GET at the agent's API server, on real API servers.

Where `ARGOCD_AGENT_BIN` names one, a real argocd-agent's pair is asked in the same way afterwards.
"""

import asyncio
import os
import signal
import ssl
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import aiohttp

from argocd import names
from kube.resources import APPLICATIONS, CONFIG_MAPS
from kube.store import Object
from scripts.argocd_agent import BINARY
from scripts.bench.figures import Figure
from scripts.bench.paired import AGENT, GO, Pair, application, argocd_agents, ours, pair_with, tell
from scripts.bench.sidecar_processes import NAMESPACE, child, cpu_seconds
from scripts.ports import free_port

NAME = "proxies: live manifests of one agent's cluster, principal and agent in processes of their own, TLS"

DIRECT = "a GET at the agent's API server"
ROUNDS = 200
TURNS = 10
UPDATES = 6
READING_SECONDS = 5.0
LOOKING_SECONDS = 0.1
READERS = (20, 100)
GO_PORT = 9090  # argocd-agent's resource proxy listens nowhere else
START_SECONDS = 60.0
LATENCY_GOAL, THROUGHPUT_GOAL, PROPAGATION_GOAL = 4.0, -300.0, 1.5

PATH = f"/api/v1/namespaces/{NAMESPACE}/configmaps/prices"


def manifest() -> Object:
    """Of 10 kB, as many are."""
    mark = f"shop:/ConfigMap:{NAMESPACE}/prices"
    return {
        "metadata": {"name": "prices", "annotations": {names.TRACKING_ID: mark}},
        "data": {f"price-{number}": "x" * 90 for number in range(100)},
    }


@dataclass
class Measured:
    """Milliseconds, requests a second by readers, and updates' milliseconds while nobody and while some read."""

    through: list[float] = field(default_factory=list)
    direct: list[float] = field(default_factory=list)
    rates: dict[int, float] = field(default_factory=dict)
    parallel: dict[int, list[float]] = field(default_factory=dict)
    cpu: dict[int, float] = field(default_factory=dict)
    """Milliseconds of both sidecars for each request."""
    idle: dict[int, list[float]] = field(default_factory=dict)
    busy: dict[int, list[float]] = field(default_factory=dict)
    restless_idle: dict[int, list[float]] = field(default_factory=dict)
    restless: dict[int, list[float]] = field(default_factory=dict)
    """The same beside readers who ask again at once."""


class Reader:
    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def read(self) -> float:
        started = time.perf_counter()
        async with self._session.get(self._url) as response:
            body = await response.read()
            if response.status != 200:  # noqa: PLR2004 - OK
                raise AssertionError(f"{response.status}: {body[:300]!r}")
        return (time.perf_counter() - started) * 1e3


@asynccontextmanager
async def reader(folder: Path, port: int) -> AsyncIterator[Reader]:
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    context.load_cert_chain(folder / f"{AGENT}.crt", folder / f"{AGENT}.key")
    connector = aiohttp.TCPConnector(ssl=context, limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        found = Reader(session, f"https://localhost:{port}{PATH}")
        async with asyncio.timeout(START_SECONDS):
            while True:
                try:
                    await found.read()
                except (AssertionError, aiohttp.ClientError):
                    await asyncio.sleep(0.2)  # the agent has not come, or not seen its Application
                else:
                    break
        yield found


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
            idle, busy = await propagation(update, pair.folder, port, readers, LOOKING_SECONDS)
            measured.idle[readers], measured.busy[readers] = idle, busy
            tell(f"propagation beside {readers} readers without pauses")
            idle, busy = await propagation(update, pair.folder, port, readers, 0.0)
            measured.restless_idle[readers], measured.restless[readers] = idle, busy
    return measured


async def propagation(
    update: Callable[[], Awaitable[float]], folder: Path, port: int, readers: int, looking: float
) -> tuple[list[float], list[float]]:
    """In turns: while nobody reads, and while they do; each looks at what it read for `looking` seconds."""
    times: tuple[list[float], list[float]] = ([], [])
    with child(run_readers, str(folder), port, readers, looking) as process:
        await asyncio.sleep(LOOKING_SECONDS * 30)  # it imports, connects and reads
        for turn in range(2 * TURNS):
            os.kill(process.pid, (signal.SIGSTOP, signal.SIGCONT)[turn % 2])
            await asyncio.sleep(
                LOOKING_SECONDS * 5
            )  # what was asked is answered; they do not come all at once
            for _ in range(UPDATES):
                times[turn % 2].append(await update() * 1e3)
    return times


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


def run_readers(folder: str, port: int, readers: int, looking: float) -> None:
    """People who look at pages, in a process of their own: each reads, and looks at what it read for a moment, or
    they are programs and do not.
    """

    async def read(found: Reader) -> None:
        while True:
            await found.read()
            await asyncio.sleep(looking)

    async def main() -> None:
        async with reader(Path(folder), port) as found, asyncio.TaskGroup() as group:
            for _ in range(readers):
                group.create_task(read(found))

    asyncio.run(main())


def quantile(times: list[float], at: float) -> float:
    return statistics.quantiles(times, n=100, method="inclusive")[round(at * 100) - 1]


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
        found.append(
            Figure(
                f"an Application's update while {readers} look, p50",
                quantile(measured.busy[readers], 0.5),
                "ms",
                than="while nobody does",
                theirs=quantile(measured.idle[readers], 0.5),
                goal=PROPAGATION_GOAL,
            )
        )
        # No goal: two processors that are both busy with readers have no third for the Application.
        found.extend(
            Figure(
                f"an Application's update beside {readers} readers without pauses, p{at * 100:.0f}",
                quantile(measured.restless[readers], at),
                "ms",
                than="while nobody reads",
                theirs=quantile(measured.restless_idle[readers], at),
            )
            for at in (0.5, 0.99)
        )
    return found


async def run() -> list[Figure]:
    port = free_port()
    async with pair_with(partial(ours, resource_port=port)) as pair:
        measured = await measure(pair, port)
    others = None
    if BINARY:
        async with pair_with(partial(argocd_agents, resource_proxy=True)) as pair:
            others = await measure(pair, GO_PORT)
    return figures(measured, others)
