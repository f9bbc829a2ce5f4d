"""What Argo CD reads from and writes on an object to know whose it is, for one method and one version."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from argocd import names, reading
from argocd.applications import sync_annotations
from argocd.judging.configuration import Version
from argocd.settings.argocd_cm import Settings, TrackingMethod
from argocd.tracking.ids import TrackingId, group_of, id_for, parse_released, truncate

INSTALLATION_ID_SINCE: Version = (2, 13)
INSTALLATION_ID_FIXED: Version = (3, 6)
"""Until then an instance without an id did not recognise objects that carry one: a slip of precedence."""

NO_PRUNING = "Prune=false"

CRD = ("apiextensions.k8s.io", "CustomResourceDefinition")
"""Argo CD keeps all of them in its cache and marks none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackingMarks:
    """The metadata that says whose an object is."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


def annotation(thing: Mapping[str, Any] | None, key: str) -> str:
    return reading.text(thing, "metadata", "annotations", key)


def marks_for(
    thing: Mapping[str, Any], *, application: str, settings: Settings, destination_namespace: str = ""
) -> TrackingMarks:
    """What Argo CD writes on a generated object; raises TruncationError where it fails to.

    The label method writes the whole name, even one that Kubernetes will not take.
    """
    method = settings.tracking_method
    if method is TrackingMethod.LABEL:
        return TrackingMarks(labels={settings.instance_label: application})
    found = id_for(thing, application=application, destination_namespace=destination_namespace)
    annotations = {names.TRACKING_ID: found.released}
    if settings.installation_id:
        annotations[names.INSTALLATION_ID] = settings.installation_id
    if method is not TrackingMethod.ANNOTATION_AND_LABEL:
        return TrackingMarks(annotations=annotations)
    return TrackingMarks(labels={settings.instance_label: truncate(application)}, annotations=annotations)


def tracking_id(
    thing: Mapping[str, Any] | None, *, settings: Settings, version: Version
) -> TrackingId | None:
    """The id that this Argo CD reads, or None: absent, malformed, or another installation's."""
    if not is_of_this_installation(thing, settings=settings, version=version):
        return None
    return parse_released(annotation(thing, names.TRACKING_ID))


def is_of_this_installation(thing: Mapping[str, Any] | None, *, settings: Settings, version: Version) -> bool:
    """Whether the installation ids of the object and of argocd-cm let this Argo CD claim it."""
    ours = settings.installation_id or ""
    if version < INSTALLATION_ID_SINCE or (version >= INSTALLATION_ID_FIXED and not ours):
        return True
    return annotation(thing, names.INSTALLATION_ID) == ours


def application_of(thing: Mapping[str, Any] | None, *, settings: Settings, version: Version) -> str:
    """The instance name of the application that this Argo CD takes the object for, or nothing."""
    if settings.tracking_method is TrackingMethod.LABEL:
        return reading.text(thing, "metadata", "labels", settings.instance_label)
    found = tracking_id(thing, settings=settings, version=version)
    return found.application if found else ""


def is_self_referencing(live: Mapping[str, Any] | None, *, settings: Settings, version: Version) -> bool:
    """Whether the mark is about this object rather than copied from another.

    What cannot be told counts as true: labels, no live object, no readable id, an unknown method.
    """
    if live is None or settings.tracking_method in {TrackingMethod.LABEL, TrackingMethod.UNKNOWN}:
        return True
    found = tracking_id(live, settings=settings, version=version)
    return found is None or found.is_about(live)


def own_application_of(live: Mapping[str, Any], *, settings: Settings, version: Version) -> str:
    """As `application_of`, but nothing where the mark is another object's."""
    if settings.tracking_method in {TrackingMethod.LABEL, TrackingMethod.UNKNOWN}:
        return application_of(live, settings=settings, version=version)
    found = tracking_id(live, settings=settings, version=version)
    return found.application if found is not None and found.is_about(live) else ""


def is_root(thing: Mapping[str, Any]) -> bool:
    """Objects with an owner are never managed, whatever they carry."""
    return not reading.sequence(thing, "metadata", "ownerReferences")


def is_crd(thing: Mapping[str, Any]) -> bool:
    return (group_of(thing), reading.text(thing, "kind")) == CRD


def is_hook(thing: Mapping[str, Any]) -> bool:
    """Hooks come and go with a sync; one with generateName has an id without a name."""
    return sync_annotations.is_hook(sync_annotations.annotations_of(thing))


def is_prune_candidate(thing: Mapping[str, Any], *, settings: Settings, version: Version) -> bool:
    """Whether Argo CD would prune the object if its application's source did not hold it."""
    return (
        is_root(thing)
        and not is_hook(thing)
        and bool(application_of(thing, settings=settings, version=version))
        and is_self_referencing(thing, settings=settings, version=version)
        and not forbids_pruning(thing)
    )


def forbids_pruning(thing: Mapping[str, Any]) -> bool:
    return has_option(thing, names.SYNC_OPTIONS, NO_PRUNING)


def has_option(thing: Mapping[str, Any], key: str, option: str) -> bool:
    """Whether one of the annotations that hold options has this one."""
    return any(part.strip() == option for part in annotation(thing, key).split(","))
