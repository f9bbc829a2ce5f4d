"""Remembers what was found out about a project by the parts that matter: the same ones are judged over and over.

Argo CD, a pipeline and the scan send a project again and again as it was, and an update changes one list of many.
A look at some lists that depends on nothing but them and the configuration need not be taken twice.
"""

from collections.abc import Callable, Iterable
from functools import wraps
from typing import TypeVar

import orjson

from argocd import reading
from argocd.judging import Case

Found = TypeVar("Found")

LARGEST = 16_384
"""Bytes of what is remembered: some hundred entries."""
MOST = 256
"""Projects that one look remembers, so at most four megabytes."""

# What only looks like text or a number once it is written must not be mistaken for it.
_EXACTLY = (
    orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_SUBCLASS
)

Look = Callable[[Case], Iterable[Found]]


def remembered(*keys: str) -> Callable[[Look[Found]], Callable[[Case], tuple[Found, ...]]]:
    """For a look that depends on these keys of `spec`, the project's name and Argo CD's version and namespace."""

    def remembering(look: Look[Found]) -> Callable[[Case], tuple[Found, ...]]:
        memory: dict[bytes, tuple[Found, ...]] = {}

        @wraps(look)
        def recall(case: Case) -> tuple[Found, ...]:
            content = _content(case, keys)
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

    return remembering


def _content(case: Case, keys: tuple[str, ...]) -> bytes | None:
    """All that a look may depend on; None for what is too large or cannot be written."""
    spec = case.object.get("spec")
    if type(spec) is not dict:
        return None
    argocd = case.surroundings.configuration.argocd
    name = reading.value(case.object, "metadata", "name")
    try:
        content = orjson.dumps(
            [argocd.namespace, argocd.version, name, *map(spec.get, keys)], option=_EXACTLY
        )
    except TypeError:  # orjson.JSONEncodeError is one
        return None
    return content if len(content) <= LARGEST else None
