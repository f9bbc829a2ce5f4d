"""Builds the pieces that a parsed glob is matched with.

gobwas/glob 0.2.3 glues neighbours together and picks pivots by length, and what a pattern matches depends
on those choices, so they are made alike: the longest stretch that can be glued first, over and over, then
trees around the last of the longest pieces.
"""

from collections.abc import Sequence

from argocd import budget
from argocd.globs import parsing
from argocd.globs.matchers import (
    VARIES,
    AnyRunMatcher,
    AnythingMatcher,
    AtLeast,
    AtMost,
    Contains,
    Every,
    Matcher,
    NothingMatcher,
    OneRune,
    Prefix,
    PrefixSuffix,
    Suffix,
    Text,
)
from argocd.globs.nested import OneOf, Row, Tree
from argocd.go import runes

BUDGET = 15_000
"""Steps that we take to build one glob: about 15 ms. A pattern of a hundred parts takes a few thousand."""
COSTLY = 100_000_000
"""Steps that keep gobwas/glob busy for about a second: it tries every stretch of every length."""
_COPYING = 3
"""What a step costs it where it copies pieces into a row."""


_ANY_THING = AnythingMatcher()


def build(pattern: parsing.Sequence, separators: str) -> Matcher:
    return _Building(separators).part(pattern)


class _Building:
    def __init__(self, separators: str) -> None:
        self._separators = _encoded(separators)
        self._any_one = OneRune(
            tuple((ord(one), ord(one)) for one in separators), negated=True, leaves_out=self._separators
        )
        self._any_run: Matcher = AnyRunMatcher(self._separators) if self._separators else _ANY_THING
        self._steps = 0
        self._cost = 0

    def part(self, part: parsing.Part) -> Matcher:
        match part:
            case parsing.Sequence(parts) if parts:
                self._spend(len(parts))
                return _planted(self._glued([self.part(inner) for inner in parts]))
            case parsing.Choice(branches):
                return self._choice(branches)
            case parsing.Literal(text):
                return _text(text)
            case parsing.OneOfThese(characters, negated):
                return _listed(characters, negated=negated)
            case parsing.OneBetween(low, high, negated):
                return OneRune(((ord(low), ord(high)),), negated, None)
            case parsing.AnyOne():
                return self._any_one
            case parsing.AnyRun():
                return self._any_run
            case parsing.AnyThing():
                return _ANY_THING
        return NothingMatcher()

    def _choice(self, branches: tuple[parsing.Sequence, ...]) -> Matcher:
        self._spend(10 + len(branches) ** 2)
        if (shorter := _without_common_parts(branches)) is not None:
            return self.part(shorter)
        built = tuple(self.part(branch) for branch in branches)
        return built[0] if len(built) == 1 else OneOf(built)

    def _glued(self, pieces: list[Matcher]) -> list[Matcher]:
        while len(pieces) > 1:
            self._spend(len(pieces))
            rows, repetitions = _ends(pieces)
            for start, (row, repetition) in enumerate(zip(rows, repetitions, strict=True)):
                # It tries every stretch that begins here, and copies those that can be a row.
                self._cost += len(pieces) + _COPYING * (row - start) ** 2 + (repetition - start) ** 2
            best = _best_stretch(pieces, rows, repetitions)
            if best is None:
                break
            start, end, glued = best
            pieces[start:end] = [glued]
        self._spend(0)
        return pieces

    def _spend(self, steps: int) -> None:
        self._steps += steps
        budget.spend(4 * steps)  # what is glued and planted is compared on the way
        if self._steps > BUDGET or self._cost > COSTLY:
            raise parsing.TooCostlyError


def _encoded(characters: str) -> tuple[bytes, ...]:
    return tuple(runes.encode(character) for character in characters)


def _text(text: str) -> Text:
    return Text(runes.encode(text), len(text))


def _listed(characters: str, *, negated: bool) -> Matcher:
    if len(characters) == 1 and not negated:
        return _text(characters)
    ranges = tuple((ord(character), ord(character)) for character in characters)
    return OneRune(ranges, negated, _encoded(characters) if negated else None)


def _best_stretch(
    pieces: Sequence[Matcher], rows: list[int], repetitions: list[int]
) -> tuple[int, int, Matcher] | None:
    """The stretch to glue next.

    From left to right a longer stretch replaces the one before, and so does a row of more characters in
    fewer pieces. Of the stretches within one row, or within one repetition, only the whole can win.
    """
    best: tuple[int, int] | None = None
    best_length = VARIES
    for start in range(len(pieces) - 1):
        row, repetition = rows[start], repetitions[start]
        if row > max(repetition, start + 1) and not (start and rows[start - 1] == row):
            length = sum(piece.length for piece in pieces[start:row])
            if best is None or row - start > best[1] - best[0] or -1 < best_length < length:
                best, best_length = (start, row), length
        if repetition > start + 1 and (best is None or repetition - start > best[1] - best[0]):
            best, best_length = (start, repetition), VARIES
    if best is None:
        return None
    start, end = best
    chosen = tuple(pieces[start:end])
    return start, end, Row(chosen) if best_length != VARIES else _repetition(chosen)


