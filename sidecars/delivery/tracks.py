"""The outbox's parts: what waits and what is under way for one object, what it waits for, and when it is sent again."""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from argocd.agents.vocabulary import Message
from sidecars.delivery.lanes import Lane, compact, supersedes
from sidecars.wire.events import Event

HOLD_SECONDS = 5.0  # as long as it takes until what was not acknowledged is sent again


class TrackEntry:
    __slots__ = ("added", "attempts", "due", "event", "lane", "needs", "number", "window")

    def __init__(self, event: Event, *, lane: Lane, number: int, added: float, needs: str = "") -> None:
        self.event = event
        self.lane = lane
        self.number = number
        self.added = added
        self.needs = needs
        self.attempts = 0
        self.due = 0.0
        self.window = lane

    @property
    def type(self) -> str:
        return self.event.type


class Track:
    """The events of one object; it exists only while there are any."""

    __slots__ = ("provides", "ready", "under_way", "waiting")

    def __init__(self) -> None:
        self.waiting: list[TrackEntry] = []
        self.under_way: TrackEntry | None = None
        self.ready: Lane | None = None  # in whose queue the key stands
        self.provides: tuple[str, ...] = ()  # names that others' events may need

    def __bool__(self) -> bool:
        return bool(self.waiting) or self.under_way is not None

    @property
    def lane(self) -> Lane:
        """A command hurries along the state before it."""
        commands = any(entry.lane is Lane.COMMAND for entry in self.waiting)
        return Lane.COMMAND if commands else Lane.STATE

    def joined_by(self, entry: TrackEntry) -> list[TrackEntry]:
        """What would wait then. State does not overtake a command: that meant the state before it."""
        if not self.waiting:
            return [entry]
        if entry.type == Message.DELETE:
            return [*(old for old in self.waiting if not supersedes(entry.event, old.event)), entry]
        start = len(self.waiting)
        while start and self.waiting[start - 1].lane is not Lane.COMMAND:
            start -= 1
        return [*self.waiting[:start], *compact([*self.waiting[start:], entry])]

    def heir(self) -> bool:
        """Does what waits first make superfluous what is under way?"""
        return (
            self.under_way is not None
            and bool(self.waiting)
            and supersedes(self.waiting[0].event, self.under_way.event)
        )


class Resends:
    """When what is under way is sent again: a heap in which what is no longer true is skipped."""

    __slots__ = ("_heap", "_tracks", "_under_way")

    def __init__(self, tracks: dict[str, Track], under_way: dict[int, str]) -> None:
        self._tracks = tracks
        self._under_way = under_way
        self._heap: list[tuple[float, int, str]] = []

    def schedule(self, key: str, entry: TrackEntry, *, due: float) -> None:
        entry.due = due
        heappush(self._heap, (due, entry.number, key))
        # Acknowledged events leave their places in the heap: swept before they outnumber the rest.
        if len(self._heap) > 64 + 2 * len(self._under_way):
            self._heap = [(entry.due, entry.number, key) for key, entry in self._entries()]
            heapify(self._heap)

    def make_due(self, now: float) -> None:
        """All of them, in the order in which they were added."""
        self._heap.clear()
        for key, entry in self._entries():
            entry.due = now
            self._heap.append((now, entry.number, key))
        heapify(self._heap)

    def pop(self, now: float) -> tuple[str, Track, TrackEntry] | None:
        """The next one that is due; the caller schedules it again."""
        found = self._first()
        if found is None or found[2].due > now:
            return None
        heappop(self._heap)
        return found

    def earliest(self) -> float | None:
        found = self._first()
        return None if found is None else found[2].due

    def _first(self) -> tuple[str, Track, TrackEntry] | None:
        while self._heap:
            due, number, key = self._heap[0]
            track = self._tracks.get(key)
            entry = track.under_way if track else None
            if track is not None and entry is not None and (entry.number, entry.due) == (number, due):
                return key, track, entry
            heappop(self._heap)
        return None

    def _entries(self) -> Iterator[tuple[str, TrackEntry]]:
        for key in self._under_way.values():
            entry = self._tracks[key].under_way
            assert entry is not None
            yield key, entry


class Prerequisites:
    """What leaves only when something else is acknowledged: an Application when its project and repositories are there.

    By a name that both are given: keys with something to acknowledge, and keys that wait for them. Nobody waits for
    long: what does not get through within a moment may be in trouble of its own.
    """

    __slots__ = ("_held", "_providers", "_since")

    def __init__(self) -> None:
        self._providers: dict[str, set[str]] = {}
        self._held: dict[str, dict[str, None]] = {}
        self._since: dict[str, float] = {}

    def provide(self, name: str, key: str) -> None:
        self._providers.setdefault(name, set()).add(key)

    def hold(self, name: str, key: str, *, now: float) -> bool:
        """Whether the key has to wait; it is then among those that are released."""
        if name not in self._providers:
            return False
        self._held.setdefault(name, {})[key] = None
        self._since.setdefault(name, now)
        return True

    def acknowledged(self, name: str, key: str, *, more: bool, now: float) -> tuple[str, ...]:
        """Who need not wait any longer; with `more` the key has something else to send."""
        providers = self._providers.get(name)
        if providers is not None and not more:
            providers.discard(key)
            if not providers:
                del self._providers[name]
                return self.release(name)
        return self.release(name) if now - self._since.get(name, now) > HOLD_SECONDS else ()

    def release(self, name: str) -> tuple[str, ...]:
        self._since.pop(name, None)
        return tuple(self._held.pop(name, ()))

    def clear(self) -> None:
        for names in (self._providers, self._held, self._since):
            names.clear()
