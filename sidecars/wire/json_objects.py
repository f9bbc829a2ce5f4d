"""JSON from a peer, read so that no two readers of one text can disagree about what it says.

Go's reader merges repeated keys and ignores case where it fills a struct; ours would take the last and
the exact one. A text that the two would read differently is refused.
"""

import json
from collections.abc import Iterable
from functools import cache
from typing import Any

import orjson

from sidecars.wire.errors import MalformedError

# Deeper documents could be read but not written again (orjson writes 254 levels).
MAX_DEPTH = 200

_STRINGS = ("name", "namespace", "uid", "resourceVersion", "generateName")
_MAPS = ("labels", "annotations")


def read_json(text: bytes) -> Any:
    """Any JSON value. Refuses repeated keys, depths that cannot be echoed, and what is not JSON at all."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        # orjson keeps the text in the error: it may hold secrets and must not travel on as the cause.
        raise MalformedError(f"not JSON: {error.msg} at {error.pos}") from None
    if _may_be_deep(text, value) and _deeper_than(value, MAX_DEPTH):
        raise MalformedError(f"JSON nested deeper than {MAX_DEPTH} levels")
    # What comes back as it was has no key twice; only the rest needs the slower reader.
    if orjson.dumps(value) != text:
        # Numbers are of no interest here; as text they cost nothing and cannot overflow.
        json.loads(text, object_pairs_hook=_refuse_repeated_keys, parse_int=str, parse_float=str)
    return value


def read_struct(text: bytes, *, keys: tuple[str, ...]) -> dict[str, Any]:
    """A JSON object with some known keys. Another spelling of one of them is refused: Go would take it."""
    value = read_json(text)
    if not isinstance(value, dict):
        raise MalformedError(f"a JSON object is expected, not {_kind(value)}")
    check_spelling(value, keys=keys)
    return value


def check_spelling(value: Iterable[str], *, keys: tuple[str, ...]) -> None:
    known = _folded(keys)
    for key in value:
        if key not in keys and key.casefold() in known:
            raise MalformedError(f"key {key[:64]!r} must be spelled {known[key.casefold()]!r}")


@cache
def _folded(keys: tuple[str, ...]) -> dict[str, str]:
    return {key.casefold(): key for key in keys}


def read_object(text: bytes) -> dict[str, Any]:
    """A Kubernetes object as far as everybody relies on its shape; the API server judges the rest."""
    value = read_struct(text, keys=("metadata", "spec", "status", "operation", "data"))
    metadata = value.get("metadata")
    if not isinstance(metadata, dict):
        raise MalformedError(f"metadata must be an object, not {_kind(metadata)}")
    check_spelling(metadata, keys=(*_STRINGS, *_MAPS, "finalizers", "ownerReferences", "deletionTimestamp"))
    for key in ("spec", "status", "operation", "data"):
        if not isinstance(value.get(key), dict | None):
            raise MalformedError(f"{key} must be an object, not {_kind(value[key])}")
    for key in _STRINGS:
        if not isinstance(metadata.get(key), str | None):
            raise MalformedError(f"metadata.{key} must be a string, not {_kind(metadata[key])}")
    if not metadata.get("name"):
        raise MalformedError("metadata.name is missing")
    for key in _MAPS:
        entries = metadata.get(key) or {}
        if not isinstance(entries, dict) or not all(isinstance(entry, str) for entry in entries.values()):
            raise MalformedError(f"metadata.{key} must map strings to strings")
    _check_list(metadata, "finalizers", str)
    _check_list(metadata, "ownerReferences", dict)
    return value


def _check_list(metadata: dict[str, Any], key: str, kind: type) -> None:
    entries = metadata.get(key) or []
    if not isinstance(entries, list) or not all(isinstance(entry, kind) for entry in entries):
        raise MalformedError(f"metadata.{key} must be a list of {'strings' if kind is str else 'objects'}")


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> None:
    seen = set()
    for key, _ in pairs:
        if key in seen:
            raise MalformedError(f"key {key[:64]!r} appears twice")
        seen.add(key)


def _may_be_deep(text: bytes, value: Any) -> bool:
    """No document is deeper than it has brackets, which are counted faster than it is walked. Most messages are short, or
    structs without lists and objects, however long their texts.
    """
    if len(text) <= 2 * MAX_DEPTH:
        return False
    if isinstance(value, dict) and not any(isinstance(item, dict | list) for item in value.values()):
        return False
    return text.count(b"{") + text.count(b"[") > MAX_DEPTH


def _deeper_than(value: Any, limit: int) -> bool:
    level: list[Any] = [value]
    for _ in range(limit + 1):
        level = [item for item in level if isinstance(item, dict | list)]
        if not level:
            return False
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
    return True


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
