"""The same with peers that are argocd-agent's as far as either end can tell: no batches, no comparisons by
ranges, nobody but ours asks again, and some of what they acknowledge they never write.
"""

from collections.abc import Iterable

from argocd.agents.vocabulary import OBJECT_TARGETS, PREFIX
from sidecars.delivery.session import Stream
from sidecars.wire.events import Event, acknowledgement
from tests.simulation.network import Wire
from tests.simulation.sidecars import AUTONOMOUS, Sidecars
from tests.simulation.world import World

NEVER = 1e9
FORGETFUL = 0.05
"""Of the state that a peer is told. What it forgets of an Application that is operated on takes a command with
it, of which nobody would know.
"""
STATE = frozenset(PREFIX + word for word in ("create", "spec-update", "status-update", "delete"))

STATUS = PREFIX + "status-update"


class PlainSidecars(Sidecars):
    name = "plain"
    extensions: frozenset[str] = frozenset()

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._storming = True
        self._ours = self._random.choice(("principal", "agents"))
        if self._ours == "principal":
            self.agents_compare = NEVER
        else:
            self.principal_compares = NEVER

    async def work(self, seconds: float) -> None:
        await super().work(seconds)
        self._storming = False

    def stream(self, wire: Wire) -> Stream:
        theirs = (wire.here == "hub") == (self._ours == "agents")
        # What an autonomous agent never sent looks the same to a principal as what it never took.
        return _Forgetful(wire, self) if theirs or AUTONOMOUS in (wire.here, wire.there) else wire

    def forgets(self, event: Event) -> bool:
        if not self._storming or event.target not in OBJECT_TARGETS or event.type not in STATE:
            return False
        if event.type != STATUS and "/lasting-" in event.subject:
            return False
        forgotten = self._world.timing.random.random() < FORGETFUL
        if forgotten:
            self._world.count("events forgotten")
        return forgotten


class _Forgetful:
    def __init__(self, wire: Wire, sidecars: PlainSidecars) -> None:
        self._wire = wire
        self._sidecars = sidecars

    async def send(self, event: Event) -> None:
        await self._wire.send(event)

    async def send_many(self, events: Iterable[Event]) -> None:
        await self._wire.send_many(events)

    async def receive(self) -> Event | None:
        while (event := await self._wire.receive()) is not None and self._sidecars.forgets(event):
            await self._wire.send(acknowledgement(event))
        return event
