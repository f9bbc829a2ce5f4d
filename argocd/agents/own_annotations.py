"""Annotations that one side writes for itself: no news to the other one.

Two lists, for two questions. They differ in the marks that tell a copy from its source.
"""

from collections.abc import Mapping
from typing import Any

from argocd import names
from argocd.judging.ratchet import PASSING_ANNOTATIONS
from argocd.reading import mapping

OPERATION_DONE = "tiphys.dev/operation"
"""Of an agent's Application: which of its principal's operations was carried out last."""

BOOKKEEPING = frozenset({names.LAST_UPDATED, names.LAST_APPLIED, *PASSING_ANNOTATIONS})
"""Written by a principal, or by the Argo CD of the side that it is on: a change of these is not sent as state."""

MARKS = BOOKKEEPING | {names.SOURCE_UID, names.PRINCIPAL_UID, names.NAMESPACE_REMAPPED, OPERATION_DONE}
"""Written by either side for itself: no part of what the other one has told, when the two are compared."""


def annotations_without(item: Mapping[str, Any], own: frozenset[str]) -> dict[str, Any]:
    annotations = mapping(item, "metadata", "annotations")
    return {key: part for key, part in annotations.items() if key not in own}


def requests_on(item: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the item's controller is asked for and has not answered yet: commands, as operations are."""
    annotations = mapping(item, "metadata", "annotations")
    return {key: annotations[key] for key in names.REQUESTS if annotations.get(key) is not None}
