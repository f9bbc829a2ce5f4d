"""An inbox whose handler does what a test tells it."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from sidecars.delivery.inbox import Inbox, InboxLimits
from sidecars.delivery.observers import InboxObserver
from sidecars.delivery.outcomes import DeadLetter
from sidecars.delivery.timing import Backoff, Timing
from sidecars.wire.events import Event

SECOND = Backoff(base=1.0, factor=1.0, jitter=0.0)


class World:
    """A handler that does what a test tells it, and all that came of it."""

    def __init__(self, **options: Any) -> None:
        loop = asyncio.get_running_loop()
        self.time = loop.time
        self.begun: list[str] = []
        self.applied: list[str] = []
        self.acknowledged: list[str] = []
        self.letters: list[DeadLetter] = []
        self.seen: list[str] = []
        self.plans: dict[str, Callable[[], Awaitable[None]]] = {}
        world = self

        class Observer(InboxObserver):
            def duplicate(self, peer: str, event: Event) -> None:
                world.seen.append("duplicate")

            def crashed(self, peer: str, event: Event, error: Exception) -> None:
                world.seen.append("crash")

            def retried(self, peer: str, event: Event, error: Exception) -> None:
                world.seen.append("retry")

        self.inbox = Inbox(
            peer="agent-a",
            handle=self.handle,
            acknowledge=lambda event: self.acknowledged.append(name(event)),
            observer=Observer(),
            timing=Timing(monotonic=loop.time, random=Random(1)),
            **{"limits": InboxLimits(retry=SECOND), "report": self.report, **options},
        )

    async def handle(self, event: Event) -> None:
        self.begun.append(name(event))
        plan = self.plans.get(name(event))
        if plan is not None:
            await plan()
        self.applied.append(name(event))

    async def report(self, letter: DeadLetter) -> None:
        self.letters.append(letter)

    async def put(self, *events: Event) -> None:
        for event in events:
            await self.inbox.put(event)

    async def settled(self) -> None:
        async with asyncio.timeout(10_000):
            await self.inbox.settled()


def name(event: Event) -> str:
    return f"{event.subject.rpartition('/')[2]} {event.event_id.rpartition('_')[2]}"


def failing(*errors: Exception) -> Callable[[], Awaitable[None]]:
    """Raises them one after the other, then succeeds."""
    left = list(errors)

    async def plan() -> None:
        await asyncio.sleep(0)
        if left:
            raise left.pop(0)

    return plan
