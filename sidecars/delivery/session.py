"""Joins one peer's outbox and inbox to a stream, for as long as that lives; both ends use it.

The principal keeps a `Queues` for every agent, an agent one for its principal. Queues outlive streams: when a
stream dies the next one carries on, and a second stream of the same peer ends the first before it begins.
"""

import asyncio
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Protocol

from sidecars.delivery.inbox import Inbox
from sidecars.delivery.lanes import Lane, lane_of
from sidecars.delivery.outbox import Outbox
from sidecars.wire.events import Event
from sidecars.wire.waiting import first_of
from tiphys.errors import ObjectError, SurroundingsError


class Stream(Protocol):
    """One connection. Either call may raise `SurroundingsError` when it is lost."""

    async def send(self, event: Event) -> None:
        """Returns when the transport has taken it; raises `ObjectError` for an event that it never will."""
        ...

    async def send_many(self, events: Iterable[Event]) -> None:
        """In as few messages as the peer understands."""
        ...

    async def receive(self) -> Event | None:
        """None when the peer has finished. An idle stream is no error: the transport's keepalive notices
        a dead one.
        """
        ...


class Ending(StrEnum):
    """Why a stream is no longer served."""

    FINISHED = "the peer finished"
    SUPERSEDED = "a newer stream of the same peer took over"
    STOPPED = "we stopped"


# A peer that does not read for a minute is as good as gone; its next stream gets everything.
SEND_SECONDS = 60.0
# What travels in one message when there is a backlog and the peer takes batches. An acknowledgement that
# comes up meanwhile waits for no more than this.
BATCH_EVENTS = 64
BATCH_BYTES = 256 << 10
# Reader and writer end at once when they are cancelled, unless a transport hangs in its clean-up.
HANDOVER_SECONDS = 10.0


Interact = Callable[[Event], None]
"""Takes a request or an answer of somebody who waits; returns at once."""


def _nobody_waits(event: Event) -> None:
    """This end has no proxies."""


class _Session:
    __slots__ = ("_batch", "_interact", "_stream", "_tasks", "ended", "ending")

    def __init__(self, stream: Stream, *, batches: bool, interact: Interact) -> None:
        self._stream = stream
        self._interact = interact
        self._batch = BATCH_EVENTS if batches else 1
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        self.ending: Ending | None = None
        self.ended = asyncio.get_running_loop().create_future()

    async def run(self, outbox: Outbox, inbox: Inbox) -> None:
        """Raises what broke the stream. (Python 3.11's TaskGroup is not used: it forgets that it was
        cancelled when a child fails in the same moment, and the stream of a stopping process would go on.)
        """
        outbox.resume()
        loop = asyncio.get_running_loop()
        self._tasks = (
            loop.create_task(self._read(outbox, inbox), name=f"reads {outbox.peer}"),
            loop.create_task(self._write(outbox), name=f"writes {outbox.peer}"),
        )
        try:
            await first_of(*self._tasks)
        finally:
            for task in self._tasks:
                task.cancel()
            results = await asyncio.gather(*self._tasks, return_exceptions=True)
        for problem in results:
            if isinstance(problem, asyncio.CancelledError | None):
                continue
            # The transport's complaint about the end that we made is none.
            if self.ending is None or not isinstance(problem, SurroundingsError):
                raise problem

    def end(self, ending: Ending) -> None:
        if self.ending is None:
            self.ending = ending
        for task in self._tasks:
            task.cancel()

    async def _read(self, outbox: Outbox, inbox: Inbox) -> None:
        while (event := await self._stream.receive()) is not None:
            if event.is_acknowledgement:
                outbox.acknowledge(event)
            elif lane_of(event) is Lane.INTERACTIVE:
                self._interact(event)
            else:
                await inbox.put(event)
        self.end(Ending.FINISHED)

    async def _write(self, outbox: Outbox) -> None:
        while True:
            events = [await outbox.next()]
            size = events[0].cost
            while len(events) < self._batch and size < BATCH_BYTES and (event := outbox.take()) is not None:
                events.append(event)
                size += event.cost
            try:
                async with asyncio.timeout(SEND_SECONDS):
                    await self._send(outbox, events)
            except TimeoutError as error:
                raise SurroundingsError(
                    f"{outbox.peer} took nothing from its stream for {SEND_SECONDS:.0f} s: stream given up"
                ) from error

    async def _send(self, outbox: Outbox, events: list[Event]) -> None:
        if len(events) > 1:
            try:
                await self._stream.send_many(events)
            except ObjectError:
                pass  # one of them; alone it will be known, and the others may arrive twice
            else:
                return
        for event in events:
            try:
                await self._stream.send(event)
            except ObjectError as error:
                outbox.abandon(event, error)


class Queues:
    """The other end, connected or not."""

    __slots__ = ("_interact", "_session", "inbox", "outbox")

    def __init__(self, *, outbox: Outbox, inbox: Inbox, interact: Interact = _nobody_waits) -> None:
        self._interact = interact
        self.outbox = outbox
        self.inbox = inbox
        self._session: _Session | None = None

    @property
    def connected(self) -> bool:
        return self._session is not None

    async def serve(self, stream: Stream, *, batches: bool = False) -> Ending:
        """Runs the stream to its end and says why it ended; raises what broke it."""
        session = _Session(stream, batches=batches, interact=self._interact)
        earlier, self._session = self._session, session
        try:
            if earlier is not None:
                earlier.end(Ending.SUPERSEDED)
                await self._wait_for(earlier)
            if session.ending is None:  # or it was superseded while it waited
                await session.run(self.outbox, self.inbox)
            return session.ending or Ending.FINISHED
        finally:
            session.ended.set_result(None)
            if self._session is session:
                self._session = None

    async def close(self) -> None:
        """The peer is gone for good, or the process ends."""
        session = self._session
        if session is not None:
            session.end(Ending.STOPPED)
            await self._wait_for(session)
        await self.inbox.close()
        self.outbox.clear()

    async def _wait_for(self, session: _Session) -> None:
        try:
            async with asyncio.timeout(HANDOVER_SECONDS):
                await asyncio.shield(session.ended)
        except TimeoutError as error:
            raise SurroundingsError(
                f"the earlier stream of {self.outbox.peer} did not end within {HANDOVER_SECONDS:.0f} s"
            ) from error
