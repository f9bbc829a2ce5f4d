"""What one peer has still to be told, across reconnects, until it acknowledges.

Order of leaving: acknowledgements, the heartbeat, what somebody waits for (but for its turns), what must be sent again,
commands, state. One event of an object is under way at a time; different objects travel side by side. Nothing ticks: `next` waits for an
event, an acknowledgement or the earliest resend, and an outbox without a reader holds no timer.
"""

import asyncio
from dataclasses import dataclass, field
from uuid import uuid4

from argocd.agents.vocabulary import OBJECT_TARGETS, Message
from sidecars.delivery.interactive import InteractiveLane, InteractiveLimits, ids_of
from sidecars.delivery.lanes import ORDER, Lane, Order, key_of, lane_of
from sidecars.delivery.observers import OutboxFigures, OutboxObserver, OverflowedKeys
from sidecars.delivery.timing import Backoff, Budget, Timing
from sidecars.delivery.tracks import Prerequisites, Resends, Track, TrackEntry
from sidecars.wire.events import Event
from tiphys.errors import CallError


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxLimits:
    # An Application with status is 5 to 50 kB: a few hundred changed objects of an absent agent fit, and
    # for more than that a comparison is cheaper than a queue.
    bytes: int = 8 << 20
    # Commands and deletions may use this on top: a full queue of state must not hold them up.
    reserve_bytes: int = 1 << 20
    # A Go peer drops the oldest of more than 1000 that wait at its side, silently.
    state_window: int = 256
    command_window: int = 64
    interactive: InteractiveLimits = field(default_factory=InteractiveLimits)
    # Beyond this many the marks say "everything": a comparison finds the differences by itself.
    marks: int = 4096
    # A peer resends what it has no acknowledgement for, so the oldest may go when it does not read.
    acknowledgements: int = 10_000
    resend: Backoff = field(default_factory=lambda: Backoff(base=5.0))


_NOBODY = OutboxObserver()
_NO_LIMITS = OutboxLimits()
_REAL = Timing()


