"""A clock that a test turns by hand, and short ways to make events."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from argocd.agents.vocabulary import Message, Target
from sidecars.delivery.timing import Timing
from sidecars.wire.events import Event, object_event


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime(2026, 11, 16, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def timing(clock: Clock) -> Timing:
    return Timing(monotonic=clock, now=clock.now, random=Random(7))


MakeEvent = Callable[..., Event]


@pytest.fixture
def make() -> MakeEvent:
    def event(
        kind: Message,
        name: str = "guestbook",
        version: int = 1,
        *,
        uid: str = "u1",
        padding: int = 0,
        target: Target = Target.APPLICATION,
    ) -> Event:
        metadata = {"name": name, "namespace": "argocd", "uid": uid, "resourceVersion": str(version)}
        return object_event(
            kind,
            target=target,
            obj={"metadata": metadata, "spec": {"padding": "x" * padding}},
        )

    return event
