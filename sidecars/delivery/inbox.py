"""What one peer has told us: each event is dealt with once, its object's events in order, and acknowledged
when it is applied or never will be.

Workers are started when there is work, at most `workers` of them, and end when there is none: an idle inbox
has no task and no timer. A peer that sends faster than we apply waits in `put`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from heapq import heappop, heappush

from sidecars.delivery.lanes import Lane, key_of, lane_of, supersedes
from sidecars.delivery.observers import InboxObserver
from sidecars.delivery.outcomes import (
    DeadLetter,
    DeadLetterReason,
    DeliveryVerdict,
    Report,
    is_reported,
    judge,
    log_dead_letter,
)
from sidecars.delivery.seen import SeenEvents, SeenLimits, Sighting
from sidecars.delivery.timing import Backoff, Budget, Timing
from sidecars.wire.events import Event, following_trace
from tiphys import logs

log = logs.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxLimits:
    # What waits to be applied; a peer's window of 256 events of 30 kB fits.
    bytes: int = 8 << 20
    # An API server that takes 400 writes a second answers in 10 ms; a busy one, which others write to as well,
    # takes several times as long, and with fewer at a time a burst would queue up here.
    workers: int = 32
    # Nothing that an API server does for one event takes longer than its own request timeout.
    handling_seconds: float = 60.0
    retry: Backoff = field(default_factory=lambda: Backoff(base=0.2, ceiling=30.0))
    # An API server that restarts is back within a minute or two. After this the peer's place for the event
    # is worth more than another try: comparison repairs what was given up.
    patience_seconds: float = 600.0
    # More than what was taken meanwhile, so that a good one now and then hides none. Whoever tells so much that is
    # refused for good gets one worker, which rests after each: the API server, which said no to all of them, is there
    # for the others too.
    refusals: int = 64
    refused_seconds: float = 0.01
    # A handler that crashes has a mistake, which seldom goes away.
    crashes: int = 3
    memory: SeenLimits = field(default_factory=SeenLimits)


Handle = Callable[[Event], Awaitable[None]]
"""Applies an event. Returning means that it is durable; an exception is judged."""


async def _not_reported(letter: DeadLetter) -> None:
    """The log line and the metric are all there is."""


_NO_GATE: AbstractAsyncContextManager[None] = nullcontext()
_NOBODY = InboxObserver()
_USUAL = InboxLimits()
_REAL = Timing()


class _Entry:
    __slots__ = ("arrived", "attempts", "event", "seen")

    def __init__(self, event: Event, seen: Sighting, *, arrived: float) -> None:
        self.event = event
        self.seen = seen
        self.arrived = arrived
        self.attempts = 0


class _Line:
    """One object's events, first in front; it exists only while there are any."""

    __slots__ = ("busy", "due", "entries")

    def __init__(self) -> None:
        self.entries: list[_Entry] = []
        self.busy = False  # a worker has the first, or a place in the ready queue has
        self.due = 0.0  # not before this, after a failure


