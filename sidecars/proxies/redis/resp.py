"""RESP, Redis' protocol, as far as a proxy needs it: where a message ends, and the first words of a command.

Written by hand, for what hiredis and redis-py parse cannot be passed on: they make Python values of replies (of
which RESP3's sets, pushes and attributes do not come back), hold a message until it is whole, whatever it weighs,
and have no bound on lengths below Redis' own. Here bytes are copied as they come and nothing is held but headers.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tiphys.errors import ObjectError

CRLF = b"\r\n"
NULL = {2: b"$-1\r\n", 3: b"_\r\n"}

# As Redis: of one string, and of one command's words.
MAX_BULK_BYTES = 512 << 20
MAX_WORDS = 1 << 20
# As Redis has them for whoever has not authenticated.
STRANGER_BULK_BYTES = 16 << 10
STRANGER_WORDS = 10
# A command of at most this is read whole and looked at; what is larger is no GET of a key.
INSPECTED_BYTES = 64 << 10
# Of one reply, through all its levels: a list of a million keys.
MAX_REPLY_PARTS = 4 << 20
# "*", a sign, ten digits: Redis' own headers.
_MAX_HEADER = 32
_CHUNK = 64 << 10
# A peer that has begun a message goes on with it; a pause longer than this is no network's.
STALL_SECONDS = 30.0

_LINES = frozenset(b"+-:,#(_")
_STRINGS = frozenset(b"$=!")
_ARRAYS = frozenset(b"*~>")
_MAPS = frozenset(b"%|")
_ATTRIBUTE = ord("|")
_ERRORS = frozenset(b"-!")


class ProtocolError(ObjectError):
    """What came is no RESP, or more of it than anybody needs: the connection cannot go on."""


class Sink(Protocol):
    """Where bytes go; returns when there is room for more."""

    async def __call__(self, data: bytes, /) -> None: ...


@dataclass(slots=True)
class RespCommand:
    """`raw` is all of it; where `rest` is above 0, so many words are still to be read, and `words` are incomplete."""

    words: list[bytes]
    raw: bytes = field(repr=False)
    rest: int = 0

    @property
    def name(self) -> str:
        return self.words[0].decode("ascii", "replace").lower()


@dataclass(frozen=True, slots=True)
class Reply:
    """What can be told of a message after it was passed on: its type and its first word, where that is short."""

    kind: int
    word: bytes = b""

    @property
    def is_error(self) -> bool:
        return self.kind in _ERRORS

    @property
    def is_push(self) -> bool:
        return self.kind == ord(">")


class RespReader:
    """One direction of a connection."""

    def __init__(self, stream: asyncio.StreamReader) -> None:
        self._stream = stream

    async def command(self, *, trusted: bool) -> RespCommand | None:
        """The next command, None at the end. Waits for its first byte as long as it takes."""
        try:
            first = await self._stream.readexactly(1)
        except asyncio.IncompleteReadError:
            return None
        if first != b"*":
            raise ProtocolError("expected '*': commands are arrays, inline ones are not taken")
        count = await self._number(limit=MAX_WORDS if trusted else STRANGER_WORDS, what="words")
        raw = bytearray(b"*%d\r\n" % count)
        words: list[bytes] = []
        for position in range(count):
            header, size = await self._bulk_header(trusted=trusted)
            raw += header
            if len(raw) + size > INSPECTED_BYTES or position >= STRANGER_WORDS * 10:
                return self._unfinished(words, raw, rest=count - position, size=size)
            data = await self._exactly(size + 2)
            raw += data
            words.append(data[:-2])
        if not words:
            raise ProtocolError("a command without a word")
        return RespCommand(words, bytes(raw))

    def _unfinished(self, words: list[bytes], raw: bytearray, *, rest: int, size: int) -> RespCommand:
        if not words:
            raise ProtocolError("the first word of a command is none")
        self._open = size
        return RespCommand(words, bytes(raw), rest)

    async def copy_rest(self, command: RespCommand, sink: Sink) -> None:
        """The words of a large command that were not read yet, one chunk after the other."""
        await self._copy(self._open + 2, sink)
        for _ in range(command.rest - 1):
            header, size = await self._bulk_header(trusted=True)
            await sink(header)
            await self._copy(size + 2, sink)

    async def first_byte(self) -> int:
        """Of the next reply: waits as long as it takes; raises IncompleteReadError at the end."""
        return (await self._stream.readexactly(1))[0]

    async def copy_reply(self, kind: int, sink: Sink) -> Reply:
        """The reply that begins with `kind`, through all its levels, without holding it."""
        parts, copied, word, begin = 1, 0, b"", kind
        while True:
            line = await self._line()
            await sink(bytes((begin,)) + line)
            copied += 1
            if begin in _STRINGS:
                data = await self._copy_string(line, sink, keep=copied == 2)  # noqa: PLR2004 - after the array's header
                word = data or word
            elif copied == 1 and begin in _LINES:
                word = line[:_MAX_HEADER].rstrip(CRLF)
            parts += _inner_parts(begin, line) - 1
            if parts + copied > MAX_REPLY_PARTS:
                raise ProtocolError(f"a reply of {parts + copied} parts")
            if not parts:
                return Reply(kind, word)
            begin = (await self._exactly(1))[0]

    async def _copy_string(self, header: bytes, sink: Sink, *, keep: bool) -> bytes:
        """What it says, where that is asked for and short."""
        size = _integer(header)
        if size > MAX_BULK_BYTES:
            raise ProtocolError(f"a string of {size} bytes")
        if size < 0:  # a null
            return b""
        if not keep or size > _MAX_HEADER:
            await self._copy(size + 2, sink)
            return b""
        data = await self._exactly(size + 2)
        await sink(data)
        return data[:-2]

    async def _bulk_header(self, *, trusted: bool) -> tuple[bytes, int]:
        if await self._exactly(1) != b"$":
            raise ProtocolError("expected '$': a command's words are strings")
        limit = MAX_BULK_BYTES if trusted else STRANGER_BULK_BYTES
        size = await self._number(limit=limit, what="bytes")
        return b"$%d\r\n" % size, size

    async def _number(self, *, limit: int, what: str) -> int:
        line = await self._line(longest=_MAX_HEADER)
        size = _integer(line)
        if not 0 <= size <= limit:
            raise ProtocolError(f"{size} {what}, at most {limit} are taken")
        return size

    async def _line(self, *, longest: int = _CHUNK) -> bytes:
        """With its end."""
        try:
            async with asyncio.timeout(STALL_SECONDS):
                line = await self._stream.readuntil(CRLF)
        except asyncio.LimitOverrunError as error:
            raise ProtocolError("a line without end") from error
        if len(line) > longest:
            raise ProtocolError(f"a header of {len(line)} bytes")
        return line

    async def _exactly(self, size: int) -> bytes:
        async with asyncio.timeout(STALL_SECONDS):
            return await self._stream.readexactly(size)

    async def _copy(self, size: int, sink: Sink) -> None:
        while size:
            async with asyncio.timeout(STALL_SECONDS):
                data = await self._stream.read(min(size, _CHUNK))
            if not data:
                raise asyncio.IncompleteReadError(b"", size)
            size -= len(data)
            await sink(data)


def _inner_parts(begin: int, header: bytes) -> int:
    """How many messages stand within one."""
    if begin in _ARRAYS:
        return max(0, _integer(header))
    if begin in _MAPS:  # an attribute is followed by what it is about
        return 2 * max(0, _integer(header)) + (begin == _ATTRIBUTE)
    if begin not in _LINES and begin not in _STRINGS:
        raise ProtocolError(f"a reply that begins with {bytes((begin,))!r}")
    return 0


def _integer(line: bytes) -> int:
    digits = line[:-2]
    if len(digits) > _MAX_HEADER or not digits.removeprefix(b"-").isdigit():
        raise ProtocolError("a length that is no number")
    return int(digits)


def bulk(data: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(data), data)


def command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(map(bulk, words))


def error(text: str, *, code: str = "ERR") -> bytes:
    """One line: what is said may come from an agent."""
    words = " ".join(text.split())[:500]
    return f"-{code} {words}\r\n".encode()


def notice(parts: Sequence[bytes], *, resp: int) -> bytes:
    """What a subscription says: a push in RESP3, an array before. The parts are encoded already."""
    return (b">" if resp == 3 else b"*") + b"%d\r\n" % len(parts) + b"".join(parts)  # noqa: PLR2004 - the version
