"""Writers in a process of their own, who write wherever they are let in: beside fifty agents in one process their turns
would come late, and what is measured would be that process.

Each write leaves a key of its own in an Application, so that one that is lost is missed; every tenth creates an Application
or deletes one.
"""

import asyncio
import multiprocessing
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count, cycle
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from kube.errors import ForbiddenError, NotFoundError
from kube.live import LiveStore
from kube.resources import APPLICATIONS
from kube.store import Object, PatchKind
from tests.cluster.paired_hubs import connected
from tests.sidecars.pair_in_memory import application

PER_AGENT = 40
"""Each key is an entry of managedFields too: an API server takes three times as long for an object with 200 of them."""
EVERY_TENTH = 10
WRITERS = 32
"""At once, at most: what a machine cannot carry is skipped, not piled up."""
SECONDS = 120.0
_REFUSED_PAUSE = 0.1
"""While nobody serves all writers ask both hubs again and again: what they take is missing to the switchover."""
_SPAWN = multiprocessing.get_context("spawn")

Place = tuple[str, str]
"""An agent and an Application."""


@dataclass(frozen=True, slots=True)
class AcceptedWrite:
    """`steady`: one of those whose rate is asked for, not an operation. Clocks of a machine's processes are one."""

    hub: str
    began: float
    steady: bool


@dataclass
class Written:
    wanted: dict[Place, set[str]] = field(default_factory=lambda: defaultdict(set))
    """The keys of the writes that a hub has accepted."""
    gone: set[Place] = field(default_factory=set)
    """Applications whose deletion a hub has accepted."""
    accepted: list[AcceptedWrite] = field(default_factory=list)
    skipped: int = 0
    """Turns in which the Application's last write, or too many others, were still under way."""


class ActiveHub:
    """Where a writer tries first; `stores` are by hub."""

    def __init__(self, stores: Mapping[str, LiveStore], active: str) -> None:
        self._stores = stores
        self.name = active

    async def accept(
        self, write: Callable[[LiveStore], Awaitable[Any]], *, steady: bool = True
    ) -> AcceptedWrite:
        hub = self.name
        async with asyncio.timeout(SECONDS):
            while True:
                began = time.monotonic()
                try:
                    await write(self._stores[hub])
                except (ForbiddenError, NotFoundError) as error:
                    # A standby that has not got it yet does not ask its fence whether it may be deleted.
                    if isinstance(error, ForbiddenError) and "this cluster is a standby" not in str(error):
                        raise
                    await asyncio.sleep(_REFUSED_PAUSE)
                    (hub,) = set(self._stores) - {hub}
                    continue
                return AcceptedWrite(hub, began, steady)

    async def patch(self, place: Place, patch: Object, *, steady: bool = True) -> AcceptedWrite:
        namespace, name = place
        return await self.accept(
            lambda store: store.patch(
                APPLICATIONS, patch, name=name, namespace=namespace, kind=PatchKind.MERGE
            ),
            steady=steady,
        )


class SteadyWriters:
    """In the test's process: starts the other, says which hub is active, and has what was written at the end."""

    def __init__(self, kubeconfigs: Mapping[str, Path], agents: list[str], *, active: str) -> None:
        self._arguments = ({hub: str(path) for hub, path in kubeconfigs.items()}, agents, active)
        self._pipe: Connection | None = None
        self.written = Written()

    def follow(self, active: str) -> None:
        if self._pipe is not None:
            self._pipe.send(active)

    @asynccontextmanager
    async def writing(self, *, rate: float) -> AsyncIterator[None]:
        """Until the block ends and the last write is accepted."""
        self._pipe, theirs = _SPAWN.Pipe()
        process = _SPAWN.Process(target=_main, args=(*self._arguments, rate, theirs), daemon=True)
        process.start()
        theirs.close()
        try:
            await self._received()  # it has imported everything and writes
            yield
            self._pipe.send("")
            self.written = await self._received()
        finally:
            self._pipe = None
            process.kill()
            await asyncio.to_thread(process.join, SECONDS)

    async def _received(self) -> Any:
        assert self._pipe is not None
        if not await asyncio.to_thread(self._pipe.poll, SECONDS):
            raise TimeoutError("the writers say nothing")
        return await asyncio.to_thread(self._pipe.recv)


def _main(kubeconfigs: dict[str, str], agents: list[str], active: str, rate: float, pipe: Connection) -> None:
    asyncio.run(_write_until_told(kubeconfigs, agents, active, rate, pipe))


async def _write_until_told(
    kubeconfigs: dict[str, str], agents: list[str], active: str, rate: float, pipe: Connection
) -> None:
    async with AsyncExitStack() as stack:
        stores = {
            hub: await stack.enter_async_context(connected(Path(path))) for hub, path in kubeconfigs.items()
        }
        work = _Work(ActiveHub(stores, active), agents)
        pipe.send(None)
        asyncio.get_running_loop().add_reader(pipe.fileno(), work.listen, pipe)
        await work.run(rate)
        pipe.send(work.written)


class _Work:
    def __init__(self, hub: ActiveHub, agents: list[str]) -> None:
        self.written = Written()
        self._hub = hub
        self._places = cycle([(agent, name) for agent in agents for name in application_names()])
        self._stopping = False
        self._ids = count(1)
        self._comes = cycle([True, True, False])
        """Whether the next of every tenth creates an Application: two do, one deletes the oldest of them."""
        self._brief: deque[Place] = deque()
        """Those that were created under load and are there, the oldest first."""

    def listen(self, pipe: Connection) -> None:
        word = pipe.recv()
        self._stopping = not word
        self._hub.name = word or self._hub.name

    async def run(self, rate: float) -> None:
        busy: set[Place] = set()
        due = time.monotonic()
        async with asyncio.TaskGroup() as group:
            while not self._stopping:
                due = max(due + 1 / rate, time.monotonic() - 1)
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                place = next(self._places)
                if place in busy or len(busy) >= WRITERS:
                    self.written.skipped += 1
                    continue
                busy.add(place)
                task = group.create_task(self._write(place))
                task.add_done_callback(partial(_freed, busy, place))

    async def _write(self, place: Place) -> None:
        number = next(self._ids)
        if number % EVERY_TENTH == 0:
            await self._come_or_go(place[0], f"brief-{number}")
            return
        key = f"w{number}"
        patch = {"spec": {"source": {"helm": {"valuesObject": {key: True}}}}}
        self.written.accepted.append(await self._hub.patch(place, patch))
        self.written.wanted[place].add(key)

    async def _come_or_go(self, agent: str, name: str) -> None:
        if next(self._comes) or not self._brief:
            item = new_application(agent, name)
            made = await self._hub.accept(lambda store: store.create(APPLICATIONS, item, namespace=agent))
            self.written.accepted.append(made)
            self.written.wanted[agent, name] = set()
            self._brief.append((agent, name))
            return
        agent, name = place = self._brief.popleft()
        deleted = await self._hub.accept(lambda store: store.delete(APPLICATIONS, name=name, namespace=agent))
        self.written.accepted.append(deleted)
        del self.written.wanted[place]
        self.written.gone.add(place)


def _freed(busy: set[Place], place: Place, _task: asyncio.Task[None]) -> None:
    busy.discard(place)


def application_names() -> list[str]:
    return [f"app-{number}" for number in range(PER_AGENT)]


def new_application(agent: str, name: str, *, labels: dict[str, str] | None = None) -> Object:
    item = application(name, metadata={"labels": labels or {}})
    item["spec"]["destination"]["name"] = agent
    return item
