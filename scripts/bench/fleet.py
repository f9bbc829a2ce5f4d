"""A thousand agents of one principal on the embedded store: how soon they are back, what they weigh, a fan-out."""

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from argocd.agents.vocabulary import Target
from kube.embedded import EmbeddedStore
from kube.resources import APP_PROJECTS, SECRETS
from scripts.bench.figures import Figure
from scripts.bench.sidecar_processes import (
    NAMESPACE,
    SPAWN,
    START_SECONDS,
    Papers,
    child,
    cluster_secret,
    dialing,
    principal_of,
    quiet,
)
from scripts.ports import free_port
from sidecars.wire.client.dialer import AgentConnection
from sidecars.wire.client.reconnect import Reconnector
from sidecars.wire.events import AGENT_SOURCE, Event, acknowledgement

NAME = "fleet: a principal on the embedded store, its agents on streams of their own, TLS"

AGENTS = 1_000
CONNECT_GOAL = 15.0
MEMORY_GOAL = 200.0
FAN_OUT_GOAL = 3.0
WITHIN = 120.0


def run_principal(folder: str, port: int, pipe: Connection) -> None:
    quiet()
    asyncio.run(_principal(Path(folder), port, pipe))


async def _principal(folder: Path, port: int, pipe: Connection) -> None:
    """Told what to do through the pipe: "create" makes a project, "memory" asks for mebibytes."""
    store = EmbeddedStore(namespaces=[NAMESPACE])
    for number in range(AGENTS):
        await store.create(SECRETS, cluster_secret(agent_name(number)), namespace=NAMESPACE)
    process = principal_of(store, Papers(folder), port=port)
    serving = asyncio.ensure_future(process.run())
    await process.listening.wait()
    pipe.send("listening")
    loop = asyncio.get_running_loop()
    number = 0
    while not serving.done():
        order = await loop.run_in_executor(None, pipe.recv)
        if order == "create":
            number += 1
            spec = {
                "sourceRepos": ["*"],
                "sourceNamespaces": ["agent-*"],
                "destinations": [{"name": "agent-*", "namespace": "*"}],
            }
            body = {"metadata": {"name": f"project-{number}"}, "spec": spec}
            await store.create(APP_PROJECTS, body, namespace=NAMESPACE)
        else:
            pipe.send(_mebibytes())


def _mebibytes() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def agent_name(number: int) -> str:
    return f"agent-{number}"


class Crowd:
    """Agents that do nothing but connect, as real ones do, listen and acknowledge."""

    def __init__(self, papers: Papers, port: int) -> None:
        # One certificate's key would do; a login looks at the name, so each has its own.
        self._dialing = [
            dialing(papers, port=port, pair=papers.agent(agent_name(number))) for number in range(AGENTS)
        ]
        self._welcomed: set[int] = set()
        self._restarts = 0
        self.projects = 0
        self._changed = asyncio.Condition()

    def restart(self) -> None:
        """What streams of before still bring counts no more."""
        self._restarts += 1
        self._welcomed.clear()
        self.projects = 0

    async def join(self, number: int) -> None:
        async def serve(connection: AgentConnection) -> None:
            principal = self._restarts
            while (event := await connection.receive()) is not None:
                if event.expects_acknowledgement:
                    await connection.send(acknowledgement(event, source=AGENT_SOURCE))
                if principal == self._restarts:
                    await self._note(number, event)

        await Reconnector(self._dialing[number]).run(serve)

    async def _note(self, number: int, event: Event) -> None:
        async with self._changed:
            self._welcomed.add(number)
            self.projects += event.target == Target.PROJECT
            self._changed.notify_all()

    async def complete(self) -> None:
        await self._until(lambda: len(self._welcomed) == AGENTS)

    async def told_of(self, projects: int) -> None:
        await self._until(lambda: self.projects >= AGENTS * projects)

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(WITHIN), self._changed:
            await self._changed.wait_for(condition)


def run() -> list[Figure]:
    """In a process of its own: grpc stays with the first event loop of a process."""
    with ProcessPoolExecutor(1, mp_context=SPAWN) as pool:
        return pool.submit(_run).result()


def _run() -> list[Figure]:
    quiet()
    return asyncio.run(_measured())


@asynccontextmanager
async def _principal_process(folder: str, port: int) -> AsyncIterator[tuple[Connection, float]]:
    """Told what to do through the pipe; and how many seconds it took to listen."""
    began = time.perf_counter()
    ours, theirs = SPAWN.Pipe()
    os.environ["MALLOC_ARENA_MAX"] = "2"  # as in the image
    with child(run_principal, folder, port, theirs):
        async with asyncio.timeout(START_SECONDS):
            await asyncio.to_thread(ours.recv)
        yield ours, time.perf_counter() - began


async def _measured() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        crowd = Crowd(Papers.write(Path(folder)), port := free_port())
        tasks = []
        try:
            async with _principal_process(folder, port):
                tasks = [asyncio.create_task(crowd.join(number)) for number in range(AGENTS)]
                await crowd.complete()
            crowd.restart()
            began = time.perf_counter()
            async with _principal_process(folder, port) as (pipe, started):
                await crowd.complete()
                back = time.perf_counter() - began
                times = []
                for number in (1, 2, 3):
                    began = time.perf_counter()
                    pipe.send("create")
                    await crowd.told_of(number)
                    times.append(time.perf_counter() - began)
                pipe.send("memory")
                memory = await asyncio.to_thread(pipe.recv)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    return [
        Figure(f"{AGENTS:,} agents are back after a principal's restart", back, "s", goal=CONNECT_GOAL),
        Figure("of which the principal's start", started, "s"),
        Figure(f"a principal with {AGENTS:,} agents occupies", memory, "MiB", goal=MEMORY_GOAL),
        Figure(f"a project reaches {AGENTS:,} agents", sorted(times)[1], "s", goal=FAN_OUT_GOAL),
    ]
