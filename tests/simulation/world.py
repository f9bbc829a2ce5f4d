"""Everything that a simulation has: virtual time, a seed, a network, processes that can be killed, API
servers that fail, and a trace that is the same for the same seed.

To put a sidecar in here:

- a process is a coroutine function that is given its `Process`; it builds everything that a real process
  builds at its start, and what it keeps in local variables is lost when it is killed;
- its transport is `process.connect(place)` or `process.listen(accept)`, whose `Wire` is a
  `sidecars.delivery.session.Stream`; gRPC itself cannot run under virtual time;
- its clocks and dice are `world.timing` (`random`, `new_id` for ids), its API server `process.store(name)`,
  an embedded store that survives the process and fails as `world.faults` says;
- it waits on nothing real: no threads, sockets, subprocesses or `time.time()`.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from contextvars import copy_context
from functools import partial
from hashlib import blake2b
from random import Random
from typing import Any, TypeVar, cast
from uuid import UUID

from kube.embedded import Call, EmbeddedStore, Hooks, Phase
from kube.errors import ConflictError, GoneError, UnavailableError
from kube.store import Store, WatchEvent
from sidecars.delivery.timing import Timing
from tests.simulation.network import Accept, Network, Wire
from tests.simulation.virtual_time import OWNER, Pausable, VirtualLoop
from tiphys.errors import SurroundingsError

Program = Callable[["Process"], Awaitable[None]]
WRITES = frozenset({"create", "replace", "patch", "delete"})


T = TypeVar("T")


class Process(Pausable):
    """One life of a program; the next one is another `Process`."""

    def __init__(self, world: "World", name: str) -> None:
        super().__init__()
        self.world = world
        self.name = name
        self.alive = True
        self.context = copy_context()
        self.context.run(OWNER.set, self)
        self.calls: set[asyncio.Task[Any]] = set()

    async def called(self, work: Coroutine[Any, Any, T], *, calls: set[asyncio.Task[Any]]) -> T:
        """Done by this process for somebody outside, who hears no answer where it is killed meanwhile, or where the
        owner of `calls` cancels it.
        """
        loop = asyncio.get_running_loop()
        task = loop.create_task(work, name=f"{self.name} is called", context=self.context.copy())
        for each in (calls, self.calls):
            each.add(task)
            task.add_done_callback(each.discard)
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()
        if task.cancelled():
            raise SurroundingsError(f"{self.name} gave no answer")
        return task.result()

    async def connect(self, place: str) -> Wire:
        return await self.world.network.connect(self.name, place)

    def listen(self, accept: Accept) -> None:
        self.world.network.listen(self.name, accept)

    def store(self, name: str) -> Store:
        return cast("Store", Lifeline(self, self.world.store(name)))


class Lifeline:
    """A store that a killed process no longer reaches, whatever its clean-up tries; what goes wrong is counted."""

    def __init__(self, process: Process, store: EmbeddedStore) -> None:
        self._process = process
        self._store = store

    def __getattr__(self, name: str) -> Any:
        if not self._process.alive:
            raise UnavailableError(f"{self._process.name} is dead")
        call = getattr(self._store, name)
        if name == "watch":
            return partial(self._watch, call)
        return partial(self._write, call) if name in WRITES else call

    async def _watch(self, watch: Any, *told: Any, **more: Any) -> AsyncGenerator[WatchEvent, None]:
        try:
            async with aclosing(watch(*told, **more)) as events:
                async for event in events:
                    yield event
        except GoneError:
            self._process.world.count("watches refused with 410")
            raise

    async def _write(self, write: Any, *told: Any, **more: Any) -> Any:
        try:
            return await write(*told, **more)
        except ConflictError:
            self._process.world.count("conflicts")
            raise
        except UnavailableError:
            self._process.world.count("writes failed")
            raise


class World:
    def __init__(self, seed: int) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop), "a world needs virtual time: tests.simulation.virtual_time.run"
        self.loop = loop
        self.seed = seed
        self.random = Random(seed)
        self.counts: Counter[str] = Counter()
        self.network = Network(random=Random(self.random.random()), count=self.count)
        self.timing = Timing(monotonic=loop.time, now=loop.now, random=Random(self.random.random()))
        self.failing: float = 0.0  # probability that a call of an API server fails
        self._ids = Random(self.random.random())
        self._programs: dict[str, Program] = {}
        self._lives: dict[str, tuple[Process, asyncio.Task[None]]] = {}
        self._stores: dict[str, EmbeddedStore] = {}
        self._restarts: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._deaths: list[str] = []
        self._trace = blake2b(digest_size=8)
        self.lines: list[str] = []

    def new_id(self) -> str:
        return str(UUID(int=self._ids.getrandbits(128), version=4))

    def note(self, text: str) -> None:
        """A line of the trace: by it two runs of one seed are compared, and a failure is understood."""
        line = f"{self.loop.time():10.4f} {text}"
        self._trace.update(line.encode() + b"\n")
        self.lines.append(line)

    def count(self, what: str) -> None:
        """Something that a good simulation sometimes meets."""
        self.counts[what] += 1

    @property
    def digest(self) -> str:
        return self._trace.hexdigest()

    def store(self, name: str) -> EmbeddedStore:
        """The API server of that name; it never dies, only its answers fail."""
        if name not in self._stores:
            self._stores[name] = EmbeddedStore(
                hooks=Hooks(faults=partial(self._strike, name)),
                clock=self.loop.now,
                random=Random(self.random.random()),
            )
        return self._stores[name]

    async def _strike(self, store: str, call: Call) -> None:
        self.note(f"{store} {call.verb} {call.name} {call.phase}")
        await asyncio.sleep(self.random.uniform(0.001, 0.01))
        if self.random.random() < self.failing:
            self.count("API calls failed")
            raise UnavailableError(f"{call.verb} was not answered", outcome_unknown=call.phase is Phase.AFTER)

    # Processes.

    def start(self, name: str, program: Program | None = None) -> None:
        if program is not None:
            self._programs[name] = program
        self.note(f"start {name}")
        process = Process(self, name)
        task = self.loop.create_task(self._live(process), name=name, context=process.context.copy())
        self._lives[name] = (process, task)

    async def _live(self, process: Process) -> None:
        try:
            await self._programs[process.name](process)
        except Exception as error:  # noqa: BLE001 - any death that nobody ordered fails the simulation
            self._deaths.append(f"{process.name} died: {error!r}")
            self.note(self._deaths[-1])

    async def kill(self, name: str) -> None:
        """At once, like SIGKILL: what its clean-up does reaches neither the network nor an API server."""
        process, task = self._lives[name]
        process.alive = False
        self.note(f"kill {name}")
        self.count("processes killed")
        tasks = [task, *self.network.kill(name), *process.calls]
        for each in tasks:
            each.cancel()
        process.resume()  # whoever is dead cannot do anything any more
        await asyncio.gather(*tasks, return_exceptions=True)

    async def restart(self, name: str, seconds: float) -> None:
        """Killed, and started again after a while; by one hand at a time: a second kill would meet one that starts."""
        async with self._restarts[name]:
            await self.kill(name)
            await asyncio.sleep(seconds)
            self.start(name)

    async def pause(self, name: str, seconds: float) -> None:
        """SIGSTOP, and SIGCONT afterwards, unless it was killed meanwhile."""
        process, _ = self._lives[name]
        if process.paused:
            return
        process.paused = True
        self.note(f"pause {name}")
        self.count("processes paused")
        await asyncio.sleep(seconds)
        self.note(f"resume {name}")
        process.resume()

    async def stop(self) -> None:
        for name in self._lives:
            await self.kill(name)

    def deaths(self) -> list[str]:
        """Processes that ended although nobody killed them."""
        return list(self._deaths)
