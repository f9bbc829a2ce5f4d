"""What a cache keeps of an object. A projection runs on each object of a page or event before the next is read."""

import sys
from collections.abc import Callable
from typing import Any, TypeVar

from kube.store import Object

T = TypeVar("T")

# Longer texts hardly ever come twice, and hashing them costs.
_LONGEST_SHARED = 64


def whole(body: Object) -> Object:
    return body


def without_managed_fields(body: Object) -> Object:
    """They are of interest to API servers only and can be half of an object."""
    body.get("metadata", {}).pop("managedFields", None)
    return body


def shared(projection: Callable[[Object], Object]) -> Callable[[Object], Object]:
    """A projection whose short strings are one object each in memory, however often they come."""

    def project(body: Object) -> Object:
        result: Object = _shared(projection(body))
        return result

    return project


def _shared(value: Any) -> Any:
    if isinstance(value, str):
        return sys.intern(value) if len(value) <= _LONGEST_SHARED else value
    if isinstance(value, dict):
        return {sys.intern(key): _shared(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_shared(item) for item in value]
    if isinstance(value, tuple):
        return tuple(_shared(item) for item in value)
    return value
