"""How much work a compiled glob is at most, so that it need not be tried to know that it ends.

All of it is about texts of printable ASCII without separators, as agents' names are.
"""

from argocd.globs.matchers import BUDGET, COSTLY, Every, Matcher, OneRune, PrefixSuffix, Text
from argocd.globs.nested import OneOf, Row, Tree


def is_fixed(piece: Matcher) -> bool:
    """Whether it matches texts of one length alone; alternatives do not always say so rightly."""
    match piece:
        case Text() | OneRune():
            return piece.length > 0
        case Row(pieces=pieces):
            # It cuts the text itself, so that nobody takes more than he says.
            return all(one.length > 0 for one in pieces)
        case OneOf(branches=branches):
            return piece.length > 0 and all(
                branch.length == piece.length and is_fixed(branch) for branch in branches
            )
    return False


def is_cheap(matcher: Matcher, length: int) -> bool:
    """Whether the glob comes to an answer about every text of printable ASCII so long."""
    return _cost(matcher, length) <= COSTLY and _steps(matcher, length) <= BUDGET


def _cost(piece: Matcher, length: int) -> int:
    """No less than gobwas/glob pays for one match, which remembers nothing."""
    match piece:
        case OneOf(branches=inner) | Row(pieces=inner):
            return 1 + len(inner) + sum(_cost(one, length) for one in inner)
        case Tree(_, left, right):
            before = _cost(left, length) if left else 0
            after = _cost(right, length) if right else 0
            return _visit(piece, length, before, after)
    return 0


def _steps(piece: Matcher, length: int, *, starts: int = 1, ends: int = 1) -> int:
    """No fewer than we take for all stretches with so many different beginnings and ends, each tried once."""
    match piece:
        case OneOf(branches=branches):
            inner = sum(_steps(one, length, starts=starts, ends=ends) for one in branches)
            return _stretches(starts, ends) * (1 + len(branches)) + inner
        case Tree(_, left, right):
            before = _steps(left, length, starts=starts, ends=length + 1) if left else 0
            after = _steps(right, length, starts=length + 1, ends=ends) if right else 0
            own = _visit(piece, length, _asking(left, length), _asking(right, length))
            return _stretches(starts, ends) * own + before + after
    return _stretches(starts, ends) * _cost(piece, length)


def _stretches(starts: int, ends: int) -> int:
    """One begins before it ends."""
    return starts * (ends + 1) // 2 if starts == ends else starts * ends


def _asking(piece: Matcher | None, length: int) -> int:
    """Steps to ask a piece again about a stretch."""
    return 1 if piece is None or isinstance(piece, Tree | OneOf) else _cost(piece, length)


def _visit(tree: Tree, length: int, before: int, after: int) -> int:
    """Steps of a tree on one stretch, given those of its sides."""
    finding = 1 + _finding(tree.pivot, length)
    following = _stops(tree.pivot, length) * (1 + after)
    if tree.left is None:  # What is found further on is not what the stretch begins with.
        return length * finding + following
    return length * (finding + before + following)


def _finding(piece: Matcher, length: int) -> int:
    match piece:
        case OneOf(branches=branches):
            return sum(1 + _stops(branch, length) + _finding(branch, length) for branch in branches)
        case Row():
            return length * _cost(piece, length)
        case Every(conditions):
            return len(conditions) * (length + 1)
        case OneRune() | PrefixSuffix():
            return length
    return 0


def _stops(piece: Matcher, length: int) -> int:
    """No fewer than the ends that it finds for one beginning."""
    return 1 if is_fixed(piece) else length + 1