def _ends(pieces: Sequence[Matcher]) -> tuple[list[int], list[int]]:
    """For each piece where the row, and where the repetition, that begins with it ends."""
    rows, repetitions = [0] * len(pieces), [0] * len(pieces)
    row, repetition = len(pieces), len(pieces)
    after: tuple[bytes, ...] | None = None
    for at in range(len(pieces) - 1, -1, -1):
        if pieces[at].length == VARIES:
            row = at
        rows[at] = row
        kept = _leaves_out(pieces[at])
        if kept is None:
            repetition = at
        elif kept != after:
            repetition = at + 1
        repetitions[at] = repetition
        after = kept
    return rows, repetitions


def _leaves_out(piece: Matcher) -> tuple[bytes, ...] | None:
    match piece:
        case AnythingMatcher():
            return ()
        case AnyRunMatcher(separators):
            return separators
        case OneRune():
            return piece.leaves_out
    return None


def _repetition(pieces: tuple[Matcher, ...]) -> Matcher:
    """Pieces that all take any character but the same ones."""
    single = sum(isinstance(piece, OneRune) for piece in pieces)
    separators = _leaves_out(pieces[0]) or ()
    if not single:
        return AnyRunMatcher(separators) if separators else _ANY_THING
    bounded = single == len(pieces)
    if not bounded and not separators:
        return AtLeast(single)
    conditions: list[AtLeast | AtMost | Contains] = [AtLeast(single)]
    if bounded:
        conditions.append(AtMost(single))
    if separators:
        conditions.append(Contains(b"".join(separators), negated=True))
    return Every(tuple(conditions))


def _planted(pieces: Sequence[Matcher]) -> Matcher:
    """A tree: the root is the last of the longest pieces, and so on to both sides of it."""
    waiting: list[tuple[Matcher, Matcher | None]] = []
    varying: list[Matcher] = []
    for piece in pieces:
        if piece.length == VARIES:
            varying.append(piece)
            continue
        before = _chained(varying)
        varying = []
        while waiting and waiting[-1][0].length <= piece.length:
            before = _tree(*waiting.pop(), before)
        waiting.append((piece, before))
    after = _chained(varying)
    while waiting:
        after = _tree(*waiting.pop(), after)
    assert after is not None
    return after


def _chained(pieces: list[Matcher]) -> Matcher | None:
    if not pieces:
        return None
    chain = pieces[-1]
    for piece in reversed(pieces[:-1]):
        chain = _tree(piece, None, chain)
    return chain


def _tree(pivot: Matcher, left: Matcher | None, right: Matcher | None) -> Matcher:
    """The pivot with its two sides, or something simpler that means nearly the same."""
    if left is None and right is None:
        return pivot
    if not isinstance(pivot, Text):
        return Tree(pivot, left, right)
    match left, right:
        case AnythingMatcher(), AnythingMatcher():
            return Contains(pivot.text)
        case AnythingMatcher(), None:
            return Suffix(pivot.text)
        case None, AnythingMatcher():
            return Prefix(pivot.text)
        case None, Suffix(text, None):
            return PrefixSuffix(pivot.text, text)
        case Prefix(text, ()), None:
            return PrefixSuffix(text, pivot.text)
        case AnyRunMatcher(separators), None:
            return Suffix(pivot.text, separators)
        case None, AnyRunMatcher(separators):
            return Prefix(pivot.text, separators)
    return Tree(pivot, left, right)


def _without_common_parts(branches: tuple[parsing.Sequence, ...]) -> parsing.Sequence | None:
    """`{ab*,ac*}` as `a{b,c}*`; None where the alternatives have no beginning or end in common."""
    sequences = [branch.parts for branch in branches if not isinstance(branch, parsing.Empty)]
    if len(sequences) < max(len(branches), 2):
        return None
    left, right = _common_parts(sequences)
    if not left and not right:
        return None
    reduced: list[parsing.Sequence] = []
    for parts in sequences:
        middle = parts[left : len(parts) - right]
        branch = parsing.Sequence(middle) if middle else parsing.Empty()
        if branch not in reduced:
            reduced.append(branch)
    shortest = min(sequences, key=len)
    result: list[parsing.Part] = []
    if left:
        result.append(parsing.Sequence(shortest[:left]))
    if len(reduced) > 1:
        result.append(parsing.Choice(tuple(reduced)))
    if right:
        result.append(parsing.Sequence(shortest[len(shortest) - right :]))
    return parsing.Sequence(tuple(result))


def _common_parts(sequences: list[tuple[parsing.Part, ...]]) -> tuple[int, int]:
    """How many parts all have in common at the beginning and at the end, found from both sides at once."""
    shortest = min(sequences, key=len)
    others = list(sequences)
    others.remove(shortest)
    left = right = 0
    left_ends = right_ends = False
    for at in range(len(shortest)):
        back = len(shortest) - 1 - at
        if left + right >= len(shortest) or (left_ends and right_ends):
            break
        for other in others:
            if left_ends and right_ends:
                break
            left_ends = left_ends or shortest[at] != other[at]
            right_ends = (
                right_ends
                or (not left_ends and back <= at)
                or shortest[back] != other[back + len(other) - len(shortest)]
            )
        left += not left_ends
        right += not right_ends
    return left, right
