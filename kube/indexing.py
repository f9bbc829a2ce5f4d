"""What a cache holds, findable by key and by index."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

Key = tuple[str, str]
"""Namespace (empty for kinds without one) and name."""


@dataclass(frozen=True, slots=True)
class IndexedValue(Generic[T]):
    value: T
    version: int
    uid: str


class Index(Generic[T]):
    """`indexes` name functions from a value to the terms it shall be found by."""

    def __init__(self, indexes: Mapping[str, Callable[[T], Iterable[Hashable]]]) -> None:
        self._held: dict[Key, IndexedValue[T]] = {}
        self._functions = dict(indexes)
        self._indexes: dict[str, dict[Hashable, dict[Key, None]]] = {name: {} for name in indexes}

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._held)

    def get(self, key: Key) -> IndexedValue[T] | None:
        return self._held.get(key)

    def values(self) -> Iterator[T]:
        return (held.value for held in self._held.values())

    def put(self, key: Key, held: IndexedValue[T]) -> None:
        previous = self._held.get(key)
        self._held[key] = held
        if previous is not None and previous.value is held.value:
            return
        for name, function in self._functions.items():
            before = set(function(previous.value)) if previous is not None else set()
            after = set(function(held.value))
            self._forget(name, before - after, key)
            for term in after - before:
                self._indexes[name].setdefault(term, {})[key] = None

    def remove(self, key: Key) -> IndexedValue[T]:
        held = self._held.pop(key)
        for name, function in self._functions.items():
            self._forget(name, set(function(held.value)), key)
        return held

    def find(self, index: str, term: Hashable) -> list[T]:
        """In the order in which the objects came under the term."""
        return [self._held[key].value for key in self._indexes[index].get(term, ())]

    def terms(self, index: str) -> list[Hashable]:
        return list(self._indexes[index])

    def _forget(self, name: str, terms: Iterable[Hashable], key: Key) -> None:
        index = self._indexes[name]
        for term in terms:
            keys = index[term]
            del keys[key]
            if not keys:
                del index[term]
