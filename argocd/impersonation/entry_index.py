"""Entries of destinationServiceAccounts by what they are about, so that many of them need not be tried one by one.

Nearly all are texts, or texts with a star at the end: those are looked up. Other globs have to be tried, and each trial
is charged to the review.
"""

import re
from collections.abc import Container, Iterator, Sequence
from typing import Generic, TypeVar

from argocd.budget import spend
from argocd.globs.covering import LONGEST, covers
from argocd.impersonation.derivation import ServiceAccountEntry

_TEXT = r"[^*?\[\]{}\\\0\ufffd\ud800-\udfff]*"
_START = re.compile(_TEXT)
_SIMPLE = re.compile(rf"({_TEXT})(\*?)")

_AT_ONCE = 8
"""Lengths that one step looks up."""

Held = TypeVar("Held")


class _Prefixes(Generic[Held]):
    """What is held for a text, or for all texts that begin with one."""

    def __init__(self) -> None:
        self._whole: dict[str, Held] = {}
        self._begun: dict[str, Held] = {}
        self._lengths: dict[int, None] = {}

    def setdefault(self, pattern: re.Match[str], held: Held) -> Held:
        text, star = pattern.groups()
        if not star:
            return self._whole.setdefault(text, held)
        self._lengths[len(text)] = None
        return self._begun.setdefault(text, held)

    def covering(self, pattern: str) -> Iterator[Held]:
        """Of all patterns that match everything that this one does."""
        spend(len(self._lengths) // _AT_ONCE)
        found = _START.match(pattern)
        start = found[0] if found else ""
        if start == pattern and start in self._whole:
            yield self._whole[start]
        for length in self._lengths:
            if length <= len(start) and (held := self._begun.get(start[:length])) is not None:
                yield held


class EntryIndex:
    """Of entries with the same server and namespace only the first is kept: it decides."""

    def __init__(self, entries: Sequence[ServiceAccountEntry] = ()) -> None:
        self._simple: _Prefixes[_Prefixes[tuple[int, ServiceAccountEntry]]] = _Prefixes()
        self._others: dict[tuple[str, str], tuple[int, ServiceAccountEntry]] = {}
        self._size = 0
        for entry in entries:
            self.add(entry)

    def add(self, entry: ServiceAccountEntry) -> None:
        server, namespace = _simple(entry.server), _simple(entry.namespace)
        if server is None or namespace is None:
            self._others.setdefault((entry.server, entry.namespace), (self._size, entry))
        else:
            self._simple.setdefault(server, _Prefixes()).setdefault(namespace, (self._size, entry))
        self._size += 1

    def candidates(self, *, server: str, namespace: str) -> Iterator[ServiceAccountEntry]:
        """The entries that may match this destination, in their order; all others do not."""
        found = sorted(self._found(server, namespace), reverse=True)
        for order, entry in self._others.values():
            while found and found[-1][0] < order:
                yield found.pop()[1]
            yield entry
        yield from (entry for _, entry in reversed(found))

    def shadowing(self, entry: ServiceAccountEntry) -> ServiceAccountEntry | None:
        """The first that matches all that this one does; a repetition of it is not meant."""
        found = [one for one in self._found(entry.server, entry.namespace) if not _is_repeated(one[1], entry)]
        for order, one in self._others.values():
            if (
                not _is_repeated(one, entry)
                and covers(one.server, entry.server)
                and covers(one.namespace, entry.namespace)
            ):
                found.append((order, one))
                break
        return min(found)[1] if found else None

    def _found(self, server: str, namespace: str) -> list[tuple[int, ServiceAccountEntry]]:
        return [one for inner in self._simple.covering(server) for one in inner.covering(namespace)]


def shadowed(
    entries: Sequence[ServiceAccountEntry], *, fresh: Container[int] | None = None
) -> Iterator[tuple[ServiceAccountEntry, ServiceAccountEntry]]:
    """Each entry that is never reached, with the one that stands in its way.

    Where there are `fresh` places, one of the two is at one of them: the others are not held against each other.
    What comes after an entry that matches everything is not told one by one.
    """
    before, fresh_before = EntryIndex(), EntryIndex()
    for entry in entries:
        is_fresh = fresh is None or entry.place in fresh
        if (found := (before if is_fresh else fresh_before).shadowing(entry)) is not None:
            yield entry, found
        if entry.is_catch_all:
            return
        before.add(entry)
        if is_fresh and fresh is not None:
            fresh_before.add(entry)


def _simple(pattern: str) -> re.Match[str] | None:
    return _SIMPLE.fullmatch(pattern) if len(pattern) <= LONGEST else None


def _is_repeated(one: ServiceAccountEntry, other: ServiceAccountEntry) -> bool:
    return (one.server, one.namespace) == (other.server, other.namespace)
