"""What two Tiphys ends say to each other on a replication stream, free of its encoding.

The primary's messages are numbered and carry a checksum: a replica that misses one, or finds one changed, ends the
stream and goes on from what it has written. A replica answers with how far it has got.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from typing import Any, Protocol

import orjson

from sidecars.replication.kinds import BY_NAME, ObjectKey
from sidecars.wire.errors import MalformedError
from sidecars.wire.json_objects import read_struct

CHUNK_BYTES = 1 << 20
"""Of objects in one message, or one object."""
LARGEST_PAYLOAD = 8 << 20
"""An object has 4 MiB at most, and JSON in JSON may double it."""
MOST_ABSENT = 4096
"""Names in one message."""

_CHECKSUM_BYTES = 16


class PrimaryWord(StrEnum):
    ENTRIES = "entries"
    """Changes, in the order of the log."""
    OBJECTS = "objects"
    """A part of a snapshot or of a repair."""
    COMPLETE = "complete"
    """The end of a snapshot or repair, with the count and the hash of all its objects."""
    QUESTION = "question"
    """Of a comparison."""
    ABSENT = "absent"
    """What the replica has and the primary has not, as a complete comparison found."""
    COMPARED = "compared"
    """How a comparison of a kind ended."""
    BEHIND = "behind"
    """The log is no longer enough: what was acknowledged stays, nothing more is until `SYNCED`. Tells how much of each
    kind there is.
    """
    SYNCED = "synced"
    """What came since `BEHIND` makes up for what the log could not bring."""
    PROGRESS = "progress"
    """Nothing but the primary's sequence, now and then."""


class ReplicaWord(StrEnum):
    ACKNOWLEDGED = "acknowledged"
    ANSWER = "answer"
    """Of a comparison."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimaryMessage:
    word: PrimaryWord
    number: int
    """One more than that of the message before, on this stream."""
    sequence: int
    """Of the log: everything in it is at least as new as this."""
    complete: int = 0
    """Whoever has written all that came up to here misses nothing up to this sequence. The log leaves out what a
    later entry replaces, so it may be less than what was sent.
    """
    payload: bytes = field(default=b"", repr=False)
    checksum: bytes = b""

    @property
    def is_whole(self) -> bool:
        return self.checksum == checksum(self.payload)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaMessage:
    word: ReplicaWord
    acknowledged: int = 0
    """Everything up to this sequence is written, or a dead letter."""
    taken: int = 0
    """Bytes of payloads, of this stream, that the replica needs no more room for."""
    held: Mapping[str, int] = field(default_factory=dict)
    """By kind: deletions that wait for an operator."""
    payload: bytes = field(default=b"", repr=False)


class PrimaryStream(Protocol):
    """The primary's end. Both raise SurroundingsError when the stream is lost."""

    async def send(self, message: PrimaryMessage) -> None: ...

    async def receive(self) -> ReplicaMessage | None: ...


class ReplicaStream(Protocol):
    """The replica's end."""

    async def send(self, message: ReplicaMessage) -> None: ...

    async def receive(self) -> PrimaryMessage | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStart:
    """From where a replica goes on, and how much it has of each kind."""

    history: str = ""
    sequence: int = 0
    whole: bool = False
    """Nothing is left over from before that only a comparison would find."""
    counts: Mapping[str, int] = field(default_factory=dict)

    def text(self) -> str:
        told = {
            "history": self.history,
            "sequence": self.sequence,
            "whole": self.whole,
            "counts": dict(self.counts),
        }
        return orjson.dumps(told).decode()

    @classmethod
    def read(cls, text: str) -> "ReplicaStart":
        value = read_struct(text.encode(), keys=("history", "sequence", "whole", "counts"))
        counts = value.get("counts", {})
        history, sequence = value.get("history", ""), value.get("sequence", 0)
        if not isinstance(history, str) or not _is_number(sequence) or not isinstance(counts, dict):
            raise MalformedError("history must be a string, sequence a number, counts an object")
        known = {kind: count for kind, count in counts.items() if kind in BY_NAME and _is_number(count)}
        return cls(history=history, sequence=sequence, whole=value.get("whole") is True, counts=known)


@dataclass(frozen=True, slots=True)
class ReplicatedItem:
    """An object, or that it is gone: `body` is its copy as JSON, or None."""

    key: ObjectKey
    sequence: int
    body: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotEnd:
    """Of a snapshot or repair."""

    kind: str
    count: int
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Absences:
    """A part of those of one kind; `total` is all of them, `present` what the primary has."""

    kind: str
    total: int
    present: int
    names: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class KindComparison:
    """Of a comparison of one kind."""

    kind: str
    equal: bool
    repaired: int
    mark: str