class Inbox:
    __slots__ = (
        "_acknowledge", "_active", "_budget", "_bytes", "_delayed", "_failure", "_gate", "_handle", "_limits", "_lines",
        "_memory", "_observer", "_pending", "_ready", "_refused", "_report", "_room", "_settled", "_takes", "_timer",
        "_timing", "_workers", "peer",
    )  # fmt: skip

    def __init__(
        self,
        *,
        peer: str,
        handle: Handle,
        acknowledge: Callable[[Event], object],
        report: Report = _not_reported,
        limits: InboxLimits = _USUAL,
        gate: asyncio.Semaphore | None = None,
        budget: Budget | None = None,
        observer: InboxObserver = _NOBODY,
        timing: Timing = _REAL,
    ) -> None:
        """Shared by all inboxes of a process, `gate` bounds how many events are dealt with at a time and `budget`
        how many wait: a peer beyond its share of that waits in `put`.
        """
        self.peer = peer
        self._handle = handle
        self._acknowledge = acknowledge
        self._report = report
        self._limits = limits
        self._gate = gate
        self._budget = budget
        self._observer = observer
        self._timing = timing
        self._memory = SeenEvents(limits.memory)
        self._lines: dict[str, _Line] = {}
        self._pending: set[int] = set()
        self._ready: list[str] = []  # an empty deque would occupy more than the rest of an idle inbox
        self._delayed: list[tuple[float, str]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._workers: set[asyncio.Task[None]] = set()
        self._active = 0
        self._refused = 0
        self._bytes = 0
        self._failure: BaseException | None = None
        self._room: asyncio.Future[None] | None = None
        self._settled: asyncio.Future[None] | None = None
        self._takes = True

    @property
    def bytes(self) -> int:
        return self._bytes

    @property
    def waiting(self) -> int:
        """Events that are not dealt with yet, those under a worker's hands included."""
        return len(self._pending)

    @property
    def is_busy(self) -> bool:
        """Something is being dealt with, not merely waiting to be tried again."""
        return self._active > 0

    async def put(self, event: Event) -> None:
        """Returns when there is room; one reader at a time. Cancelled, it has not taken the event."""
        if self._failure is not None:
            raise RuntimeError(f"a worker of the inbox of {self.peer} died") from self._failure
        while not self._takes or (self._bytes and not self._has_room(event.cost)):
            self._room = asyncio.get_running_loop().create_future()
            await self._room
        seen = Sighting(event)
        if seen.fingerprint in self._pending:
            self._observer.duplicate(self.peer, event)  # its acknowledgement follows when it is done
            return
        if self._memory.knows(seen):
            self._observer.duplicate(self.peer, event)
            self._acknowledge(event)
            return
        line = self._lines.setdefault(seen.key, _Line())
        self._relieve(line, event)
        line.entries.append(_Entry(event, seen, arrived=self._timing.monotonic()))
        self._pending.add(seen.fingerprint)
        self._charge(event.cost)
        self._offer(seen.key, line)
        self._staff()

    def stop_intake(self) -> None:
        """For good: whoever puts waits until its stream is ended, and the peer sends it again elsewhere."""
        self._takes = False

    def hurry(self, event: Event) -> None:
        """What an event that failed waits for has happened: tried again now, not when its backoff ends."""
        key = key_of(event)
        line = self._lines.get(key)
        if line is not None and not line.busy and line.due:
            line.due = 0.0
            self._offer(key, line)
            self._staff()

    async def settled(self) -> None:
        """Returns once everything that was taken has been dealt with; the caller bounds it."""
        while self._lines:
            if self._settled is None:
                self._settled = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._settled)

    async def close(self) -> None:
        """Stops; what is not acknowledged will be sent again by the peer."""
        if self._timer is not None:
            self._timer.cancel()
        workers = list(self._workers)
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        self._charge(-self._bytes)

    def _has_room(self, amount: int) -> bool:
        """What is dealt with makes room; it comes to nobody's share but its own, and that is enough to go on."""
        fits_here = self._bytes + amount <= self._limits.bytes
        return fits_here and (self._budget is None or self._budget.has_room(amount, held=self._bytes))

    def _charge(self, amount: int) -> None:
        self._bytes += amount
        if self._budget is not None:
            self._budget.used += amount

    def _relieve(self, line: _Line, event: Event) -> None:
        """What is superseded before its turn, or while it waits to be tried again, counts as dealt with.

        But not what stands before a command, which was given for that state.
        """
        first = 1 if line.busy else 0
        for entry in reversed(line.entries[first:]):
            if supersedes(event, entry.event):
                line.entries.remove(entry)
                self._done(entry)
            elif lane_of(entry.event) is Lane.COMMAND:
                break
        if not line.entries:
            line.due = 0.0

    def _offer(self, key: str, line: _Line) -> None:
        if line.busy:
            return
        if line.due > self._timing.monotonic():
            heappush(self._delayed, (line.due, key))
            self._set_timer()
            return
        line.busy = True
        self._ready.append(key)

    def _staff(self) -> None:
        """A worker for each object that is ready, up to the limit; one that is at work takes more by itself."""
        for _ in range(min(len(self._ready), self._wanted_workers - self._active)):
            self._active += 1
            worker = asyncio.get_running_loop().create_task(self._work(), name=f"inbox of {self.peer}")
            self._workers.add(worker)
            worker.add_done_callback(self._worker_ended)

    @property
    def _wanted_workers(self) -> int:
        return self._limits.workers if self._refused < self._limits.refusals else 1

    def _set_timer(self) -> None:
        """One timer, for the earliest retry."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._delayed:
            delay = max(0.0, self._delayed[0][0] - self._timing.monotonic())
            self._timer = asyncio.get_running_loop().call_later(delay, self._offer_delayed)

    def _offer_delayed(self) -> None:
        now = self._timing.monotonic()
        while self._delayed and self._delayed[0][0] <= now:
            _, key = heappop(self._delayed)
            line = self._lines.get(key)
            if line is not None and line.due <= now:
                self._offer(key, line)
        self._staff()
        self._set_timer()

    async def _work(self) -> None:
        try:
            while self._ready and self._active <= self._wanted_workers:
                key = self._ready.pop(0)
                line = self._lines[key]
                with following_trace(line.entries[0].event):
                    await self._deal_with(key, line, line.entries[0])
                line.busy = False
                if line.entries:
                    self._offer(key, line)
                else:
                    del self._lines[key]
                    self._wake_settled()
        finally:
            # Here and not when the task is done: an event that arrives in between needs a new worker.
            self._active -= 1

    def _worker_ended(self, worker: asyncio.Task[None]) -> None:
        """Errors of handlers are judged elsewhere: this is a mistake in here, and the next `put` says so."""
        self._workers.discard(worker)
        if not worker.cancelled() and worker.exception() is not None:
            self._failure = worker.exception()
            log.error("inbox worker died", **{logs.PEER: self.peer}, exc_info=self._failure)

    async def _deal_with(self, key: str, line: _Line, entry: _Entry) -> None:
        if not self._memory.knows(entry.seen):  # or something newer was applied since it arrived
            try:
                await self._apply(entry.event)
            except Exception as error:  # noqa: BLE001 - whatever a handler raises is judged, the line goes on
                await self._failed(key, line, entry, error)
                return
            self._refused = max(self._refused - 1, 0)
            self._observer.handled(self.peer, entry.event, self._timing.monotonic() - entry.arrived)
        line.due = 0.0
        line.entries.remove(entry)
        self._done(entry)

    async def _apply(self, event: Event) -> None:
        async with self._gate or _NO_GATE, asyncio.timeout(self._limits.handling_seconds):
            try:
                await self._handle(event)
            except asyncio.CancelledError as error:
                worker = asyncio.current_task()
                if worker is not None and worker.cancelling():
                    raise
                raise RuntimeError("the handler cancelled itself") from error

    async def _failed(self, key: str, line: _Line, entry: _Entry, error: Exception) -> None:
        entry.attempts += 1
        now = self._timing.monotonic()
        verdict = judge(error)
        if verdict is DeliveryVerdict.CRASH:
            self._observer.crashed(self.peer, entry.event, error)
            fields = {logs.PEER: self.peer, logs.KEY: key, logs.KIND: entry.event.type}
            log.error("handler crashed", **fields, exc_info=error)
        reason = self._given_up(verdict, entry, now)
        if reason is None:
            self._observer.retried(self.peer, entry.event, error)
            line.due = now + self._limits.retry.delay(entry.attempts, self._timing.random)
            return
        letter = DeadLetter(
            peer=self.peer, key=key, event=entry.event, reason=reason, error=error, attempts=entry.attempts
        )
        if reason is DeadLetterReason.REJECTED:
            self._refused = min(self._refused + 1, 2 * self._limits.refusals)
            if self._refused > self._limits.refusals:
                await asyncio.sleep(self._limits.refused_seconds)
        log_dead_letter(letter)
        self._observer.dead_letter(letter)
        await is_reported(letter, self._report, within=self._limits.handling_seconds)
        line.due = 0.0
        line.entries.remove(entry)
        self._done(entry)

    def _given_up(self, verdict: DeliveryVerdict, entry: _Entry, now: float) -> DeadLetterReason | None:
        if verdict is DeliveryVerdict.REJECT:
            return DeadLetterReason.REJECTED
        if verdict is DeliveryVerdict.CRASH and entry.attempts >= self._limits.crashes:
            return DeadLetterReason.CRASHED
        if now - entry.arrived >= self._limits.patience_seconds:
            return DeadLetterReason.EXHAUSTED
        return None

    def _done(self, entry: _Entry) -> None:
        self._memory.remember(entry.seen)
        self._pending.discard(entry.seen.fingerprint)
        self._charge(-entry.event.cost)
        self._acknowledge(entry.event)
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    def _wake_settled(self) -> None:
        if self._settled is not None and not self._lines:
            if not self._settled.done():
                self._settled.set_result(None)
            self._settled = None
