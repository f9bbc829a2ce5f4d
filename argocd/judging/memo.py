"""Remembers what was found out about a project by what it permits: the same one is judged over and over.

Argo CD, a pipeline and the scan send a project again and again as it was. A look at it that depends on the parts
below, its name and namespace and the configuration alone need not be taken twice.
"""

import gc
import sys
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Any, Generic, TypeVar

import orjson

from argocd import reading
from argocd.budget import measured, spend
from argocd.judging.case import Case, Kind

Found = TypeVar("Found")

PARTS = (
    "clusterResourceBlacklist",
    "clusterResourceWhitelist",
    "destinationServiceAccounts",
    "destinations",
    "namespaceResourceBlacklist",
    "namespaceResourceWhitelist",
    "permitOnlyProjectScopedClusters",
    "roles",
    "sourceNamespaces",
    "sourceRepos",
    "syncWindows",
)
"""Of the spec; a look that is remembered reads nothing else of it."""
NAMES = ("name", "namespace")
"""Of the metadata, the same."""

LARGEST = 16_384
"""Bytes of a content that is remembered: some hundred entries."""
ROOM = 65_536
"""Bytes of what all looks at one content found. Ordinary projects need a tenth; a short text may have many faults."""
MOST = 256
"""Contents that are remembered, so at most twenty megabytes with what was found in them."""

# What only looks like text or a number once it is written must not be mistaken for it.
_EXACTLY = (
    orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_SUBCLASS
)


class _Memory:
    """What the looks at one content found, and their steps; those that found nothing are in `nothing`."""

    __slots__ = ("found", "nothing", "room")

    def __init__(self, *, room: int) -> None:
        """With room for so many bytes: a look that found more is taken again by the next case."""
        self.found: dict[Any, Any] = {}
        self.nothing: set[Any] = set()
        self.room = room


_MEMORIES: dict[bytes, _Memory] = {}


class Remembered(Generic[Found]):
    """A look at a project that is taken once for each content."""

    __slots__ = ("__name__", "_look")

    def __init__(self, look: Callable[[Case], Iterable[Found]]) -> None:
        self.__name__ = look.__name__
        self._look = look

    def __call__(self, case: Case) -> tuple[Found, ...]:
        memory = case.once(_memory)
        held: tuple[tuple[Found, ...], int] | None = memory.found.get(self)
        if held is None:
            held = measured(self._taken, case)
            if not held[0]:
                memory.nothing.add(self)
            size = _size(held, most=memory.room)
            if size <= memory.room:
                memory.room -= size
                memory.found[self] = held
        found, steps = held
        spend(steps)
        return found

    def _taken(self, case: Case) -> tuple[Found, ...]:
        return tuple(self._look(case))


def nothing_found(case: Case) -> AbstractSet[Any]:
    """The looks that are known to find nothing in this case."""
    return case.once(_memory).nothing


def _memory(case: Case) -> _Memory:
    """Of the content, or of this case alone where that is no project's or not worth remembering."""
    content = _content(case) if case.kind is Kind.PROJECT else None
    if content is None:
        return _Memory(room=0)
    memory = _MEMORIES.get(content)
    if memory is None:
        memory = _Memory(room=ROOM)
        if len(_MEMORIES) >= MOST:
            _MEMORIES.pop(next(iter(_MEMORIES)), None)
        # A copy: orjson's own has room behind it for what might have been written.
        _MEMORIES[bytes(memoryview(content))] = memory
    return memory


def _size(found: Any, *, most: int) -> int:
    """Bytes of it with all that it holds; what is larger is not measured to its end."""
    seen: set[int] = set()
    waiting = [found]
    total = 0
    while waiting and total <= most:
        one = waiting.pop()
        if id(one) not in seen and not isinstance(one, type | Enum):  # those are there anyway
            seen.add(id(one))
            total += sys.getsizeof(one)
            waiting += gc.get_referents(one)
    return total


def _content(case: Case) -> bytes | None:
    """All that a look may depend on; None for what is too large or cannot be written.

    A look at an update depends on the older version too, and on the labels, by which global projects are chosen:
    entries that stood there are not judged again.
    """
    spec = reading.value(case.object, "spec")
    if type(spec) is not dict:
        return None
    argocd = case.surroundings.configuration.argocd
    metadata = reading.mapping(case.object, "metadata")
    parts = [argocd.namespace, argocd.version, *map(metadata.get, NAMES), *map(spec.get, PARTS)]
    if case.old is not None:
        parts += map(reading.mapping(case.old, "spec").get, PARTS)
        parts += [reading.value(each, "metadata", "labels") for each in (case.object, case.old)]
    try:
        content = orjson.dumps(parts, option=_EXACTLY)
    except TypeError:  # orjson.JSONEncodeError is one
        return None
    return content if len(content) <= LARGEST else None
