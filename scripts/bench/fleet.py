"""A thousand agents of one principal on the embedded store: how soon they are back, what they weigh, a fan-out."""

import asyncio
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from argocd import names
from kube.embedded import EmbeddedStore
from kube.resources import APP_PROJECTS, SECRETS
from scripts.bench.figures import Figure
from scripts.bench.sidecar_processes import (
    NAMESPACE,
    SPAWN,
    START_SECONDS,
    Papers,
    child,
    dialing,
    free_port,
    principal_of,
    quiet,
)
from sidecars.wire.dialing import AgentConnection, DialError, connect
from sidecars.wire.events import AGENT_SOURCE, Event, Target, acknowledgement

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
        name = _agent(number)
        body = {
            "metadata": {
                "name": f"cluster-{name}",
                "labels": {names.SECRET_TYPE: "cluster", names.AGENT_NAME: name},
            },
            "stringData": {"name": name, "server": f"https://proxy?agentName={name}", "config": "{}"},
        }
        await store.create(SECRETS, body, namespace=NAMESPACE)
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


def _agent(number: int) -> str:
    return f"agent-{number}"


class Crowd:
    """Agents that do nothing but connect, listen and acknowledge."""

    def __init__(self, papers: Papers, port: int) -> None:
        # One certificate's key would do; a login looks at the name, so each has its own.
        self._dialing = [
            dialing(papers, port=port, pair=papers.agent(_agent(number))) for number in range(AGENTS)
        ]
        self.welcomed = 0
        self.projects = 0
        self.changed = asyncio.Condition()

    async def join(self, number: int) -> None:
        connection = await self._connected(number)
        first = True
        try:
            while (event := await connection.receive()) is not None:
                if event.expects_acknowledgement:
                    await connection.send(acknowledgement(event, source=AGENT_SOURCE))
                await self._noted(event, first=first)
                first = False
        finally:
            await connection.close()

    async def _connected(self, number: int) -> AgentConnection:
        wait = 0.2
        while True:
            try:
                return await connect(replace(self._dialing[number]))
            except DialError:
                await asyncio.sleep(wait)
                wait = min(wait * 2, 2.0)

    async def _noted(self, event: Event, *, first: bool) -> None:
        async with self.changed:
            self.welcomed += first
            self.projects += event.target == Target.APPPROJECT
            self.changed.notify_all()

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(WITHIN), self.changed:
            await self.changed.wait_for(condition)


def run() -> list[Figure]:
    """In a process of its own: grpc stays with the first event loop of a process."""
    with ProcessPoolExecutor(1, mp_context=SPAWN) as pool:
        return pool.submit(_run).result()


def _run() -> list[Figure]:
    return asyncio.run(_measured())


async def _measured() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        papers = Papers.write(Path(folder))
        port = free_port()
        crowd = Crowd(papers, port)
        ours, theirs = SPAWN.Pipe()
        with child(run_principal, folder, port, theirs):
            loop = asyncio.get_running_loop()
            async with asyncio.timeout(START_SECONDS):
                await loop.run_in_executor(None, ours.recv)
            started = time.perf_counter()
            tasks = [asyncio.ensure_future(crowd.join(number)) for number in range(AGENTS)]
            try:
                await crowd.until(lambda: crowd.welcomed == AGENTS)
                joined = time.perf_counter() - started
                times = []
                for number in (1, 2, 3):
                    started = time.perf_counter()
                    ours.send("create")
                    await crowd.until(lambda number=number: crowd.projects >= AGENTS * number)
                    times.append(time.perf_counter() - started)
                ours.send("memory")
                memory = await loop.run_in_executor(None, ours.recv)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
    return [
        Figure(
            f"{AGENTS:,} agents connect to a principal that has just begun", joined, "s", goal=CONNECT_GOAL
        ),
        Figure(f"a principal with {AGENTS:,} agents occupies", memory, "MiB", goal=MEMORY_GOAL),
        Figure(f"a project reaches {AGENTS:,} agents", sorted(times)[1], "s", goal=FAN_OUT_GOAL),
    ]
