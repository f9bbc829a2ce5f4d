"""Remembers what was found out about a project by what it permits: the same one is judged over and over.

Argo CD, a pipeline and the scan send a project again and again as it was. A look at it that depends on the parts
below, its name and the configuration alone need not be taken twice.
"""

from collections.abc import Callable, Iterable
from functools import wraps
from typing import TypeVar

import orjson

from argocd import reading
from argocd.judging import Case

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
"""Projects that one look remembers, so at most four megabytes."""

# What only looks like text or a number once it is written must not be mistaken for it.
_EXACTLY = (
    orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_SUBCLASS
)


def remembered(look: Callable[[Case], Iterable[Found]]) -> Callable[[Case], tuple[Found, ...]]:
    memory: dict[bytes, tuple[Found, ...]] = {}

    @wraps(look)
    def recall(case: Case) -> tuple[Found, ...]:
        content = case.once(_content)
        if content is None:
            return tuple(look(case))
        found = memory.get(content)
        if found is None:
            found = tuple(look(case))
            if len(memory) >= MOST:
                memory.pop(next(iter(memory)), None)
            memory[content] = found
        return found

    return recall


def _content(case: Case) -> bytes | None:
    """All that a look may depend on; None for what is too large or cannot be written."""
    spec = case.object.get("spec")
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
