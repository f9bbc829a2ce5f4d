"""The small structs that travel as JSON, written with Go's keys, order and omissions.

A field's key is its name in camel case; the fields named by OMITTED are left out when empty. Bytes travel
as base64, and `None` as null. Reading is strict about types and forgiving about what is absent or unknown.
"""

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, ClassVar, TypeVar, get_type_hints

import orjson

from sidecars.wire.errors import MalformedError
from sidecars.wire.json_objects import check_spelling, read_struct

Struct = TypeVar("Struct")

_INT64 = range(-(2**63), 2**63)

# Keys that are not the camel case of a field's name.
_KEYS = {"insecure_skip_tls_verify_backend": "insecureSkipTLSVerifyBackend", "value": "bytes"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSyncedResourceList:
    checksum: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncedResource:
    OMITTED: ClassVar = ("namespace",)

    name: str = ""
    namespace: str = ""
    uid: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestUpdate:
    OMITTED: ClassVar = ("namespace",)

    name: str = ""
    namespace: str = ""
    uid: str = ""
    kind: str = ""
    checksum: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestResourceResync:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorData:
    resource_name: str = ""
    resource_namespace: str = ""
    message: str = ""


def write(struct: Any) -> bytes:
    return orjson.dumps(_plain(struct))


def read(kind: type[Struct], payload: bytes) -> Struct:
    """Raises MalformedError, which names the key."""
    struct: Struct = _build(kind, read_struct(payload, keys=_keys(kind)), path="")  # type: ignore[arg-type]  # a class is hashable
    return struct


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if not is_dataclass(value):
        return value
    plain = {}
    omitted = getattr(value, "OMITTED", ())
    for name, key, _ in _layout(value.__class__):
        content = getattr(value, name)
        # Go leaves out what is empty, but never a struct behind a pointer that is set.
        if content or name not in omitted or is_dataclass(content):
            plain[key] = content if type(content) is str else _plain(content)
    return plain


def _build(kind: Any, values: dict[str, Any], *, path: str) -> Any:
    arguments = {}
    for name, key, hint in _layout(kind):
        if values.get(key) is not None:  # null leaves a Go field as it was: empty
            arguments[name] = _value(hint, values[key], path=f"{path}{key}")
    return kind(**arguments)


def _value(hint: type, value: Any, *, path: str) -> Any:
    if hint is str and type(value) is str:  # most are
        return value
    if is_dataclass(hint) and isinstance(value, dict):
        check_spelling(value, keys=_keys(hint))
        return _build(hint, value, path=f"{path}.")
    if hint is bytes and isinstance(value, str):
        try:
            return b64decode(value, validate=True)  # "" and null both mean none, and both are false
        except Base64Error:
            raise MalformedError(f"{path} is not base64") from None
    wanted = _WANTED.get(hint)
    if wanted is None or not wanted[1](value):
        raise MalformedError(f"{path} must be {wanted[0] if wanted else _NAMES.get(hint, 'an object')}")
    return value


_NAMES: dict[Any, str] = {bytes: "base64 text"}
_WANTED: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    str: ("a string", lambda value: isinstance(value, str)),
    bool: ("a boolean", lambda value: isinstance(value, bool)),
    int: ("an integer", lambda value: type(value) is int and value in _INT64),
    list[str]: (
        "a list of strings",
        lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
    ),
    dict[str, str]: (
        "an object of strings",
        lambda value: isinstance(value, dict) and all(isinstance(item, str) for item in value.values()),
    ),
}


@cache
def _keys(kind: Any) -> tuple[str, ...]:
    return tuple(key for _, key, _ in _layout(kind))


def _key(name: str) -> str:
    first, *rest = name.split("_")
    return _KEYS.get(name) or first + "".join(word.capitalize() for word in rest)


@cache
def _layout(kind: Any) -> list[tuple[str, str, Any]]:
    """Name, key and type (without None) of each field."""
    hints = get_type_hints(kind)
    layout = []
    for item in fields(kind):
        hint = hints[item.name]
        if isinstance(hint, UnionType):
            (hint,) = (part for part in hint.__args__ if part is not NoneType)
        layout.append((item.name, _key(item.name), hint))
    return layout
