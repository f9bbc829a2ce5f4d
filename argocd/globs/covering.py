"""Whether one glob matches everything that another one does, where that can be told for certain."""

import re
from functools import lru_cache

from argocd import globs
from argocd.budget import measured, spend

_LITERAL_START = re.compile(r"[^*?\[\]{}\\]*")

LONGEST = 600
"""Characters of both patterns: a URL and a name have fewer, and more is not worth time and memory."""


def is_literal(pattern: str) -> bool:
    """No character of it means anything but itself."""
    return _LITERAL_START.fullmatch(pattern) is not None


def covers(pattern: str, other: str) -> bool:
    """True only where every text that `other` matches is matched by `pattern`; False may mean "who knows"."""
    spend(4)
    if pattern == other or pattern in {"*", "**"}:
        return True
    if len(pattern) + len(other) > LONGEST:
        return False
    answer, steps = _covers(pattern, other)
    spend(steps)
    return answer


@lru_cache(maxsize=4096)
def _covers(pattern: str, other: str) -> tuple[bool, int]:
    return measured(_matches_all, pattern, other)


def _matches_all(pattern: str, other: str) -> bool:
    if is_literal(other):
        return globs.match(pattern, other) is globs.Verdict.YES
    prefix, star, rest = pattern.partition("*")
    start = _LITERAL_START.match(other)
    return bool(star and not rest and is_literal(prefix) and start and start[0].startswith(prefix))
