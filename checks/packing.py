"""Objects that are needed later, or perhaps: packed some at a time, since manifests resemble each other.

A manifest as Python holds it takes three kilobytes, packed with its neighbours about a hundred bytes.
"""

import marshal
import zlib
from collections.abc import Iterator, MutableMapping
from functools import lru_cache
from typing import Any, Generic, TypeVar

Key = TypeVar("Key")

TOGETHER = 16
"""Objects of a pack: unpacking one for a single object takes a twentieth of what judging that object does."""
OPEN = 32
"""Packs that stay unpacked, because who asks for one object asks for those near it."""


class Packs:
    """Plain data in the order in which it came; what was added is not changed afterwards."""

    def __init__(self) -> None:
        self._packs: list[bytes] = []
        self._last: list[Any] = []
        self._opened = lru_cache(maxsize=OPEN)(self._open)

    def __len__(self) -> int:
        return len(self._packs) * TOGETHER + len(self._last)

    def add(self, thing: Any) -> None:
        self._last.append(thing)
        if len(self._last) == TOGETHER:
            # Not JSON: keys need not be text, and numbers may be of any size.
            self._packs.append(zlib.compress(marshal.dumps(self._last), 1))
            self._last = []

    def __getitem__(self, index: int) -> Any:
        number, place = divmod(index, TOGETHER)
        return (self._last if number == len(self._packs) else self._opened(number))[place]

    def __iter__(self) -> Iterator[Any]:
        for number in range(len(self._packs)):
            yield from self._open(number)
        yield from self._last

    def _open(self, number: int) -> list[Any]:
        found: list[Any] = marshal.loads(zlib.decompress(self._packs[number]))  # noqa: S302 - our own, from memory
        return found


class Packed(MutableMapping[Key, Any], Generic[Key]):
    """A mapping with packed values. What is replaced or deleted stays in its pack: few are."""

    def __init__(self) -> None:
        self._packs = Packs()
        self._places: dict[Key, int] = {}

    def __getitem__(self, key: Key) -> Any:
        return self._packs[self._places[key]]

    def __setitem__(self, key: Key, value: Any) -> None:
        self._places[key] = len(self._packs)
        self._packs.add(value)

    def __delitem__(self, key: Key) -> None:
        del self._places[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
