"""What has changed on the primary, numbered, the newest of each object only, and no more than so many bytes.

Every replica reads it with a cursor of its own. One whose cursor has fallen behind the oldest entry cannot go on
from there and is compared instead.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field

from sidecars.replication.kinds import ObjectKey

LOG_BYTES = 64 << 20
"""A sixteenth of the memory that the manifests grant: 30 000 changed Applications of 2 kB."""

OVERHEAD_BYTES = 256
"""Of an entry besides its object: names, numbers and what holds them."""


class TruncatedError(Exception):
    """What follows the cursor is no longer all there."""


@dataclass(slots=True)
class LogEntry:
    """`body` is the copy as JSON, or None where the object is gone."""

    sequence: int
    key: ObjectKey
    body: bytes | None = field(repr=False)
    at: float
    """When it was appended, by the monotonic clock."""
    superseded: bool = False

    @property
    def cost(self) -> int:
        return OVERHEAD_BYTES + len(self.body or b"")


class ReplicationLog:
    def __init__(self, *, limit: int = LOG_BYTES, clock: Callable[[], float]) -> None:
        self._limit = limit
        self._clock = clock
        self._entries: list[LogEntry] = []
        self._newest: dict[ObjectKey, LogEntry] = {}
        self._superseded = 0
        self.last = 0
        """The number of the newest entry; 0 before the first."""
        self.floor = 0
        """Whoever has read up to here or further can go on."""
        self.bytes = 0
        self._appended = asyncio.Event()

    def __len__(self) -> int:
        return len(self._newest)

    def append(self, key: ObjectKey, body: bytes | None) -> int:
        self._drop(self._newest.get(key))
        self.last += 1
        entry = LogEntry(self.last, key, body, self._clock())
        self._newest[key] = entry
        self._entries.append(entry)
        self.bytes += entry.cost
        self._bound()
        # Whoever waits has the old event and wakes; whoever comes later gets a new one.
        self._appended.set()
        self._appended = asyncio.Event()
        return entry.sequence

    def after(self, cursor: int, *, limit: int) -> list[LogEntry]:
        """The next entries of so many bytes, or one; raises TruncatedError."""
        if cursor < self.floor:
            raise TruncatedError(f"entries up to {self.floor} are no longer there, {cursor} was read")
        found: list[LogEntry] = []
        size = 0
        for index in range(self._position(cursor), len(self._entries)):
            entry = self._entries[index]
            if entry.superseded:
                continue
            if found and size + entry.cost > limit:
                break
            found.append(entry)
            size += entry.cost
        return found

    async def grown(self, cursor: int) -> None:
        """Returns when there is something after the cursor."""
        while self.last <= cursor:
            await self._appended.wait()

    def sequence_of(self, key: ObjectKey) -> int:
        """Of its last change; 0 where the log does not know one."""
        entry = self._newest.get(key)
        return entry.sequence if entry is not None else 0

    def oldest_after(self, cursor: int) -> float | None:
        """When the first entry after the cursor came; None where there is none."""
        for index in range(self._position(cursor), len(self._entries)):
            if not self._entries[index].superseded:
                return self._entries[index].at
        return None

    def bytes_after(self, cursor: int) -> int:
        """Walks over what is behind: for a person's question and a scrape."""
        return sum(entry.cost for entry in self._entries[self._position(cursor) :] if not entry.superseded)

    def _position(self, cursor: int) -> int:
        return bisect_right(self._entries, cursor, key=lambda entry: entry.sequence)

    def _drop(self, entry: LogEntry | None) -> None:
        if entry is None:
            return
        self.bytes -= entry.cost
        entry.body, entry.superseded = None, True
        self._superseded += 1

    def _bound(self) -> None:
        removed = 0
        # A tenth at a time, so that a log that stays full does not move all of itself for each entry.
        limit = self._limit * 9 // 10 if self.bytes > self._limit else self._limit
        while self.bytes > limit and removed < len(self._entries) - 1:
            entry = self._entries[removed]
            removed += 1
            if entry.superseded:
                self._superseded -= 1
            else:
                self.floor = entry.sequence
                self.bytes -= entry.cost
                del self._newest[entry.key]
        if removed:
            del self._entries[:removed]
        # Amortised: as many are thrown away as have come since.
        if self._superseded > len(self._entries) // 2 + 64:
            self._entries = [entry for entry in self._entries if not entry.superseded]
            self._superseded = 0
