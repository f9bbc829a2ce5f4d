"""Moving from one tracking method to another, in either direction, without losing or taking an object."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from argocd import names, reading
from argocd.judging.configuration import Version
from argocd.kubernetes_names import is_label_value
from argocd.settings.argocd_cm import Settings, TrackingMethod
from argocd.tracking.ids import TruncationError
from argocd.tracking.marks import TrackingMarks, application_of, is_prune_candidate, is_root, marks_for


class Risk(StrEnum):
    NONE = ""
    LOST = "cannot be marked for the new method and would no longer be tracked"
    TAKEN = "is not tracked now and would be pruned by the application that its copied mark names"
    MOVED = "would belong to another application, the one that a mark on it names"


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """What one object needs before the method changes, and what it keeps from the old one.

    `before` and `after` are the applications that Argo CD reads with each method before it syncs again;
    `prepare` makes them equal. `leftovers` are keys that the new method neither reads nor removes.
    """

    before: str
    after: str
    risk: Risk = Risk.NONE
    prepare: TrackingMarks = field(default_factory=TrackingMarks)
    leftovers: tuple[str, ...] = ()


def migrate(
    thing: Mapping[str, Any],
    *,
    before: Settings,
    after: Settings,
    version: Version,
    destination_namespace: str = "",
) -> Migration:
    """The move of one live object from one method to the other."""
    owner = application_of(thing, settings=before, version=version) if is_root(thing) else ""
    next_owner = application_of(thing, settings=after, version=version) if is_root(thing) else ""
    leftovers = _leftovers(thing, before=before, after=after)
    if owner == next_owner:
        return Migration(before=owner, after=next_owner, leftovers=leftovers)
    if not owner:
        taken = is_prune_candidate(thing, settings=after, version=version)
        risk = Risk.TAKEN if taken else Risk.NONE
        return Migration(before="", after=next_owner, risk=risk, leftovers=leftovers)
    if next_owner:
        return Migration(before=owner, after=next_owner, risk=Risk.MOVED, leftovers=leftovers)
    prepare = _prepared(thing, owner, after=after, destination_namespace=destination_namespace)
    risk = Risk.NONE if prepare else Risk.LOST
    return Migration(
        before=owner, after="", risk=risk, prepare=prepare or TrackingMarks(), leftovers=leftovers
    )


def _prepared(
    thing: Mapping[str, Any], owner: str, *, after: Settings, destination_namespace: str
) -> TrackingMarks | None:
    try:
        marks = marks_for(
            thing, application=owner, settings=after, destination_namespace=destination_namespace
        )
    except TruncationError:
        return None
    return marks if all(map(is_label_value, marks.labels.values())) else None


def _leftovers(thing: Mapping[str, Any], *, before: Settings, after: Settings) -> tuple[str, ...]:
    annotations = (names.TRACKING_ID, names.INSTALLATION_ID)
    left: list[str] = []
    if after.tracking_method is TrackingMethod.LABEL:
        present = reading.mapping(thing, "metadata", "annotations")
        left += [key for key in annotations if key in present]
    elif (
        before.tracking_method is not TrackingMethod.ANNOTATION
        and after.tracking_method is TrackingMethod.ANNOTATION
        and before.instance_label in reading.mapping(thing, "metadata", "labels")
    ):
        left.append(before.instance_label)
    return tuple(left)
