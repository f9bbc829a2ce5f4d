"""Reading objects that may look like anything: each function answers with an empty value of its type.

A CRD's schema keeps most wrong types out of a cluster, but not out of a file, a Secret or a ConfigMap.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

_NO_MAPPING: Mapping[str, Any] = {}
_LISTS = (list, tuple)
_TEXT = frozenset({str})
_STEP = re.compile(r"\[(\d+)\]|\[([^\]]+)\]|([^.\[\]]+)")


def value(source: Any, *path: str) -> Any:
    """What stands at the path, or None."""
    try:
        for key in path:
            if source is None:
                return None
            source = source.get(key)
    except (
        AttributeError
    ):  # no mapping; nearly everything is one or absent, and asking first takes half as long again
        return None
    return source


def mapping(source: Any, *path: str) -> Mapping[str, Any]:
    # As `value` does it: calling it would take half as long again.
    try:
        for key in path:
            if source is None:
                return _NO_MAPPING
            source = source.get(key)
    except AttributeError:
        return _NO_MAPPING
    if type(source) is dict or (source is not None and isinstance(source, Mapping)):
        return source
    return _NO_MAPPING


def sequence(source: Any, *path: str) -> Sequence[Any]:
    found = value(source, *path)
    return found if isinstance(found, _LISTS) else ()


def text(source: Any, *path: str) -> str:
    # As above.
    try:
        for key in path:
            if source is None:
                return ""
            source = source.get(key)
    except AttributeError:
        return ""
    return source if isinstance(source, str) else ""


def fields(source: Any, keys: tuple[str, ...]) -> list[str]:
    """The texts of several keys at once."""
    if type(source) is not dict:
        return [text(source, key) for key in keys]
    values = [source.get(key, "") for key in keys]
    if _TEXT.issuperset(map(type, values)):
        return values
    return [found if isinstance(found, str) else "" for found in values]


def texts(source: Any, *path: str) -> list[str]:
    """The strings of a list; anything else in it is left out, so indexes are not the list's."""
    return [item for item in sequence(source, *path) if isinstance(item, str)]


def steps_of(path: str) -> list[str | int]:
    """`spec.roles[0]`, `metadata.labels[a.b/c]`: the keys and indexes on the way that a path in kubectl's notation names."""
    return [int(index) if index else (quoted or name) for index, quoted, name in _STEP.findall(path)]
