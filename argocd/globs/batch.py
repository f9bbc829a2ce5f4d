"""Holds one glob against many names at once.

Most compiled globs are regular expressions with surprises, and the surprises can be written down too; RE2 then
finds all names that match in one pass over them. Where a surprise cannot be written down the expression is wider
than the glob, and what it finds is tried by the glob itself. Argo CD's verdict is the one that counts, so nothing
here is a guess: tests hold expressions against the matcher.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import re2

from argocd import globs
from argocd.charged_re2 import compiled
from argocd.globs import Verdict
from argocd.globs.costs import is_cheap, is_fixed
from argocd.globs.matchers import (
    VARIES,
    AnythingMatcher,
    AtLeast,
    AtMost,
    Contains,
    Every,
    Matcher,
    NothingMatcher,
    OneRune,
    PanicError,
    Prefix,
    PrefixSuffix,
    Run,
    Suffix,
    Text,
)
from argocd.globs.nested import OneOf, Row, Tree

LONGEST = 300
"""Characters of a pattern that is worth an expression: agents' names have fewer."""
_FEW = 4
"""Names that are tried sooner than an expression is asked."""
_CHARACTERS = range(ord(" "), ord("~") + 1)
_PRINTABLE = "".join(map(chr, _CHARACTERS))
_RANGE = re.compile("(?=(.)-(.))", re.DOTALL)
"""What may be a range: `-` need not stand in a class."""
_NEVER = r"[^\x00-\x{10FFFF}]"
_ANY = ".*"
_ALWAYS_THE_SAME: dict[type, str] = {NothingMatcher: "", AnythingMatcher: _ANY, Tree: _NEVER}
"""What these find; a tree only matches."""
_MAX_OVERLAPS = 4
"""Ways in which the two ends of `ab*ba` overlap that are written out."""


def matching(pattern: str, names: Sequence[str]) -> Iterable[str]:
    """Those of the names that the glob matches; a panic or endless work is no match."""
    glob = globs.compiled(pattern)
    if glob.matcher is None:
        return ()
    if len(names) < _FEW or not all(names) or not _is_printable("".join(names)):
        return _tried(glob, names)
    lines = "\n".join([*names, ""]).encode()
    exact = False
    if len(pattern) <= LONGEST:
        search, exact = _expression(pattern)
        # Neighbours that match are found together, which is cheaper than one by one.
        lines = b"".join([one.group() for one in search(lines)])
    found = _names_in(lines)
    if exact and is_cheap(glob.matcher, max(map(len, found), default=0)):
        return found
    # Most names look alike to a glob, and a tangle of braces and stars takes milliseconds for each.
    seen = _names_in(lines.translate(_sight(pattern)))
    matched = set(_tried(glob, set(seen)))
    return [name for name, alike in zip(found, seen, strict=True) if alike in matched]


def _names_in(lines: bytes) -> list[str]:
    return lines.decode().split("\n")[:-1]


def _tried(glob: globs.Glob, names: Iterable[str]) -> list[str]:
    return [name for name in names if glob.match(name) is Verdict.YES]


def _sight(pattern: str) -> bytes:
    """For `bytes.translate`: characters that the pattern cannot tell apart become one of them."""
    unnamed = [character for character in _PRINTABLE if character not in pattern]
    ranges = set(_RANGE.findall(pattern))
    first: dict[tuple[bool, ...], str] = {}
    alike = [first.setdefault(tuple(low <= one <= high for low, high in ranges), one) for one in unnamed]
    return bytes.maketrans("".join(unnamed).encode(), "".join(alike).encode())


# A glob of many stars or question marks takes two hundred kilobytes.
@lru_cache(maxsize=64)
def _expression(pattern: str) -> tuple[Callable[[bytes], Iterable[Any]], bool]:
    """What finds the lines that match, and whether the glob matches all of them."""
    matcher = globs.compiled(pattern).matcher
    assert matcher is not None
    translation = _Translation()
    line = translation.whole(matcher, inner=False)
    return compiled(rf"(?m)(?:^(?:{line})\n)+").finditer, translation.exact


