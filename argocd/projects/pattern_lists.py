"""Lists of patterns as Argo CD reads them: globs, globs with a `!` before them, and `/regular expressions/`."""

from collections.abc import Iterable, Sequence
from enum import StrEnum

from argocd import globs
from argocd.globs import Verdict, batch
from argocd.go import regexp2

_TROUBLE = frozenset({Verdict.PANIC, Verdict.HANG})


class ListMode(StrEnum):
    EXACT = "exact"
    GLOB = "glob"
    REGEXP = "regexp"
    """An entry between slashes is a regular expression; if it does not match it is still tried as a glob."""


def in_list(entries: Iterable[str], text: str, *, mode: ListMode = ListMode.REGEXP) -> Verdict:
    """Whether one of the entries is about the text."""
    verdict = Verdict.NO
    for entry in entries:
        if mode is ListMode.EXACT:
            found = Verdict.YES if entry == text else Verdict.NO
        else:
            found = _expression(entry, text) if mode is ListMode.REGEXP else Verdict.NO
            if found is not Verdict.YES and found is not Verdict.PANIC:
                tried = globs.match(entry, text)
                found = found if tried is Verdict.NO else tried
        if found is Verdict.YES or found in _TROUBLE:
            return found
        if found is Verdict.UNKNOWN:
            verdict = found
    return verdict


def _expression(entry: str, text: str) -> Verdict:
    if not is_expression(entry):
        return Verdict.NO
    if len(entry) == 1:
        # Argo CD cuts off one slash at each end, and there is only one.
        return Verdict.PANIC
    expression = regexp2.compiled(entry[1:-1])
    if expression.unsupported:
        return Verdict.UNKNOWN
    return Verdict.YES if expression.search and expression.search(text) else Verdict.NO


def matching(entry: str, names: Sequence[str]) -> Iterable[str]:
    """Those of the names that one entry is about: `in_list` for many names at once, in the mode REGEXP."""
    if not is_expression(entry):
        return batch.matching(entry, names)
    if entry == "/":
        return ()
    # As a glob it begins with a slash, which no agent's name has; to take thousands of alternatives apart takes long.
    matched = batch.matching(entry, slashed) if (slashed := _slashed(names)) else ()
    search = regexp2.compiled(entry[1:-1]).search
    return {*matched, *filter(search, names)} if search else matched


def _slashed(names: Sequence[str]) -> list[str]:
    return [name for name in names if "/" in name]


def is_expression(entry: str) -> bool:
    return entry.startswith("/") and entry.endswith("/")


def is_denial(pattern: str) -> bool:
    return pattern.startswith("!")


def match(pattern: str, text: str, separators: str = "") -> Verdict:
    """One pattern of a project; one that denies is right where the rest does not match.

    So a denial that does not compile is always right.
    """
    if is_denial(pattern):
        return _OPPOSITE.get(found := globs.match(pattern[1:], text, separators), found)
    return Verdict.YES if pattern == "*" else globs.match(pattern, text, separators)


_OPPOSITE = {Verdict.YES: Verdict.NO, Verdict.NO: Verdict.YES}