class Outbox:
    """Every method but `next` and `settled` returns at once; one task at a time may wait in `next`."""

    __slots__ = (
        "_acknowledged", "_acknowledgements", "_budget", "_bytes", "_everything", "_heartbeat", "_incarnation",
        "_limits", "_marks", "_number", "_observer", "_prerequisites", "_ready", "_resends", "_resent", "_sent",
        "_settled", "_superseded", "_timing", "_tracks", "_under_way", "_waiter", "_windows", "interactive", "peer",
    )  # fmt: skip

    def __init__(
        self,
        *,
        peer: str,
        limits: OutboxLimits = _NO_LIMITS,
        budget: Budget | None = None,
        observer: OutboxObserver = _NOBODY,
        timing: Timing = _REAL,
        incarnation: str = "",
    ) -> None:
        self.peer = peer
        self._limits = limits
        self._budget = budget
        self._observer = observer
        self._timing = timing
        self._incarnation = incarnation or uuid4().hex[:16]
        self._number = 0
        self._tracks: dict[str, Track] = {}
        self._under_way: dict[int, str] = {}
        # By lane: keys with something to send, and how many more may be under way.
        # Lists, for an empty deque occupies more than all that an idle peer has here; a few thousand keys at most
        # move up, in a microsecond.
        self._ready: tuple[list[str], list[str]] = ([], [])
        self._windows = [limits.state_window, limits.command_window]
        self._acknowledgements: list[Event] = []
        self._heartbeat: Event | None = None
        self._resends = Resends(self._tracks, self._under_way)
        self._prerequisites = Prerequisites()
        self.interactive = InteractiveLane(
            limits.interactive, budget=budget, clock=timing.monotonic, wake=self._wake
        )
        self._marks: dict[str, None] = {}
        self._everything = False
        self._bytes = 0
        self._waiter: asyncio.Future[None] | None = None
        self._settled: asyncio.Future[None] | None = None
        self._sent = self._resent = self._acknowledged = self._superseded = 0

    def add(self, event: Event, *, provides: str = "", needs: str = "") -> bool:
        """False where there is no room; the key is then marked. A command is also refused while its object
        is marked, since it must not arrive before the state that it was given for: who gave it keeps it, and
        gives it again after the comparison. What needs a name leaves after what provides it.
        """
        lane = lane_of(event)
        if lane is Lane.ACKNOWLEDGEMENT:
            if len(self._acknowledgements) >= self._limits.acknowledgements:
                self._acknowledgements.pop(0)
            self._acknowledgements.append(event)
        elif lane is Lane.HEARTBEAT:
            self._heartbeat = event
        elif not event.resource_id:
            raise CallError(f"event {event.type} for {self.peer} has no resource id: no peer would take it")
        elif self._is_premature(event, lane) or not self._keep(event, lane, provides=provides, needs=needs):
            return False
        self._wake()
        return True

    def acknowledge(self, acknowledgement: Event) -> bool:
        """The peer is done with an event. False where it is not under way, which is ordinary after a resend."""
        if self.interactive.acknowledge(acknowledgement):
            return True
        entry = self._finish(acknowledgement)
        if entry is None:
            return False
        self._acknowledged += 1
        self._observer.acknowledged(self.peer, entry.event, self._timing.monotonic() - entry.added)
        return True

    def abandon(self, event: Event, error: Exception) -> None:
        """The event under way can never be sent."""
        if lane_of(event) is Lane.INTERACTIVE:
            self.interactive.withdraw(event)
            self._observer.unsendable(self.peer, event, error)
        elif self._finish(event) is not None:
            self._observer.abandoned(self.peer, event, error)

    def resume(self) -> None:
        """A new stream: what was under way on the old one is due at once, in its old order."""
        self._resends.make_due(self._timing.monotonic())
        self.interactive.resume()
        self._wake()

    async def next(self) -> Event:
        """What leaves next. A resend keeps its event's ids, attributes and payload."""
        if self._waiter is not None:
            raise CallError(f"two streams read the outbox of {self.peer} at once")
        loop = asyncio.get_running_loop()
        while True:
            event = self.take()
            if event is not None:
                return event
            self._waiter = loop.create_future()
            due = self._resends.earliest()
            timer = None if due is None else loop.call_later(due - self._timing.monotonic(), self._wake)
            try:
                await self._waiter
            finally:
                self._waiter = None
                if timer is not None:
                    timer.cancel()

    def take(self) -> Event | None:
        """As `next`, but None where it would wait."""
        if self._acknowledgements:
            event: Event | None = self._acknowledgements.pop(0)
        elif self._heartbeat is not None:
            event, self._heartbeat = self._heartbeat, None
        else:
            event = self.interactive.take_in_turn(self._take_kept)
        self._wake_settled()
        return event

    def _take_kept(self) -> Event | None:
        now = self._timing.monotonic()
        return self._take_due(now) or self._take_new(Lane.COMMAND, now) or self._take_new(Lane.STATE, now)

    async def settled(self) -> None:
        """Returns once nothing waits and nothing is under way; the caller bounds it."""
        while self._tracks or self._acknowledgements:
            if self._settled is None:
                self._settled = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._settled)

    def take_marks(self) -> OverflowedKeys:
        """What must be compared because it did not fit; marks begin anew."""
        marks = OverflowedKeys(tuple(self._marks), self._everything)
        self._marks.clear()
        self._everything = False
        return marks

    def clear(self) -> None:
        """The peer is gone for good: everything is forgotten and its share of the budget returned."""
        self._charge(-self._bytes)
        self._tracks.clear()
        self._under_way.clear()
        self._acknowledgements.clear()
        self._prerequisites.clear()
        self.interactive.clear()
        self._windows = [self._limits.state_window, self._limits.command_window]
        for queue in self._ready:
            queue.clear()
        self._wake_settled()

    def figures(self) -> OutboxFigures:
        """Walks over all keys: for a scrape, not for every event."""
        oldest = min(
            ((track.under_way or track.waiting[0]).added for track in self._tracks.values()),
            default=self._timing.monotonic(),
        )
        return OutboxFigures(
            waiting=sum(len(track.waiting) for track in self._tracks.values()),
            under_way=len(self._under_way),
            acknowledgements=len(self._acknowledgements),
            bytes=self._bytes,
            oldest_seconds=self._timing.monotonic() - oldest,
            marked=len(self._marks) + self._everything,
            sent=self._sent,
            resent=self._resent,
            acknowledged=self._acknowledged,
            superseded=self._superseded,
        )

    def _keep(self, event: Event, lane: Lane, *, provides: str, needs: str) -> bool:
        key = key_of(event)
        track = self._tracks.setdefault(key, Track())
        now = self._timing.monotonic()
        entry = TrackEntry(event, lane=lane, number=self._number, added=now, needs=needs)
        waiting = track.joined_by(entry)
        dropped = [old for old in track.waiting if old not in waiting]
        fits = self._has_room(event.cost - sum(old.event.cost for old in dropped), lane)
        for old in dropped:
            self._charge(-old.event.cost)
            self._count_superseded(old)
        track.waiting = waiting
        if fits:
            self._number += 1
            self._charge(event.cost)
            if provides and provides not in track.provides:
                track.provides += (provides,)
                self._prerequisites.provide(provides, key)
            self._offer(key, track)
            return True
        waiting.remove(entry)
        self._mark(key)
        if not track:
            self._end(key, track)
        return False

    def _is_premature(self, event: Event, lane: Lane) -> bool:
        if lane is not Lane.COMMAND or event.target not in OBJECT_TARGETS or event.type == Message.DELETE:
            return False
        return self._everything or key_of(event) in self._marks

    def _has_room(self, amount: int, lane: Lane) -> bool:
        if not self._bytes:  # one event always fits, or a large one could never leave
            return True
        command = lane is Lane.COMMAND
        limit = self._limits.bytes + (self._limits.reserve_bytes if command else 0)
        if self._bytes + amount > limit:
            return False
        return self._budget is None or self._budget.has_room(amount, held=self._bytes, command=command)

    def _mark(self, key: str) -> None:
        if not self._everything:
            self._marks[key] = None
        if len(self._marks) > self._limits.marks:
            self._marks.clear()
            self._everything = True
        self._observer.marked(self.peer, key)

    def _offer(self, key: str, track: Track) -> None:
        """Puts the key into its lane's queue, or has a stuck event give way to what supersedes it."""
        stuck = track.under_way
        if stuck is None:
            lane = track.lane
            # A key that stands among the state moves up; its old place is skipped later.
            if track.ready is None or (track.ready is Lane.STATE and lane is Lane.COMMAND):
                track.ready = lane
                self._ready[lane].append(key)
        elif stuck.attempts > 1 and track.heir():
            # The peer did not answer even a resend, and backoff may be minutes by now.
            self._resends.schedule(key, stuck, due=self._timing.monotonic())

    def _take_due(self, now: float) -> Event | None:
        found = self._resends.pop(now)
        if found is None:
            return None
        key, track, entry = found
        if track.heir():  # never again what is stale
            self._land(track, entry)
            self._count_superseded(entry)
            return self._launch(key, track, entry.window, now)
        self._resent += 1
        for name in track.provides:  # it does not get through: others do not wait for that
            self._release(self._prerequisites.release(name))
        self._schedule_resend(key, entry, now)
        self._observer.resent(self.peer, entry.event, entry.attempts)
        return entry.event

    def _take_new(self, lane: Lane, now: float) -> Event | None:
        queue = self._ready[lane]
        while queue and self._windows[lane] > 0:
            key = queue.pop(0)
            track = self._tracks.get(key)
            if track is None or track.ready is not lane:
                continue
            track.ready = None
            if not track.waiting or track.under_way is not None:
                continue
            needs = track.waiting[0].needs
            if needs and self._prerequisites.hold(needs, key, now=now):
                continue
            return self._launch(key, track, lane, now)
        return None

    def _launch(self, key: str, track: Track, window: Lane, now: float) -> Event:
        entry = track.waiting.pop(0)
        track.under_way = entry
        entry.window = window
        self._windows[window] -= 1
        self._under_way[entry.number] = key
        order = str(Order(self._incarnation, entry.number))
        entry.event = entry.event.stamped(self._timing.now(), also={ORDER: order})
        self._sent += 1
        self._schedule_resend(key, entry, now)
        return entry.event

    def _schedule_resend(self, key: str, entry: TrackEntry, now: float) -> None:
        entry.attempts += 1
        delay = self._limits.resend.delay(entry.attempts, self._timing.random)
        self._resends.schedule(key, entry, due=now + delay)

    def _finish(self, event: Event) -> TrackEntry | None:
        """Takes the event under way with the same ids from its place."""
        found = self._find(event)
        if found is None:
            return None
        key, track, entry = found
        self._land(track, entry)
        if track.waiting:
            self._offer(key, track)
            self._arrived(key, track)
        else:
            self._end(key, track)
        self._wake()
        return entry

    def _end(self, key: str, track: Track) -> None:
        del self._tracks[key]
        self._arrived(key, track)

    def _arrived(self, key: str, track: Track) -> None:
        now = self._timing.monotonic()
        for name in track.provides:
            self._release(self._prerequisites.acknowledged(name, key, more=bool(track), now=now))

    def _release(self, keys: tuple[str, ...]) -> None:
        """What has waited for others leaves, whatever comes then."""
        for key in keys:
            track = self._tracks.get(key)
            if track is not None and track.waiting:
                for entry in track.waiting:
                    entry.needs = ""
                self._offer(key, track)

    def _find(self, acknowledgement: Event) -> tuple[str, Track, TrackEntry] | None:
        order = Order.of(acknowledgement)
        if order is None:  # a peer that does not echo attributes: the window bounds the search
            numbers = list(self._under_way)
        else:
            numbers = [order.number] if order.incarnation == self._incarnation else []
        for number in numbers:
            key = self._under_way.get(number)
            if key is None:
                continue
            track = self._tracks[key]
            entry = track.under_way
            if entry is not None and ids_of(entry.event) == ids_of(acknowledgement):
                return key, track, entry
        return None

    def _land(self, track: Track, entry: TrackEntry) -> None:
        track.under_way = None
        del self._under_way[entry.number]
        self._windows[entry.window] += 1
        self._charge(-entry.event.cost)

    def _count_superseded(self, entry: TrackEntry) -> None:
        self._superseded += 1
        self._observer.superseded(self.peer, entry.event)

    def _charge(self, amount: int) -> None:
        self._bytes += amount
        if self._budget is not None:
            self._budget.used += amount

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        self._wake_settled()

    def _wake_settled(self) -> None:
        if self._settled is not None and not self._tracks and not self._acknowledgements:
            if not self._settled.done():
                self._settled.set_result(None)
            self._settled = None
