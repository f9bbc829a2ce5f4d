"""The outbox's parts: what waits and what is under way for one object, and when it is sent again."""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from argocd.agents.vocabulary import Message
from sidecars.delivery.lanes import Lane, compact, supersedes
from sidecars.wire.events import Event


class TrackEntry:
    __slots__ = ("added", "attempts", "due", "event", "lane", "number", "window")

    def __init__(self, event: Event, *, lane: Lane, number: int, added: float) -> None:
        self.event = event
        self.lane = lane
        self.number = number
        self.added = added
        self.attempts = 0
        self.due = 0.0
        self.window = lane

    @property
    def type(self) -> str:
        return self.event.type


class Track:
    """The events of one object; it exists only while there are any."""

    __slots__ = ("ready", "under_way", "waiting")

    def __init__(self) -> None:
        self.waiting: list[TrackEntry] = []
        self.under_way: TrackEntry | None = None
        self.ready: Lane | None = None  # in whose queue the key stands

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
