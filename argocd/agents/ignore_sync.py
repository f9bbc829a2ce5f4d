"""The label that keeps an object out of argocd-agent's sync: where it counts and what it means.

argocd-agent lists and watches with the selector `key!=true`, so an object that gets the label vanishes from
its sight like one that was deleted, and the copies of it are deleted; one that loses the label appears like
one that was created.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any

from argocd import names, reading

IGNORED = "true"
"""The one value that counts; TRUE, True and 1 all mean that the object is synced."""

UNDERSTOOD = frozenset({IGNORED, "false"})
"""What a reader cannot take for its opposite."""

_KINDS = frozenset({"Application", "AppProject"})
_SECRET_TYPES = frozenset({names.SECRET_TYPE_REPOSITORY, names.SECRET_TYPE_REPO_CREDS})


class IgnoreSyncChange(Enum):
    NONE = "the same objects are synced as before"
    WITHDRAWN = "argocd-agent deletes the copies on the other side"
    SYNCED = "argocd-agent sends it to the other side at once"


def label_of(thing: Mapping[str, Any]) -> str | None:
    found = reading.mapping(thing, "metadata", "labels").get(names.IGNORE_SYNC)
    return found if isinstance(found, str) else None


def is_ignored(thing: Mapping[str, Any] | None) -> bool:
    return thing is not None and label_of(thing) == IGNORED


def counts_for(thing: Mapping[str, Any]) -> bool:
    """Whether argocd-agent looks at the label of such an object."""
    kind = reading.text(thing, "kind")
    if kind == "Secret":
        return reading.text(thing, "metadata", "labels", names.SECRET_TYPE) in _SECRET_TYPES
    if kind == "ConfigMap":
        return reading.text(thing, "metadata", "name") == names.ARGOCD_GPG_KEYS_CM
    return kind in _KINDS and reading.text(thing, "apiVersion").startswith(f"{names.GROUP}/")


def change(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> IgnoreSyncChange:
    """What an update does to the copies of the object; a creation withdraws nothing."""
    if old is None or is_ignored(old) == is_ignored(new) or not counts_for(new):
        return IgnoreSyncChange.NONE
    return IgnoreSyncChange.WITHDRAWN if is_ignored(new) else IgnoreSyncChange.SYNCED
