"""Crowds who read a live object, each in a process of its own that stands still between turns."""

import asyncio
import os
import random as randomness
import signal
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from kube.live import LiveStore
from scripts.bench.paired import AGENT
from scripts.bench.sidecar_processes import NAMESPACE, SPAWN, child

PATH = f"/api/v1/namespaces/{NAMESPACE}/configmaps/prices"
START_SECONDS = 60.0
READS_EACH = 3
_OK = 200
_MAX_BYTES = 1 << 20

Read = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Crowd:
    process: int
    count: Any
    """Of reads so far, shared with the process; `interval` is what each reader lets pass between two of its own."""
    interval: Any

    @property
    def reads(self) -> int:
        return int(self.count.value)

    def stand_still(self) -> None:
        os.kill(self.process, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.process, signal.SIGCONT)

    def read_at(self, rate: float) -> None:
        """All together, in a second, from now on; once at least, for in a short turn nobody may have read."""
        self.interval.value = 1 / max(rate, 1.0)


@contextmanager
def crowd(work: Callable[..., None], *arguments: Any, readers: int) -> Iterator[Crowd]:
    count, interval = SPAWN.Value("q", 0, lock=False), SPAWN.Value("d", 0.0, lock=False)
    with child(work, *arguments, readers, count, interval) as process:
        deadline = time.monotonic() + START_SECONDS
        while (
            count.value < READS_EACH * readers
        ):  # it imports and connects; half a handshake must not stand still
            if not process.is_alive() or time.monotonic() > deadline:
                raise AssertionError("the readers have not begun to read")
            time.sleep(0.05)
        found = Crowd(process.pid, count, interval)
        found.stand_still()
        yield found


class Reader:
    """Through a principal's resource proxy, as Argo CD reads."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def read(self) -> float:
        """The milliseconds that it took."""
        started = time.perf_counter()
        async with self._session.get(self._url) as response:
            body = await response.read()
            if response.status != _OK:
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


def read_through(folder: str, port: int, looking: float, readers: int, count: Any, _interval: Any) -> None:
    """People who look at pages: each reads, and looks at what it read for a moment, or they are programs and do not."""
    random = randomness.Random(readers)  # noqa: S311 - people who go on in step would all read in the same moment

    async def read(found: Reader) -> None:
        while True:
            await found.read()
            count.value += 1
            await asyncio.sleep(looking * random.uniform(0.5, 1.5))

    async def main() -> None:
        async with reader(Path(folder), port) as found, asyncio.TaskGroup() as group:
            for _ in range(readers):
                group.create_task(read(found))

    asyncio.run(main())


def read_directly(kubeconfig: str, readers: int, count: Any, interval: Any) -> None:
    """Of the agent's API server, as the agent would, and no more in a second than they are told."""

    async def read(store: LiveStore) -> None:
        while True:
            began = time.perf_counter()
            answer = await store.raw.request("GET", PATH, max_bytes=_MAX_BYTES)
            if answer.status != _OK:
                raise AssertionError(f"{answer.status}: {answer.body[:300]!r}")
            count.value += 1
            await asyncio.sleep(max(0.0, interval.value * readers - (time.perf_counter() - began)))

    async def main() -> None:
        store = await LiveStore.connect(kubeconfig=kubeconfig)
        async with asyncio.TaskGroup() as group:
            for _ in range(readers):
                group.create_task(read(store))

    asyncio.run(main())
