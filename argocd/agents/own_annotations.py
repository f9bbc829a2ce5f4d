"""Annotations that one side writes for itself: no news to the other one.

Two lists, for two questions. They differ in the marks that tell a copy from its source.
"""

from collections.abc import Mapping
from typing import Any

from argocd import names
from argocd.reading import mapping

OPERATION_DONE = "tiphys.dev/operation"
"""Of an agent's Application: which of its principal's operations was carried out last."""

BOOKKEEPING = frozenset({names.LAST_UPDATED, names.NOTIFIED, names.LAST_APPLIED, names.REFRESH})
"""Written by a principal, or by the notifications of the side that it is on: a change of these is not sent."""

MARKS = BOOKKEEPING | {names.SOURCE_UID, names.PRINCIPAL_UID, names.NAMESPACE_REMAPPED, OPERATION_DONE}
"""Written by either side for itself: no part of what the other one has told, when the two are compared."""


def annotations_without(item: Mapping[str, Any], own: frozenset[str]) -> dict[str, Any]:
    annotations = mapping(item, "metadata", "annotations")
    return {key: part for key, part in annotations.items() if key not in own}
