"""People who ask for live objects, change some and leave, while the sidecars live through every storm."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from random import Random

from argocd.agents.vocabulary import Target
from sidecars.agent.agent import Agent
from sidecars.delivery.session import Stream
from sidecars.principal.principal import Principal
from sidecars.proxies.requests import RequestError
from sidecars.wire.events import Event, message_event
from tests.simulation.network import Wire
from tests.simulation.sidecars import MODES, OURS, Sidecars
from tests.simulation.world import World

PATIENCE = 30.0
CALLERS = 8
CHANGES = ("POST", "DELETE")


class _Effects:
    """What requests do at an agent: counted, after a while."""

    def __init__(self, scenario: "LiveRequests", random: Random) -> None:
        self._scenario = scenario
        self._random = random

    async def handle(self, event: Event) -> bytes | None:
        await asyncio.sleep(self._random.choice((0.0, 0.01, 1.0, 20.0)))
        self._scenario.ran[event.event_id] += 1
        return event.payload

    def refusal(self, event: Event, *, status: int, message: str) -> bytes | None:
        return b"refused"

    def mutates(self, event: Event) -> bool:
        return event.type != "GET"


class LiveRequests(Sidecars):
    name = "live-requests"
    extensions = OURS

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._callers = Random(world.random.random())
        self._principal: Principal | None = None
        self.ran: Counter[str] = Counter()
        self._changes: dict[str, str] = {}
        """By event id: how its caller saw it end."""
        self._open = 0
        self._late: list[str] = []

    def principal_made(self, principal: Principal) -> None:
        self._principal = principal

    def agent_made(self, name: str, agent: Agent) -> None:
        agent.dispatcher.serve(Target.RESOURCE, _Effects(self, Random(self._callers.random())), slots=4)

    async def work(self, seconds: float) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(super().work(seconds))
            for number in range(CALLERS):
                group.create_task(
                    self._call(Random(self._callers.random()), seconds), name=f"caller {number}"
                )

    async def _call(self, random: Random, seconds: float) -> None:
        loop = self._world.loop
        end = loop.time() + seconds
        while loop.time() < end:
            await asyncio.sleep(random.choice((0.1, 0.5, 2.0)))
            if self._principal is not None:
                await self._ask(self._principal, random)

    async def _ask(self, principal: Principal, random: Random) -> None:
        method, agent = random.choice(("GET", "GET", *CHANGES)), random.choice(list(MODES))
        event = message_event(method, target=Target.RESOURCE, payload=b"x", new_id=self._world.new_id)
        leaves = random.random() < 0.2
        began, outcome = self._world.loop.time(), "answered"
        self._open += 1
        asking = asyncio.ensure_future(
            principal.requests.ask(agent, event, seconds=PATIENCE, mutates=method != "GET")
        )
        try:
            if leaves:
                await asyncio.wait({asking}, timeout=random.choice((0.0, 0.5, 5.0)))
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
                outcome = "left"
            else:
                await asking
        except RequestError as error:
            outcome = type(error).__name__
        finally:
            self._open -= 1
        self._world.count(f"requests: {outcome}")
        if self._world.loop.time() - began > PATIENCE + 1:
            self._late.append(f"a caller waited {self._world.loop.time() - began:.0f} s")
        if method != "GET":
            self._changes[event.event_id] = outcome

    async def unfinished(self) -> list[str]:
        open_ = [f"{self._open} callers have no answer"] if self._open else []
        return [*await super().unfinished(), *open_]

    def violations(self) -> list[str]:
        found = [*super().violations(), *self._late]
        for event_id, outcome in self._changes.items():
            runs = self.ran[event_id]
            if runs > 1:
                found.append(f"a change ran {runs} times, and its caller saw: {outcome}")
        return found


class _CountedSends:
    """An end of a wire. The wire may carry a message twice, as grpc never does: what counts is how often it was sent."""

    def __init__(self, wire: Wire, sent: Counter[str]) -> None:
        self._sent = sent
        self.receive = wire.receive
        self._send = wire.send

    async def send(self, event: Event) -> None:
        if event.target == Target.RESOURCE and event.type in CHANGES:
            self._sent[event.event_id] += 1
        await self._send(event)

    async def send_many(self, events: Iterable[Event]) -> None:
        for event in events:
            await self.send(event)


class PlainRequests(LiveRequests):
    """Towards an argocd-agent: no deadlines, no withdrawals, nothing sent twice."""

    name = "plain-requests"
    extensions = frozenset()

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._sent: Counter[str] = Counter()

    def stream(self, wire: Wire) -> Stream:
        return _CountedSends(wire, self._sent)

    def violations(self) -> list[str]:
        again = [f"a change was sent {times} times" for times in self._sent.values() if times > 1]
        return [*super().violations(), *again]
