"""Argo CD's globs: would a pattern compile, would it match, would it bring Argo CD down.

This is gobwas/glob 0.2.3 as Argo CD 3.5 uses it: without separators for clusters, namespaces and names, with
`/` for repositories. It is no textbook glob (`?` matches nothing at all, `a*a` matches `a`, `{prod*,prod}`
panics), so nothing here is translated to a regular expression.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from argocd import runes
from argocd.glob_building import build
from argocd.glob_matching import Matcher, PanicError, Run, Text
from argocd.glob_parsing import GlobError, TooCostlyError, parse


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


_SPECIAL = re.compile(r"^$|[\\?*\[{\0\ufffd\ud800-\udfff]")
"""What makes a pattern more than a text; the empty one is."""
_SHORT = 300
"""Characters of what is worth remembering by the thousand; longer texts are rare and could fill the memory."""


def compiled(pattern: str, separators: str = "") -> Glob:
    return (_short if len(pattern) <= _SHORT else _long)(pattern, separators)


def _compile(pattern: str, separators: str) -> Glob:
    if not _SPECIAL.search(pattern):
        return Glob(pattern, Text(runes.encode(pattern), len(pattern)))
    try:
        return Glob(pattern, build(parse(pattern), separators))
    except GlobError as error:
        return Glob(pattern, None, str(error))
    except TooCostlyError:
        return Glob(pattern, None)


_short = lru_cache(maxsize=4096)(_compile)
_long = lru_cache(maxsize=16)(_compile)


def match(pattern: str, text: str, separators: str = "") -> Verdict:
    if len(pattern) + len(text) <= _SHORT:
        return _match(pattern, text, separators)
    return compiled(pattern, separators).match(text)


@lru_cache(maxsize=16384)
def _match(pattern: str, text: str, separators: str) -> Verdict:
    return compiled(pattern, separators).match(text)