def checksum(payload: bytes) -> bytes:
    return blake2b(payload, digest_size=_CHECKSUM_BYTES, person=b"message").digest()


class RunningHash:
    """Over the objects of a snapshot or repair, in their order."""

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=_CHECKSUM_BYTES, person=b"snapshot")
        self.count = 0

    def add(self, item: ReplicatedItem) -> None:
        self.count += 1
        name = item.key.text.encode(errors="surrogatepass")
        body = item.body or b""
        self._hash.update(b"%d %d " % (len(name), len(body)))
        self._hash.update(name)
        self._hash.update(body)

    @property
    def text(self) -> str:
        return self._hash.hexdigest()


# Payloads.


def encode_items(items: Iterable[ReplicatedItem]) -> bytes:
    """Bodies are JSON already and are put in as they are."""
    told = [
        [
            item.key.kind,
            item.key.namespace,
            item.key.name,
            item.sequence,
            None if item.body is None else orjson.Fragment(item.body),
        ]
        for item in items
    ]
    return orjson.dumps(told)


def decode_items(payload: bytes) -> list[ReplicatedItem]:
    rows = _read(payload)
    if not isinstance(rows, list):
        raise MalformedError("items must be a list")
    return [_item(row) for row in rows]


def _item(row: Any) -> ReplicatedItem:
    match row:
        case [str(kind), str(namespace), str(name), int(sequence), dict() | None as body] if (
            kind in BY_NAME and name
        ):
            encoded = None if body is None else orjson.dumps(body)
            return ReplicatedItem(ObjectKey(kind, namespace, name), sequence, encoded)
    raise MalformedError("an item is [kind, namespace, name, sequence, object or null]")


def encode(value: SnapshotEnd | Absences | KindComparison) -> bytes:
    return orjson.dumps(value)


def encode_counts(counts: Mapping[str, int]) -> bytes:
    return orjson.dumps(dict(counts))


def read_counts(payload: bytes) -> dict[str, int]:
    """By kind; empty where none are told."""
    counts = _read(payload) if payload else {}
    if not isinstance(counts, dict):
        raise MalformedError("counts must be an object")
    return {kind: count for kind, count in counts.items() if kind in BY_NAME and _is_number(count)}


def read_snapshot_end(payload: bytes) -> SnapshotEnd:
    match _read(payload):
        case {"kind": str(kind), "count": int(count), "hash": str(digest)} if kind in BY_NAME:
            return SnapshotEnd(kind=kind, count=count, hash=digest)
    raise MalformedError("an end of objects names kind, count and hash")


def read_absences(payload: bytes) -> Absences:
    match _read(payload):
        case {"kind": str(kind), "total": int(total), "present": int(present), "names": [*names]} if (
            kind in BY_NAME and len(names) <= MOST_ABSENT and all(isinstance(name, str) for name in names)
        ):
            return Absences(kind=kind, total=total, present=present, names=names)
    raise MalformedError(f"absences name kind, total, present and at most {MOST_ABSENT} names")


def read_kind_comparison(payload: bytes) -> KindComparison:
    match _read(payload):
        case {"kind": str(kind), "equal": bool(equal), "repaired": int(repaired), "mark": str(mark)} if (
            kind in BY_NAME
        ):
            return KindComparison(kind=kind, equal=equal, repaired=repaired, mark=mark)
    raise MalformedError("a verdict names kind, equal, repaired and mark")


def held_text(held: Mapping[str, int]) -> str:
    return ",".join(f"{kind}={count}" for kind, count in sorted(held.items()))


def read_held(text: str) -> dict[str, int]:
    """What cannot be read is left out: it is shown to people and decides nothing."""
    pairs = (part.partition("=") for part in text[:1024].split(","))
    return {
        kind: int(count)
        for kind, _, count in pairs
        if kind in BY_NAME and count.isascii() and count.isdecimal()
    }


def _read(payload: bytes) -> Any:
    if len(payload) > LARGEST_PAYLOAD:
        raise MalformedError(f"{len(payload)} bytes in one message, at most {LARGEST_PAYLOAD} are taken")
    try:
        return orjson.loads(payload)
    except orjson.JSONDecodeError as error:
        # The error keeps the text, which may hold secrets.
        raise MalformedError(f"not JSON: {error.msg} at {error.pos}") from None


def _is_number(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63
