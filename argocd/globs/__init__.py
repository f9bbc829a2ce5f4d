"""Argo CD's globs: would a pattern compile, would it match, would it bring Argo CD down.

This is gobwas/glob 0.2.3 as Argo CD 3.5 uses it: without separators for clusters, namespaces and names, with
`/` for repositories. It is no textbook glob (`?` matches nothing at all, `a*a` matches `a`, `{prod*,prod}`
panics), so nothing here is translated to a regular expression.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from argocd.budget import measured, remembered, spend
from argocd.globs.building import build
from argocd.globs.matchers import (
    AnyRunMatcher,
    AnythingMatcher,
    Matcher,
    PanicError,
    Prefix,
    PrefixSuffix,
    Run,
    Suffix,
    Text,
)
from argocd.globs.parsing import GlobError, TooCostlyError, parse
from argocd.go import runes


class Verdict(StrEnum):
    YES = "yes"
    NO = "no"
    PANIC = "panic"
    """Argo CD's work on the object ends in a panic."""
    HANG = "hang"
    """Argo CD would be busy with it for seconds or for ever."""
    UNKNOWN = "unknown"
    """We cannot tell what Argo CD would say."""


@dataclass(frozen=True, slots=True)
class Glob:
    """A compiled pattern; `error` is Argo CD's complaint where it does not compile."""

    pattern: str
    matcher: Matcher | None
    error: str = ""

    def match(self, text: str) -> Verdict:
        if self.matcher is None:
            return Verdict.NO if self.error else Verdict.HANG
        run = Run(text)
        try:
            return Verdict.YES if self.matcher.matches(run, 0, len(run.data)) else Verdict.NO
        except PanicError:
            return Verdict.PANIC
        except TooCostlyError:
            return Verdict.HANG
        finally:
            spend(1 + (_MATCHING + 2 * run.steps if run.steps else 0))


_MATCHING = 25
"""Steps to hold a glob with several parts against a text; those of the parts come on top."""
_COMPILING = 60
"""Steps to compile the shortest of those that are more than text and a wildcard; more for each character."""
# It gives nothing back: two of them side by side would take the square of a text.
_PLAIN = r"([^\\?*\[{\0\ufffd\ud800-\udfff]*+)"
_LITERAL = re.compile(_PLAIN)
_SIMPLE = re.compile(rf"{_PLAIN}(\*{{0,2}}){_PLAIN}")
_SHORT = 300
"""Characters of what is worth remembering by the thousand; longer texts are rare and could fill the memory."""


def compiled(pattern: str, separators: str = "") -> Glob:
    return _compiled(pattern, separators)


@remembered(longest=_SHORT, most=1024, most_long=4)
def _compiled(pattern: str, separators: str) -> Glob:
    if simple := _SIMPLE.fullmatch(pattern):
        left, stars, right = simple.groups()
        if (matcher := _shortcut(left, stars, right, separators)) is not None:
            return Glob(pattern, matcher)
    spend(_COMPILING + 4 * len(pattern))
    try:
        return Glob(pattern, build(parse(pattern), separators))
    except GlobError as error:
        return Glob(pattern, None, str(error))
    except TooCostlyError:
        return Glob(pattern, None)


def _shortcut(left: str, stars: str, right: str, separators: str) -> Matcher | None:
    """What most patterns are, text and perhaps one wildcard, built without the long way round."""
    if not stars:
        return Text(runes.encode(left), len(left)) if left else None
    kept = tuple(runes.encode(one) for one in separators) if stars == "*" else ()
    if not left and not right:
        return AnyRunMatcher(kept) if kept else AnythingMatcher()
    if left and right:
        return None if kept else PrefixSuffix(runes.encode(left), runes.encode(right))
    if left:
        return Prefix(runes.encode(left), kept)
    return Suffix(runes.encode(right), kept or None)


def compile_error(pattern: str, separators: str = "") -> str:
    """Argo CD's complaint about the pattern; empty where it compiles."""
    # Only a class can be malformed, and only a character that is none be unreadable.
    return compiled(pattern, separators).error if "[" in pattern or not pattern.isascii() else ""


def match(pattern: str, text: str, separators: str = "") -> Verdict:
    if _LITERAL.fullmatch(pattern):
        spend(1)
        return Verdict.YES if pattern == text else Verdict.NO
    # Not by `remembered`: it is asked most of all, and measuring two texts elsewhere makes it a tenth slower.
    if len(pattern) + len(text) <= _SHORT:
        verdict, steps = _match(pattern, text, separators)
        spend(steps)
        return verdict
    return compiled(pattern, separators).match(text)


@lru_cache(maxsize=16384)
def _match(pattern: str, text: str, separators: str) -> tuple[Verdict, int]:
    return measured(_held_against, pattern, text, separators)


def _held_against(pattern: str, text: str, separators: str) -> Verdict:
    return compiled(pattern, separators).match(text)