class _Translation:
    """Printable ASCII in, so each byte is a character, and without separators."""

    def __init__(self) -> None:
        self.exact = True

    def whole(self, piece: Matcher, *, inner: bool = True) -> str:
        """The texts that the piece matches; at the outside none of them is empty."""
        match piece:
            case OneOf(branches=branches):
                return _either(self.whole(branch, inner=inner) for branch in branches)
            case OneRune():
                # An empty stretch has a broken character, and most sets with a `!` accept that.
                return f"{_one(piece)}?" if piece.matches(Run(""), 0, 0) else _one(piece)
            case Suffix(text, None):
                return f"{_ANY}{_literal(text)}"
            case PrefixSuffix(prefix, suffix):
                return self._ends(prefix, suffix)
            case Tree():
                return self._tree(piece, inner=inner)
            case Row(pieces=pieces) if not is_fixed(piece):
                # Where a piece of no length stands nothing is left for those behind it, or Argo CD panics.
                honest = all(one.length == 0 or is_fixed(one) for one in pieces)
                return self._wider(_NEVER if honest else _ANY)
        return self._found(piece)

    def _tree(self, tree: Tree, *, inner: bool) -> str:
        left, pivot, right = tree.left, tree.pivot, tree.right
        before = self.whole(left) if left else ""
        after = self.whole(right) if right else ""
        middle = self._found(pivot)
        whole = f"{before}{middle}{after}"
        # A pivot is looked for between as many characters as its sides say that they have, where any are left.
        if not _is_honest(left, right) or (_finds_nothing(pivot) and (left or _length(right) != VARIES)):
            return self._wider(whole)
        if inner and _finds_nothing(pivot) and right and _takes_nothing(right):
            # A tree never matches the empty text.
            takes_anything = isinstance(pivot, AnythingMatcher) or isinstance(right, AnythingMatcher)
            return ".+" if takes_anything else self._wider(whole)
        return whole

    def _found(self, piece: Matcher) -> str:
        """The texts that begin where the piece finds itself."""
        if is_fixed(piece):
            return self._slice(piece, piece.length)
        if (same := _ALWAYS_THE_SAME.get(type(piece))) is not None:
            return same
        match piece:
            case AtLeast(limit):
                return f".{{{limit},}}"
            case Every():
                return self._so_many(piece)
            case Contains(needle, negated=False):
                return f"{_ANY}{_literal(needle)}{_ANY}"
            case Prefix(text, ()):
                return f"{_literal(text)}{_ANY}"
            case OneOf(branches=branches):
                return _either(map(self._found, branches))
            case Suffix() | PrefixSuffix():
                return self._wider(self.whole(piece))  # It looks for the first or the last end alone.
        return self._wider(_ANY)

    def _slice(self, piece: Matcher, length: int) -> str:
        """The texts of this length, which is not nothing, that the piece matches."""
        match piece:
            case Text(text):
                return _literal(text) if len(text) == length else _NEVER
            case OneRune():
                return _one(piece) if length == 1 else _NEVER
            case OneOf(branches=branches):
                return _either(self._slice(branch, length) for branch in branches)
            case Row(pieces=pieces) if piece.length == length and is_fixed(piece):
                return "".join([self._slice(one, one.length) for one in pieces])
            case AnythingMatcher():
                return f".{{{length}}}"
            case Prefix(text, ()) if len(text) <= length:
                return f"{_literal(text)}.{{{length - len(text)}}}"
            case Suffix(text, None) if len(text) <= length:
                return f".{{{length - len(text)}}}{_literal(text)}"
        return self._wider(f".{{{length}}}")

    def _so_many(self, piece: Every) -> str:
        """Some `?`, or some `[!a]`, one after the other."""
        match piece.conditions:
            case (AtLeast(limit), AtMost()):
                return f".{{{limit}}}"
            case (AtLeast(limit), AtMost(), Contains(needle)) if len(needle) == 1:
                others = OneRune(((needle[0], needle[0]),), negated=True, leaves_out=None)
                return f"{_one(others)}{{{limit}}}"
        return self._wider(_ANY)

    def _ends(self, prefix: bytes, suffix: bytes) -> str:
        """The two may overlap: `a*a` matches `a`."""
        shorter = min(len(prefix), len(suffix))
        overlaps = [size for size in range(1, shorter + 1) if prefix.endswith(suffix[:size])]
        if len(overlaps) > _MAX_OVERLAPS:
            return self._wider(f"{_literal(prefix)}{_ANY}")
        together = [_literal(prefix + suffix[size:]) for size in overlaps]
        return _either([f"{_literal(prefix)}{_ANY}{_literal(suffix)}", *together])

    def _wider(self, expression: str) -> str:
        self.exact = False
        return expression


def _is_honest(*sides: Matcher | None) -> bool:
    """Whether their lengths are what they say."""
    return all(side is None or side.length == VARIES or is_fixed(side) for side in sides)


def _length(side: Matcher | None) -> int:
    return 0 if side is None else side.length


def _finds_nothing(piece: Matcher) -> bool:
    """Whether it may find itself without any character."""
    return 0 in piece.find(Run(""), 0, 0)[1]


def _takes_nothing(piece: Matcher) -> bool:
    """Whether it may match an empty stretch."""
    try:
        return piece.matches(Run(""), 0, 0)
    except PanicError:
        return True


def _either(expressions: Iterable[str]) -> str:
    return f"(?:{'|'.join(expressions)})"


def _literal(text: bytes) -> str:
    return str(re2.escape(text.decode())) if _is_printable(text.decode("latin-1")) else _NEVER


def _is_printable(text: str) -> bool:
    return text.isascii() and text.isprintable()


@lru_cache(maxsize=256)
def _one(piece: OneRune) -> str:
    accepted = [rune for rune in _CHARACTERS if piece.accepts(rune)]
    if len(accepted) == len(_CHARACTERS):
        return "."
    listed = "".join([rf"\x{rune:02x}" for rune in accepted])
    return f"[{listed}]" if listed else _NEVER
