"""Whether one glob matches everything that another one does, where that can be told for certain."""

from argocd import globs

_SPECIAL = frozenset("*?[]{}\\")


def is_literal(pattern: str) -> bool:
    """No character of it means anything but itself."""
    return _SPECIAL.isdisjoint(pattern)


def covers(pattern: str, other: str) -> bool:
    """True only where every text that `other` matches is matched by `pattern`; False may mean "who knows"."""
    if pattern == other or pattern in {"*", "**"}:
        return True
    if is_literal(other):
        return globs.match(pattern, other) is globs.Verdict.YES
    prefix, star, rest = pattern.partition("*")
    if star and not rest and is_literal(prefix):
        return _literal_start(other).startswith(prefix)
    return False


def _literal_start(pattern: str) -> str:
    for place, character in enumerate(pattern):
        if character in _SPECIAL:
            return pattern[:place]
    return pattern
