"""Watches on the embedded store. A write looks up the watches that may care; it does not walk all of them."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from dataclasses import dataclass, field

from kube.errors import ApiError
from kube.requests import decode, encode
from kube.selectors import FieldSelector, LabelSelector
from kube.store import Object, WatchEvent, WatchEventKind


@dataclass(frozen=True, slots=True)
class Record:
    """One object at one revision, as bytes: nobody outside can reach into the store."""

    namespace: str
    name: str
    revision: int
    labels: Mapping[str, str]
    raw: bytes

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    def decoded(self) -> Object:
        return decode(self.raw)  # type: ignore[no-any-return]  # only objects are stored


@dataclass(frozen=True, slots=True)
class RecordedChange:
    """`record` is what the object became; of a deleted one the last state, under the deletion's revision."""

    kind: WatchEventKind
    record: Record
    previous: Record | None


@dataclass(frozen=True, slots=True)
class Selection:
    """What a list or watch asks for; `namespace` None means all."""

    namespace: str | None = None
    labels: LabelSelector = field(default_factory=LabelSelector)
    fields: FieldSelector = field(default_factory=FieldSelector)

    def matches(self, record: Record) -> bool:
        return (
            (self.namespace is None or self.namespace == record.namespace)
            and self.fields.matches(name=record.name, namespace=record.namespace)
            and self.labels.matches(record.labels)
        )

    def seen(self, change: RecordedChange) -> tuple[WatchEventKind, bytes] | None:
        """The change as this selection sees it: an object may enter or leave by a change of its labels."""
        before = change.previous is not None and self.matches(change.previous)
        now = change.kind is not WatchEventKind.DELETED and self.matches(change.record)
        if now:
            return (WatchEventKind.MODIFIED if before else WatchEventKind.ADDED), change.record.raw
        if not before:
            return None
        if change.kind is WatchEventKind.DELETED:
            return WatchEventKind.DELETED, change.record.raw
        assert change.previous is not None
        left = change.previous.decoded()
        left["metadata"]["resourceVersion"] = str(change.record.revision)
        return WatchEventKind.DELETED, encode(left)


class Watcher:
    """One watch. Its queue is bounded: who reads too slowly is cut off and resumes from the last version seen."""

    __slots__ = ("_ended", "_error", "_limit", "_queue", "_wake", "selection")

    def __init__(self, selection: Selection, *, limit: int) -> None:
        self.selection = selection
        self._limit = limit
        self._queue: deque[tuple[WatchEventKind, bytes]] = deque()
        self._wake: asyncio.Future[None] | None = None
        self._ended = False
        self._error: ApiError | None = None

    def offer(self, change: RecordedChange) -> None:
        seen = self.selection.seen(change)
        if seen is None or self._ended:
            return
        if len(self._queue) >= self._limit:
            self.end()
            return
        self._queue.append(seen)
        self.rouse()

    def preload(self, changes: Iterable[RecordedChange]) -> None:
        """What happened before this watch began comes from the history and is bounded by it."""
        for change in changes:
            seen = self.selection.seen(change)
            if seen is not None:
                self._queue.append(seen)

    def end(self, error: ApiError | None = None) -> None:
        """After what is queued the watch ends, or raises the error."""
        self._ended, self._error = True, error
        self.rouse()

    def rouse(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def events(
        self, *, bookmark_every: float, revision: Callable[[], int]
    ) -> AsyncGenerator[WatchEvent, None]:
        loop = asyncio.get_running_loop()
        while True:
            while self._queue:
                kind, raw = self._queue.popleft()
                yield WatchEvent(kind, decode(raw))
            if self._ended:
                if self._error is not None:
                    raise self._error
                return
            self._wake = loop.create_future()
            timer = loop.call_later(bookmark_every, self.rouse)
            try:
                await self._wake
            finally:
                timer.cancel()
                self._wake = None
            if not self._queue and not self._ended:
                # Everything up to the current revision has been delivered: only then is a bookmark true.
                yield WatchEvent(WatchEventKind.BOOKMARK, {"metadata": {"resourceVersion": str(revision())}})


_Place = tuple[str | None, str | None, tuple[str, str] | None]


class Watchers:
    """Found by namespace, name and one label that a matching object must have, in the order they came."""

    def __init__(self) -> None:
        self._places: dict[_Place, dict[Watcher, None]] = {}

    def add(self, watcher: Watcher) -> None:
        self._places.setdefault(self._place(watcher.selection), {})[watcher] = None

    def discard(self, watcher: Watcher) -> None:
        place = self._place(watcher.selection)
        watchers = self._places.get(place, {})
        watchers.pop(watcher, None)
        if not watchers:
            self._places.pop(place, None)

    def all(self) -> list[Watcher]:
        return [watcher for watchers in self._places.values() for watcher in watchers]

    def notify(self, change: RecordedChange) -> None:
        if not self._places:
            return
        record, previous = change.record, change.previous
        labels: dict[tuple[str, str] | None, None] = {None: None}
        labels.update(dict.fromkeys(record.labels.items()))
        if previous is not None and previous.labels != record.labels:
            labels.update(dict.fromkeys(previous.labels.items()))
        for namespace in (None, record.namespace):
            for name in (None, record.name):
                for label in labels:
                    for watcher in self._places.get((namespace, name, label), ()):
                        watcher.offer(change)

    @staticmethod
    def _place(selection: Selection) -> _Place:
        namespace = selection.namespace if selection.namespace is not None else selection.fields.namespace
        return namespace, selection.fields.name, selection.labels.equality
