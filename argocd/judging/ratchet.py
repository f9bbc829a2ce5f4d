"""What an update changes: the ratchet's measure.

Argo CD's controllers write status, operations, refresh requests, notes of sent notifications and finalizers
through the main resource; a rule must never stand in the way of those.
"""

from collections.abc import Mapping
from typing import Any

from argocd import names, reading
from argocd.judging.case import Path

PASSING_ANNOTATIONS = (*names.REQUESTS, names.NOTIFIED)
"""Argo CD's requests and notes to itself: what the match conditions, rules and copies take for no change."""

_PASSING = frozenset({"status", "operation", "metadata"})
_PASSING_METADATA = frozenset({"annotations", "finalizers", "managedFields", "resourceVersion", "generation"})
_ANNOTATIONS: Path = ("metadata", "annotations")

KEYED = frozenset({_ANNOTATIONS, ("metadata", "labels")})
"""What is read key by key: an object has a label or it has not."""


def differs(old: Any, new: Any, path: Path) -> bool:
    """Whether the field differs; one of the passing annotations alone is no change of them."""
    before, after = reading.value(old, *path), reading.value(new, *path)
    if path == _ANNOTATIONS and before != after:
        return bool(_without_passing(before) != _without_passing(after))
    return bool(before != after)


def changes_only_what_passes(old: Any, new: Any) -> bool:
    """Whether the update touches nothing but status, operation, finalizers and the passing annotations."""
    return _equal_but(old, new, _PASSING) and (
        _equal_but(reading.mapping(old, "metadata"), reading.mapping(new, "metadata"), _PASSING_METADATA)
        and not differs(old, new, _ANNOTATIONS)
    )


def _equal_but(old: Any, new: Any, but: frozenset[str]) -> bool:
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        return bool(old == new)
    return all(old.get(key) == new.get(key) for key in {*old, *new} - but)


def _without_passing(annotations: Any) -> Any:
    if not isinstance(annotations, Mapping):
        return {} if annotations is None else annotations
    return {key: value for key, value in annotations.items() if key not in PASSING_ANNOTATIONS}
