"""Whether one glob matches everything that another one does, where that can be told for certain."""

import re

from argocd import globs

_LITERAL_START = re.compile(r"[^*?\[\]{}\\]*")

LONGEST = 2000
"""Characters of both patterns: a URL and a name have far fewer, and more is not worth the time."""


def is_literal(pattern: str) -> bool:
    """No character of it means anything but itself."""
    return _LITERAL_START.fullmatch(pattern) is not None


def covers(pattern: str, other: str) -> bool:
    """True only where every text that `other` matches is matched by `pattern`; False may mean "who knows"."""
    if pattern == other or pattern in {"*", "**"}:
        return True
    if len(pattern) + len(other) > LONGEST:
        return False
    if is_literal(other):
        return globs.match(pattern, other) is globs.Verdict.YES
    prefix, star, rest = pattern.partition("*")
    start = _LITERAL_START.match(other)
    return bool(star and not rest and is_literal(prefix) and start and start[0].startswith(prefix))
