"""Ends of replication streams for a simulation: messages travel as they are, and what is acknowledged is told."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from sidecars.replication.messages import PrimaryMessage, PrimaryWord, ReplicaMessage
from tests.simulation.network import Wire
from tiphys.errors import SurroundingsError

T = TypeVar("T")
HELLO_SECONDS = 10.0


class Controller:
    def __init__(self, count: Callable[[str], None]) -> None:
        self._count = count

    def syncing(self) -> None:
        self._count("syncs begun")

    def in_sync(self) -> None:
        self._count("syncs ended")

    def disconnected(self, reason: str) -> None:
        self._count(f"disconnected: {reason.split(' 0', maxsplit=1)[0][:30]}")


class StandbyEnd:
    """The standby's end of a stream: what it acknowledges is checked as it is said."""

    def __init__(self, wire: Wire, history: str, acknowledged: Callable[[str, int], None]) -> None:
        self._wire: Any = wire
        self.history = history
        self._acknowledged = acknowledged

    async def send(self, message: ReplicaMessage) -> None:
        self._acknowledged(self.history, message.acknowledged)
        await self._wire.send(message)

    async def receive(self) -> PrimaryMessage | None:
        return expected(await self._wire.receive(), PrimaryMessage)


class PrimaryEnd:
    def __init__(
        self,
        wire: Wire,
        spoil: Callable[[PrimaryMessage], PrimaryMessage],
        count: Callable[[str], None],
    ) -> None:
        self._wire: Any = wire
        self._spoil = spoil
        self._count = count
        self._sends_objects = False

    async def send(self, message: PrimaryMessage) -> None:
        if message.word is PrimaryWord.BEHIND and message.number > 1:
            self._count("log overflowed")
        self._sends_objects = message.word is PrimaryWord.OBJECTS or (
            self._sends_objects and message.word is not PrimaryWord.COMPLETE
        )
        await self._wire.send(self._spoil(message))

    def ended(self) -> None:
        if self._sends_objects:
            self._count("snapshots interrupted")

    async def receive(self) -> ReplicaMessage | None:
        return expected(await self._wire.receive(), ReplicaMessage)


def expected(said: Any, kind: type[T]) -> T | None:
    """A word of the beginning may come twice."""
    if said is not None and not isinstance(said, kind):
        raise SurroundingsError("another word than was due")
    return said


async def hello(wire: Any, kind: type[Any]) -> Any:
    try:
        async with asyncio.timeout(HELLO_SECONDS):
            said = await wire.receive()
    except TimeoutError as error:
        raise SurroundingsError("no word from the other end") from error
    if said is None:
        raise SurroundingsError("the other end has left")
    return expected(said, kind)
