"""The pieces of a glob that hold other pieces: alternatives, rows of fixed length, and trees around a pivot."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from argocd import budget
from argocd.globs.matchers import NOWHERE, VARIES, Found, Matcher, PanicError, Run


@dataclass(frozen=True, slots=True, eq=False)
class OneOf:
    """Alternatives. Its length is that of the last ones alone where the first ones vary: {*,ab} counts as two."""

    branches: tuple[Matcher, ...]
    length: int = field(init=False)

    def __post_init__(self) -> None:
        length = VARIES
        for branch in self.branches:
            if length == VARIES:
                length = branch.length
            elif branch.length != length:
                length = VARIES
                break
        object.__setattr__(self, "length", length)

    def matches(self, run: Run, start: int, end: int) -> bool:
        key = id(self), start, end
        if (known := run.known.get(key)) is not None:
            run.cost += known[1]
            run.spend(1)
            return known[0]
        before = run.cost
        run.spend(len(self.branches))
        answer = any(branch.matches(run, start, end) for branch in self.branches)
        run.known[key] = answer, run.cost - before
        return answer

    def find(self, run: Run, start: int, end: int) -> Found:
        best, merged = NOWHERE
        for branch in self.branches:
            run.spend(1)
            at, stops = branch.find(run, start, end)
            if at < 0 or (best >= 0 and at > best):
                continue
            if at == best:
                stops = _merge(merged, stops)
                run.spend(len(stops))
            best, merged = at, stops
        return best, merged


def _merge(left: Sequence[int], right: Sequence[int]) -> Sequence[int]:
    """Both in order, without repetition, as far as each of them is in order."""
    merged: list[int] = []
    one = two = 0
    while one < len(left) and two < len(right):
        smaller = min(left[one], right[two])
        merged.append(smaller)
        one += left[one] == smaller
        two += right[two] == smaller
    return [*merged, *left[one:], *right[two:]]


@dataclass(frozen=True, slots=True)
class Row:
    """Pieces of fixed length, one after the other.

    A piece of length nothing takes all that is left, and where nothing is left Argo CD panics.
    """

    pieces: tuple[Matcher, ...]
    length: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", sum(piece.length for piece in self.pieces))

    def matches(self, run: Run, start: int, end: int) -> bool:
        return run.count(start, end) == self.length and self._fits(run, start, end)

    def find(self, run: Run, start: int, end: int) -> Found:
        for at, _ in run.characters(start, end):
            if end - at < self.length:
                break
            if self._fits(run, at, end):
                return at, (at + self.length,)
        return NOWHERE

    def _fits(self, run: Run, at: int, end: int) -> bool:
        for piece in self.pieces:
            run.spend(1)
            if piece.length == 0 and at == end:
                raise PanicError
            stop = _stop(run, at, end, piece.length)
            if stop < 0 or not piece.matches(run, at, stop):
                return False
            at = stop
        return True


def _stop(run: Run, at: int, end: int, length: int) -> int:
    """Where so many characters end; one byte into the last of them where it has several."""
    if run.plain:
        if length == 0:
            return end
        return at + length if at + length <= end else -1
    budget.spend(length)
    count, last = 0, at
    for last, _ in run.characters(at, end):  # noqa: B007 - the position is used after the loop
        count += 1
        if count == length:
            break
    return last + 1 if count >= length else -1


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """A pivot with what must match before and after it. It never finds anything, it only matches.

    Subtrees are visited without recursion, and each answer is remembered with what it cost: gobwas/glob
    pays that again every time.
    """

    pivot: Matcher
    left: Matcher | None
    right: Matcher | None
    length: ClassVar[int] = VARIES

    def find(self, run: Run, start: int, end: int) -> Found:
        return NOWHERE

    def matches(self, run: Run, start: int, end: int) -> bool:
        answer: bool | None = None
        pending = [_Visit(self, run, start, end)]
        while pending:
            visit = pending[-1]
            try:
                subtree, begin, stop = visit.walk.send(answer)
            except StopIteration as finished:
                answer = finished.value
                run.known[visit.key] = bool(answer), run.cost - visit.cost
                pending.pop()
                continue
            if (known := run.known.get((id(subtree), begin, stop))) is not None:
                answer, cost = known
                run.cost += cost
            else:
                answer = None
                pending.append(_Visit(subtree, run, begin, stop))
        return bool(answer)


class _Visit:
    """A tree on its way over one stretch; it asks for the subtrees that it needs."""

    __slots__ = ("cost", "key", "walk")

    def __init__(self, tree: Tree, run: Run, start: int, end: int) -> None:
        self.key = id(tree), start, end
        self.cost = run.cost
        self.walk = _walk(tree, run, start, end)


def _find(pivot: Matcher, run: Run, start: int, end: int) -> Found:
    """Where the pivot is; what holds other pieces is not asked twice."""
    if not isinstance(pivot, OneOf | Row):
        return pivot.find(run, start, end)
    key = id(pivot), start, end
    known = run.found.get(key)
    if known is None:
        before = run.cost
        found = pivot.find(run, start, end)
        run.found[key] = found, run.cost - before
        return found
    run.cost += known[1]
    return known[0]


def _walk(tree: Tree, run: Run, start: int, end: int) -> Generator[tuple[Tree, int, int], bool | None, bool]:
    left, right = tree.left, tree.right
    at = start + max(left.length, 0) if left else start
    limit = end - max(right.length, 0) if right else end
    while at < limit:
        run.spend(1)
        found, stops = _find(tree.pivot, run, at, limit)
        if found < 0:
            return False
        if left is None:
            fits: bool | None = found == start
        elif isinstance(left, Tree):
            fits = yield left, start, found
        else:
            fits = left.matches(run, start, found)
        if fits:
            for stop in reversed(stops):
                run.spend(1)
                rest = min(stop, end)
                if right is None:
                    fits = rest == end
                elif isinstance(right, Tree):
                    fits = yield right, rest, end
                else:
                    fits = right.matches(run, rest, end)
                if fits:
                    return True
        at = found + run.decode(found, end)[1]
    return False
