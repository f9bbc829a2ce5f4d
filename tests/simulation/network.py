"""A network that loses, doubles, delays and reorders messages, cuts connections and keeps sides apart.

Real streams lose no message in the middle. This one may, so that what holds here holds there: `Weather`
says how bad it is, and a seed says what happens.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextvars import Context, copy_context
from dataclasses import dataclass
from random import Random

from sidecars.wire.events import Event
from tiphys.errors import SurroundingsError

# Messages that a transport takes before `send` waits for the other end to read.
IN_TRANSIT = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """Probabilities per message, and seconds."""

    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0
    latency: tuple[float, float] = (0.001, 0.005)
    straying: tuple[float, float] = (0.05, 3.0)
    """How much later a reordered message or a second copy arrives."""
    noticing: tuple[float, float] = (0.01, 20.0)
    """How long an end of a dead connection goes on believing in it."""


FINE = Weather()

Accept = Callable[["Wire"], Awaitable[None]]


class Wire:
    """One end of a connection; a `sidecars.delivery.session.Stream`."""

    def __init__(self, network: "Network", *, here: str, there: str) -> None:
        self.here = here
        self.there = there
        self._network = network
        self._other: Wire | None = None
        self._arrived: deque[Event] = deque()
        self._in_transit = 0
        self._last_arrival = 0.0
        self._error: SurroundingsError | None = None
        self._finished = False
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None

    async def send(self, event: Event) -> None:
        while self._error is None and self._in_transit >= IN_TRANSIT:
            self._writer = asyncio.get_running_loop().create_future()
            await self._writer
        if self._error is not None:
            raise self._error
        self._network.carry(self, event)

    async def send_many(self, events: Iterable[Event]) -> None:
        for event in events:
            await self.send(event)

    async def receive(self) -> Event | None:
        while not self._arrived:
            if self._error is not None:
                raise self._error
            if self._finished:
                return None
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        event = self._arrived.popleft()
        if self._other is not None:
            self._other._read()
        return event

    def finish(self) -> None:
        """Says goodbye: the other end reads what is on its way, then None."""
        self._network.later(self, self._other_end.end_of_stream)
        self.fail("the connection is closed")

    def fail(self, reason: str) -> None:
        """This end notices that the connection is lost; what it has not read yet is lost too."""
        if self._error is None:
            self._error = SurroundingsError(f"{self.here} lost {self.there}: {reason}")
            self._arrived.clear()
        self._wake()

    def end_of_stream(self) -> None:
        self._finished = True
        self._wake()

    @property
    def alive(self) -> bool:
        return self._error is None

    @property
    def _other_end(self) -> "Wire":
        assert self._other is not None
        return self._other

    def join(self, other: "Wire") -> None:
        self._other = other

    def arrive(self, event: Event) -> None:
        if self._error is None and not self._finished:
            self._arrived.append(event)
            self._wake()
        else:
            self._other_end._read()

    def arrival(self, moment: float, *, in_order: bool) -> float:
        """When a message that this end sends arrives; no earlier than the one before it."""
        if in_order:
            # Not at the same moment: a loop's timers of one moment have no order.
            moment = self._last_arrival = max(moment, self._last_arrival + 1e-6)
        return moment

    def take_off(self) -> None:
        self._in_transit += 1

    def _read(self) -> None:
        self._in_transit -= 1
        if self._writer is not None and not self._writer.done():
            self._writer.set_result(None)

    def _wake(self) -> None:
        for waiter in (self._reader, self._writer):
            if waiter is not None and not waiter.done():
                waiter.set_result(None)


class Network:
    def __init__(self, *, random: Random, count: Callable[[str], None] = lambda _: None) -> None:
        self.weather = FINE
        self._random = random
        self._count = count
        self._listeners: dict[str, tuple[Accept, Context]] = {}
        self._wires: list[Wire] = []
        self._walls: dict[frozenset[str], None] = {}
        self._slow: dict[str, float] = {}
        self._servers: dict[asyncio.Task[None], str] = {}

    def listen(self, place: str, accept: Accept) -> None:
        """`accept` is run for every connection, as a server runs a handler; a killed place stops listening."""
        self._listeners[place] = (accept, copy_context())

    async def connect(self, here: str, there: str) -> Wire:
        await asyncio.sleep(self._random.uniform(*self.weather.latency))
        listener = self._listeners.get(there)
        if listener is None or self._apart(here, there):
            await asyncio.sleep(self._random.uniform(0.01, 2.0))
            raise SurroundingsError(f"{here} cannot reach {there}")
        mine, theirs = Wire(self, here=here, there=there), Wire(self, here=there, there=here)
        mine.join(theirs)
        theirs.join(mine)
        self._wires = [wire for wire in self._wires if wire.alive] + [mine, theirs]
        accept, context = listener
        server = asyncio.get_running_loop().create_task(
            self._serve(accept, theirs), name=f"{there} serves", context=context.copy()
        )
        self._servers[server] = there
        server.add_done_callback(self._servers.pop)
        return mine

    async def _serve(self, accept: Accept, wire: Wire) -> None:
        try:
            await accept(wire)
        except SurroundingsError:
            self._count("connections broken")
        finally:
            if wire.alive:
                wire.finish()

    def carry(self, wire: Wire, event: Event) -> None:
        weather = self.weather
        if self._apart(wire.here, wire.there) or self._random.random() < weather.loss:
            self._count("messages lost")
            return
        wire.take_off()
        delay = self._random.uniform(*weather.latency) + self._slowness(wire)
        strays = self._random.random() < weather.reordering
        if strays:
            self._count("messages reordered")
            delay += self._random.uniform(*weather.straying)
        self._deliver(wire, event, delay, in_order=not strays)
        if self._random.random() < weather.duplication:
            self._count("messages doubled")
            wire.take_off()
            self._deliver(wire, event, delay + self._random.uniform(*weather.straying), in_order=False)

    def later(self, wire: Wire, action: Callable[[], None]) -> None:
        """After everything that the wire's end has sent in order."""
        loop = asyncio.get_running_loop()
        moment = loop.time() + self._random.uniform(*self.weather.latency)
        loop.call_at(wire.arrival(moment, in_order=True), action, context=Context())

    def _deliver(self, wire: Wire, event: Event, delay: float, *, in_order: bool) -> None:
        loop = asyncio.get_running_loop()
        loop.call_at(
            wire.arrival(loop.time() + delay, in_order=in_order),
            wire._other_end.arrive,
            event,
            context=Context(),  # on its way whatever becomes of its sender
        )

    def _apart(self, one: str, two: str) -> bool:
        return frozenset((one, two)) in self._walls

    def _slowness(self, wire: Wire) -> float:
        return max(self._slow.get(wire.here, 0.0), self._slow.get(wire.there, 0.0))

    # What can go wrong.

    def part(self, one: str, two: str) -> None:
        """Nothing passes between the two; each notices in its own time."""
        self._walls[frozenset((one, two))] = None
        self._doom(lambda wire: {wire.here, wire.there} == {one, two}, "no answer")

    def reunite(self, one: str, two: str) -> None:
        self._walls.pop(frozenset((one, two)), None)

    def cut(self, place: str) -> None:
        """Every connection of the place is reset; new ones are possible at once."""
        for wire in self._wires:
            if place in (wire.here, wire.there):
                wire.fail("connection reset")

    def is_slow(self, place: str) -> bool:
        return self._slow.get(place, 0.0) > 0.0

    def slow_down(self, place: str, seconds: float) -> None:
        """Every message from or to the place takes that much longer."""
        self._slow[place] = seconds

    def kill(self, place: str) -> list[asyncio.Task[None]]:
        """The process is gone: it hears and says nothing any more; the others notice in their time. Returns
        the tasks that served connections, cancelled.
        """
        self._listeners.pop(place, None)
        for wire in self._wires:
            if wire.here == place:
                wire.fail("the process was killed")
        self._doom(lambda wire: wire.there == place, "no answer")
        servers = [task for task, owner in self._servers.items() if owner == place]
        for task in servers:
            task.cancel()
        return servers

    def heal(self) -> None:
        """Fine weather, no walls, nobody slow."""
        self.weather = FINE
        self._walls.clear()
        self._slow.clear()

    def _doom(self, concerned: Callable[[Wire], bool], reason: str) -> None:
        loop = asyncio.get_running_loop()
        for wire in self._wires:
            if wire.alive and concerned(wire):
                loop.call_later(
                    self._random.uniform(*self.weather.noticing), wire.fail, reason, context=Context()
                )
