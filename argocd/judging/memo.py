"""Remembers what was found out about a project by what it permits: the same one is judged over and over.

Argo CD, a pipeline and the scan send a project again and again as it was. A look at it that depends on the parts
below, its name and the configuration alone need not be taken twice.
"""

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import Any, Generic, TypeVar

import orjson

from argocd import reading
from argocd.budget import measured, spend
from argocd.judging.case import Case

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

LARGEST = 16_384
"""Bytes of what is remembered: some hundred entries."""
MOST = 256
"""Projects that are remembered, so at most four megabytes of them."""

# What only looks like text or a number once it is written must not be mistaken for it.
_EXACTLY = (
    orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_SUBCLASS
)


class _Memory:
    """What the looks at one content found, and their steps; those that found nothing are in `nothing`."""

    __slots__ = ("found", "nothing")

    def __init__(self) -> None:
        self.found: dict[Any, Any] = {}
        self.nothing: set[Any] = set()


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
            held = memory.found[self] = measured(self._taken, case)
            if not held[0]:
                memory.nothing.add(self)
        found, steps = held
        spend(steps)
        return found

    def _taken(self, case: Case) -> tuple[Found, ...]:
        return tuple(self._look(case))


def nothing_found(case: Case) -> AbstractSet[Any]:
    """The looks that are known to find nothing in this case."""
    return case.once(_memory).nothing


def _memory(case: Case) -> _Memory:
    """Of the content, or of this case alone where that is not worth remembering."""
    content = _content(case)
    if content is None:
        return _Memory()
    memory = _MEMORIES.get(content)
    if memory is None:
        memory = _Memory()
        if len(_MEMORIES) >= MOST:
            _MEMORIES.pop(next(iter(_MEMORIES)), None)
        _MEMORIES[content] = memory
    return memory


def _content(case: Case) -> bytes | None:
    """All that a look may depend on; None for what is too large or cannot be written."""
    spec = reading.value(case.object, "spec")
    if type(spec) is not dict:
        return None
    argocd = case.surroundings.configuration.argocd
    name = reading.value(case.object, "metadata", "name")
    try:
        content = orjson.dumps(
            [argocd.namespace, argocd.version, name, *map(spec.get, PARTS)], option=_EXACTLY
        )
    except TypeError:  # orjson.JSONEncodeError is one
        return None
    return content if len(content) <= LARGEST else None
