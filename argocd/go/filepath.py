"""Go's filepath.Match, which Argo CD uses for the group, kind and name lists of a project.

A language of its own: `*` and `?` stop at a slash, `[^a]` negates, there are no braces. A pattern that is
malformed matches nothing.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from argocd.budget import remembered, spend
from argocd.go import runes

_SLASH, _STAR = b"/*"
_RANGES_AT_ONCE = 16
"""Of a class, that one step looks through."""
_PLAIN = re.compile(r"[^*?\[\\/]*")


@dataclass(frozen=True, slots=True)
class _One:
    """`?` or a class; `ranges` is None for the former."""

    ranges: tuple[tuple[int, int], ...] | None = None
    negated: bool = False

    def accepts(self, rune: int) -> bool:
        if self.ranges is None:
            return rune != _SLASH
        spend(len(self.ranges) // _RANGES_AT_ONCE)
        return any(low <= rune <= high for low, high in self.ranges) != self.negated


_Chunk = tuple[bool, tuple["_One | int", ...]]
"""Whether a star stands before it, and what must then follow: bytes and classes."""


class _MalformedError(Exception):
    pass


def is_malformed(pattern: str) -> bool:
    return not _PLAIN.fullmatch(pattern) and _chunks(pattern) is None


@remembered(longest=300, most=4096, length=lambda pattern, text: len(pattern) + len(text))
def matches(pattern: str, text: str) -> bool:
    if pattern == text and _PLAIN.fullmatch(pattern):
        return True
    chunks = _chunks(pattern)
    if chunks is None:
        return False
    data, at = runes.encode(text), 0
    spend(1 + len(chunks))
    for index, (star, pieces) in enumerate(chunks):
        last = index == len(chunks) - 1
        if not pieces:
            # Only a star at the end has nothing after it.
            return _SLASH not in data[at:]
        stop = _after(pieces, data, at)
        while star and (stop < 0 or (last and stop < len(data))):
            if at >= len(data) or data[at] == _SLASH:
                return False
            at += 1
            stop = _after(pieces, data, at)
        if stop < 0:
            return False
        at = stop
    return at == len(data)


def _after(pieces: tuple["_One | int", ...], data: bytes, at: int) -> int:
    """Where the pieces end if they stand here, else -1."""
    spend(min(len(pieces), len(data) - at))
    for piece in pieces:
        if at >= len(data):
            return -1
        if isinstance(piece, int):
            if data[at] != piece:
                return -1
            at += 1
            continue
        rune, width = runes.decode(data, at, len(data))
        if not piece.accepts(rune):
            return -1
        at += width
    return at


@remembered(longest=300, most=1024)
def _chunks(pattern: str) -> tuple[_Chunk, ...] | None:
    spend(len(pattern))
    try:
        return tuple(_parse(pattern))
    except _MalformedError:
        return None


def _parse(pattern: str) -> Iterator[_Chunk]:
    pending, at = runes.encode(pattern), 0
    while at < len(pending):
        star = pending[at] == _STAR
        while at < len(pending) and pending[at] == _STAR:
            at += 1
        pieces: list[_One | int] = []
        while at < len(pending) and pending[at] != _STAR:
            piece, at = _piece(pending, at)
            pieces.append(piece)
        yield star, tuple(pieces)


def _piece(pattern: bytes, at: int) -> tuple["_One | int", int]:
    match pattern[at : at + 1]:
        case b"?":
            return _One(), at + 1
        case b"[":
            return _class(pattern, at + 1)
        case b"\\":
            at += 1
            if at == len(pattern):
                raise _MalformedError
    return pattern[at], at + 1


def _class(pattern: bytes, at: int) -> tuple[_One, int]:
    negated = pattern.startswith(b"^", at)
    at += negated
    ranges: list[tuple[int, int]] = []
    while not (ranges and pattern.startswith(b"]", at)):
        low, at = _character(pattern, at)
        high = low
        if pattern.startswith(b"-", at):
            high, at = _character(pattern, at + 1)
        ranges.append((low, high))
    return _One(tuple(ranges), negated), at + 1


def _character(pattern: bytes, at: int) -> tuple[int, int]:
    """One end of a range; something must follow it, if only the bracket."""
    if pattern[at : at + 1] in {b"", b"-", b"]"}:
        raise _MalformedError
    at += pattern.startswith(b"\\", at)
    rune, width = runes.decode(pattern, at, len(pattern))
    if (rune == runes.BROKEN and width <= 1) or at + width >= len(pattern):
        raise _MalformedError
    return rune, at + width
