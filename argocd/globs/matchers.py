"""What a compiled glob is made of: each piece can match a stretch of text or find where it could match.

Stretches are positions in the text's bytes, so that nothing is copied and results can be remembered. A
piece answers as gobwas/glob 0.2.3 does, mistakes included: Argo CD's verdict is the one that counts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from argocd import budget
from argocd.globs.parsing import TooCostlyError
from argocd.go import runes

VARIES = -1
"""The length of a piece that can match texts of different lengths."""

BUDGET = 40_000
"""Steps that we take for one answer: about 30 ms. No pattern of a sane project takes a hundred."""
LONG = 8192
"""Bytes of a text: servers take no longer URLs. A step on a longer one may take longer, so there are fewer."""
COSTLY = 100_000_000
"""Steps, remembered ones counted again, that keep gobwas/glob busy for more than a second."""

Found = tuple[int, Sequence[int]]
"""Where a match can begin, and the positions where it can then end."""
NOWHERE: Found = (-1, ())


class PanicError(Exception):
    """Argo CD's process would panic here."""


class Run:
    """One text on its way through a glob."""

    __slots__ = ("_decoded", "_most", "cost", "data", "found", "known", "plain", "steps")

    def __init__(self, text: str) -> None:
        self.data = runes.encode(text)
        self.plain = text.isascii()
        """Every byte is a character."""
        own = BUDGET if len(self.data) <= LONG else BUDGET * LONG // len(self.data)
        self._most = min(own, budget.left())
        self.steps = 0
        self.cost = 0
        self.known: dict[tuple[int, int, int], tuple[bool, int]] = {}
        """Answers of pieces by stretch, with what they cost."""
        self.found: dict[tuple[int, int, int], tuple[Found, int]] = {}
        self._decoded: dict[int, tuple[int, int]] = {}

    def decode(self, start: int, end: int) -> tuple[int, int]:
        """As runes.decode, each position once."""
        if start >= end:
            return runes.BROKEN, 0
        if self.plain:
            return self.data[start], 1
        decoded = self._decoded.get(start)
        if decoded is None:
            decoded = self._decoded[start] = runes.decode(self.data, start, len(self.data))
        # Where the stretch ends inside the character it is broken.
        return decoded if start + decoded[1] <= end else (runes.BROKEN, 1)

    def spend(self, steps: int) -> None:
        self.steps += steps
        self.cost += steps
        if self.steps > self._most or self.cost > COSTLY:
            raise TooCostlyError

    def characters(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Each character with its position."""
        while start < end:
            rune, width = self.decode(start, end)
            yield start, rune
            start += width

    def count(self, start: int, end: int) -> int:
        if self.plain:
            return end - start
        budget.spend(end - start)
        return sum(1 for _ in self.characters(start, end))

    def cuts(self, start: int, end: int) -> Sequence[int]:
        """Every position where the stretch can be cut in two."""
        if self.plain:
            return range(start, end + 1)
        self.spend(end - start)
        return [*(at for at, _ in self.characters(start, end)), end]

    def stops(self, start: int, end: int) -> list[int]:
        """The end of every character; one past the broken ones, which count as three bytes."""
        self.spend(end - start)
        return [at + runes.written_length(rune) for at, rune in self.characters(start, end)]

    def separator(self, separators: Sequence[bytes], start: int, end: int) -> int:
        """The first of the first separator that occurs, which need not be the first of all."""
        for separator in separators:
            if (at := self.data.find(separator, start, end)) >= 0:
                return at
        return -1


class Matcher(Protocol):
    @property
    def length(self) -> int:
        """In characters, or VARIES."""
        ...

    def matches(self, run: Run, start: int, end: int) -> bool: ...

    def find(self, run: Run, start: int, end: int) -> Found: ...


@dataclass(frozen=True, slots=True)
class NothingMatcher:
    length: ClassVar[int] = 0

    def matches(self, run: Run, start: int, end: int) -> bool:
        return start == end

    def find(self, run: Run, start: int, end: int) -> Found:
        return start, (start,)


@dataclass(frozen=True, slots=True)
class Text:
    text: bytes
    length: int

    def matches(self, run: Run, start: int, end: int) -> bool:
        return end - start == len(self.text) and run.data.startswith(self.text, start)

    def find(self, run: Run, start: int, end: int) -> Found:
        at = run.data.find(self.text, start, end)
        return (at, (at + len(self.text),)) if at >= 0 else NOWHERE


@dataclass(frozen=True, slots=True)
class OneRune:
    """`?`, a list or a range: one character that is or is not in a set."""

    ranges: tuple[tuple[int, int], ...]
    negated: bool
    leaves_out: tuple[bytes, ...] | None
    """Of every character, the ones it does not take; None where it names those that it takes."""
    _listed: frozenset[int] = field(init=False, repr=False, compare=False)
    """Those of a list; a range has two ends."""
    length: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "_listed", frozenset(low for low, high in self.ranges if low == high))

    def accepts(self, rune: int) -> bool:
        return (rune in self._listed or self._is_between(rune)) != self.negated

    def _is_between(self, rune: int) -> bool:
        # A list has no range in it, and a range stands alone.
        return not self._listed and bool(self.ranges) and self.ranges[0][0] <= rune <= self.ranges[0][1]

    def matches(self, run: Run, start: int, end: int) -> bool:
        rune, width = run.decode(start, end)
        # An empty stretch has a broken character, and most sets with a `!` accept that.
        return end - start <= width and self.accepts(rune)

    def find(self, run: Run, start: int, end: int) -> Found:
        for at, rune in run.characters(start, end):
            run.spend(1)
            if self.accepts(rune):
                return at, (at + runes.written_length(rune),)
        return NOWHERE


@dataclass(frozen=True, slots=True)
class AnythingMatcher:
    length: ClassVar[int] = VARIES

    def matches(self, run: Run, start: int, end: int) -> bool:
        return True

    def find(self, run: Run, start: int, end: int) -> Found:
        return start, run.cuts(start, end)


@dataclass(frozen=True, slots=True)
class AnyRunMatcher:
    separators: tuple[bytes, ...]
    length: ClassVar[int] = VARIES

    def matches(self, run: Run, start: int, end: int) -> bool:
        return run.separator(self.separators, start, end) < 0

    def find(self, run: Run, start: int, end: int) -> Found:
        at = run.separator(self.separators, start, end)
        return start, run.cuts(start, end if at < 0 else at)


@dataclass(frozen=True, slots=True)
class AtLeast:
    limit: int
    length: ClassVar[int] = VARIES

    def matches(self, run: Run, start: int, end: int) -> bool:
        return run.count(start, end) >= self.limit

    def find(self, run: Run, start: int, end: int) -> Found:
        stops = range(start + 1, end + 1) if run.plain else run.stops(start, end)
        stops = stops[self.limit - 1 :]
        return (start, stops) if stops else NOWHERE


@dataclass(frozen=True, slots=True)
class AtMost:
    limit: int
    length: ClassVar[int] = VARIES

    def matches(self, run: Run, start: int, end: int) -> bool:
        return run.count(start, end) <= self.limit

    def find(self, run: Run, start: int, end: int) -> Found:
        stops = range(start, end + 1) if run.plain else [start, *run.stops(start, end)]
        return start, stops[: self.limit + 1]


@dataclass(frozen=True, slots=True)
class Contains:
    needle: bytes
    negated: bool = False
    length: ClassVar[int] = VARIES

    def matches(self, run: Run, start: int, end: int) -> bool:
        return (run.data.find(self.needle, start, end) >= 0) != self.negated

    def find(self, run: Run, start: int, end: int) -> Found:
        at = run.data.find(self.needle, start, end)
        if self.negated:
            return start, run.cuts(start, end if at < 0 else at)
        return (start, run.cuts(at + len(self.needle), end)) if at >= 0 else NOWHERE


@dataclass(frozen=True, slots=True)
class Prefix:
    """Text, then anything without a separator."""

    text: bytes
    separators: tuple[bytes, ...] = ()
    length: ClassVar[int] = VARIES

    def matches(self, run: Run, start: int, end: int) -> bool:
        if not run.data.startswith(self.text, start, end):
            return False
        return run.separator(self.separators, start + len(self.text), end) < 0

    def find(self, run: Run, start: int, end: int) -> Found:
        at = run.data.find(self.text, start, end)
        if at < 0:
            return NOWHERE
        after = at + len(self.text)
        separator = run.separator(self.separators, after, end)
        until = end if separator < 0 else separator
        return at, range(after, until + 1) if run.plain else [after, *run.stops(after, until)]


@dataclass(frozen=True, slots=True)
class Suffix:
    """Anything without a separator, then text; None where separators do not matter."""

    text: bytes
    separators: tuple[bytes, ...] | None = None
    length: ClassVar[int] = VARIES

    def matches(self, run: Run, start: int, end: int) -> bool:
        if not run.data.endswith(self.text, start, end):
            return False
        return run.separator(self.separators or (), start, end - len(self.text)) < 0

    def find(self, run: Run, start: int, end: int) -> Found:
        at = run.data.find(self.text, start, end)
        if at < 0:
            return NOWHERE
        begin = start
        for separator in self.separators or ():
            if (last := run.data.rfind(separator, start, at)) >= 0:
                begin = last + 1
                break
        return begin, (at + len(self.text),)


@dataclass(frozen=True, slots=True)
class PrefixSuffix:
    """The two may overlap: `a*a` matches `a`."""

    prefix: bytes
    suffix: bytes
    length: ClassVar[int] = VARIES

    def matches(self, run: Run, start: int, end: int) -> bool:
        return run.data.startswith(self.prefix, start, end) and run.data.endswith(self.suffix, start, end)

    def find(self, run: Run, start: int, end: int) -> Found:
        at = run.data.find(self.prefix, start, end)
        if at < 0:
            return NOWHERE
        stops: list[int] = []
        while (last := run.data.rfind(self.suffix, at, end)) >= 0:
            run.spend(1)
            stops.append(last + len(self.suffix))
            end = last
        stops.reverse()
        return (at, stops) if stops else NOWHERE


@dataclass(frozen=True, slots=True)
class Every:
    """Conditions that a stretch must meet together: lengths, and what it must not contain."""

    conditions: tuple[AtLeast | AtMost | Contains, ...]
    length: ClassVar[int] = VARIES

    def matches(self, run: Run, start: int, end: int) -> bool:
        return all(condition.matches(run, start, end) for condition in self.conditions)

    def find(self, run: Run, start: int, end: int) -> Found:
        common: Sequence[int] | None = None
        for condition in self.conditions:
            at, stops = condition.find(run, start, end)
            if at < 0:
                return NOWHERE
            if common is not None:
                run.spend(len(common))
                stops = [stop for stop in common if stop in stops]
                if not stops:
                    return NOWHERE
            common = stops
        return start, common or ()
