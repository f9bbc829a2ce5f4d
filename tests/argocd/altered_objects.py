"""Objects in which one place holds something else."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any


def paths(thing: Any) -> Iterator[tuple[Any, ...]]:
    yield ()
    inner = thing.items() if isinstance(thing, dict) else enumerate(thing) if isinstance(thing, list) else ()
    for key, value in inner:
        for path in paths(value):
            yield (key, *path)


def replaced(thing: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    changed = deepcopy(thing)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return changed


def at(thing: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        thing = thing[key]
    return thing
