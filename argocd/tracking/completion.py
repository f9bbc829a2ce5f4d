"""What Tiphys adds to an object so that Argo CD, people and other installations know whose it is.

Only absent metadata is added, a second pass adds nothing, and no object becomes one that Argo CD would prune.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from argocd import names, reading
from argocd.judging.case import Surroundings, User
from argocd.judging.configuration import TrackingFormat
from argocd.judging.writers import is_remote_argocd, is_syncing
from argocd.kubernetes_names import is_label_value
from argocd.settings.argocd_cm import TrackingMethod
from argocd.settings.resource_filters import is_excluded
from argocd.tracking.ids import (
    TrackingId,
    TruncationError,
    group_of,
    id_for,
    parse_proposed,
    parse_released,
    truncate,
)
from argocd.tracking.marks import (
    INSTALLATION_ID_SINCE,
    NO_PRUNING,
    annotation,
    has_option,
    is_crd,
    is_hook,
    is_root,
)
from argocd.tracking.owners import Dispute, Owner, OwnerEvidence, owner_of

DEFAULT_KINDS = frozenset(
    {
        ("", "ConfigMap"),
        ("", "Secret"),
        ("", "Service"),
        ("", "ServiceAccount"),
        ("", "PersistentVolumeClaim"),
        ("apps", "Deployment"),
        ("apps", "StatefulSet"),
        ("apps", "DaemonSet"),
        ("batch", "Job"),
        ("batch", "CronJob"),
        ("networking.k8s.io", "Ingress"),
    }
)

_LEFT_ALONE = {names.SYNC_OPTIONS: NO_PRUNING, names.COMPARE_OPTIONS: "IgnoreExtraneous"}
"""With the first alone the application is OutOfSync for ever, and heals itself for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """Labels and annotations to add, annotations to remove, and what the writer should hear about it."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    removed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


NOTHING = Completion()


def complete(
    thing: Mapping[str, Any],
    *,
    namespace: Mapping[str, Any],
    writer: User,
    surroundings: Surroundings,
    group: str | None = None,
) -> Completion:
    """All that happens to one object; `namespace` is the Namespace it is in, empty if it is in none.

    `group` is the API group of the request, where the API server converted the object on its way here.
    """
    if not _may_be_marked(thing, namespace=namespace, surroundings=surroundings):
        return NOTHING
    copies = _copied_marks(thing, writer, surroundings)
    kept = _without_annotations(thing, copies) if copies else thing
    owner = owner_of(kept, namespace=namespace, writer=writer, surroundings=surroundings, group=group)
    added = additions(kept, owner=owner, writer=writer, surroundings=surroundings, group=group)
    return replace(added, removed=tuple(key for key in copies if key not in added.annotations))


def additions(
    thing: Mapping[str, Any],
    *,
    owner: Owner | Dispute | None,
    writer: User,
    surroundings: Surroundings,
    group: str | None = None,
) -> Completion:
    """The metadata that is missing on an object of this owner."""
    if owner is None or _is_anothers(thing, owner, surroundings):
        return NOTHING
    if isinstance(owner, Dispute):
        both = " and ".join(owner.applications)
        return Completion(warnings=(f"not tracked: the applications {both} list this object",))
    labels, warnings = _labels(owner, surroundings.settings.instance_label)
    labels = _missing(labels, reading.mapping(thing, "metadata", "labels"))
    present = reading.mapping(thing, "metadata", "annotations")
    found = id_for(thing, application=owner.application, group=group)
    annotations = _missing(_annotations(found, owner, writer, surroundings), present)
    if owner.evidence is OwnerEvidence.NAMESPACE and (labels or annotations):
        # Its owner is the admin's guess: Argo CD, which does not find it in Git, must not act on it.
        for key, option in _LEFT_ALONE.items():
            if has_option(thing, key, option):
                continue
            if key in present:
                return Completion(warnings=(f"not tracked: {key} is set and lacks {option}",))
            annotations[key] = option
    return Completion(labels=labels, annotations=annotations, warnings=warnings)


def is_tracked_kind(thing: Mapping[str, Any], surroundings: Surroundings) -> bool:
    """Whether the object's kind is in the default list or in `tracking.kinds` (`Kind` or `Kind.group`)."""
    group, kind = group_of(thing), reading.text(thing, "kind")
    full = f"{kind}.{group}" if group else kind
    return (group, kind) in DEFAULT_KINDS or full in surroundings.configuration.tracking.kinds


def _may_be_marked(
    thing: Mapping[str, Any], *, namespace: Mapping[str, Any], surroundings: Surroundings
) -> bool:
    metadata = reading.mapping(thing, "metadata")
    return (
        reading.text(namespace, "metadata", "labels", names.TIPHYS_TRACKING) == names.ENABLED
        and is_tracked_kind(thing, surroundings)
        and is_root(thing)
        and not is_crd(thing)
        and not is_hook(thing)
        and bool(reading.text(metadata, "name"))
        and reading.value(metadata, "deletionTimestamp") is None
        and not is_excluded(
            surroundings.settings,
            group=group_of(thing),
            kind=reading.text(thing, "kind"),
            cluster=names.IN_CLUSTER_SERVER,
        )
    )


def _copied_marks(thing: Mapping[str, Any], writer: User, surroundings: Surroundings) -> tuple[str, ...]:
    """Annotations that came with a copy; never what Argo CD itself writes."""
    if not surroundings.configuration.tracking.neutralize_copies or is_syncing(writer, surroundings):
        return ()
    copies = [key for key, found in _ids_on(thing).items() if not found.is_about(thing)]
    if names.TRACKING_ID in copies and annotation(thing, names.INSTALLATION_ID):
        copies.append(names.INSTALLATION_ID)
    if names.PROPOSED_TRACKING_ID in copies and annotation(thing, names.PROPOSED_INSTALLATION_ID):
        copies.append(names.PROPOSED_INSTALLATION_ID)
    return tuple(copies)


def _is_anothers(thing: Mapping[str, Any], owner: Owner | Dispute, surroundings: Surroundings) -> bool:
    """Whether the object already says that it belongs to another application or installation."""
    settings = surroundings.settings
    installation = annotation(thing, names.INSTALLATION_ID)
    if installation and installation not in {settings.installation_id, *settings.former_installation_ids}:
        return True
    return isinstance(owner, Owner) and any(
        found.application != owner.application for found in _ids_on(thing).values()
    )


def _ids_on(thing: Mapping[str, Any]) -> dict[str, TrackingId]:
    parsed = {
        names.TRACKING_ID: parse_released(annotation(thing, names.TRACKING_ID)),
        names.PROPOSED_TRACKING_ID: parse_proposed(annotation(thing, names.PROPOSED_TRACKING_ID)),
    }
    return {key: found for key, found in parsed.items() if found}


def _annotations(found: TrackingId, owner: Owner, writer: User, surroundings: Surroundings) -> dict[str, str]:
    if owner.method is TrackingMethod.LABEL:
        return {}
    installation = surroundings.settings.installation_id
    if owner.evidence is OwnerEvidence.TRACKING_ID and is_remote_argocd(writer):
        # That Argo CD writes its own id; with ours it would no longer know the object.
        installation = ""
    annotations = {}
    tracking_format = surroundings.configuration.tracking.format
    if tracking_format is not TrackingFormat.PROPOSED:
        annotations[names.TRACKING_ID] = found.released
        if installation and surroundings.configuration.argocd.version >= INSTALLATION_ID_SINCE:
            annotations[names.INSTALLATION_ID] = installation
    if tracking_format is not TrackingFormat.RELEASED:
        annotations[names.PROPOSED_TRACKING_ID] = found.proposed
        if installation:
            annotations[names.PROPOSED_INSTALLATION_ID] = installation
    return annotations


def _labels(owner: Owner, key: str) -> tuple[dict[str, str], tuple[str, ...]]:
    if owner.method is TrackingMethod.LABEL:
        if owner.evidence is OwnerEvidence.TRACKING_ID:
            # Whoever wrote an id does not track by label; with one, an Argo CD that does would take it.
            return {}, ()
        label = owner.application
    elif owner.method is TrackingMethod.ANNOTATION_AND_LABEL:
        try:
            label = truncate(owner.application)
        except TruncationError as error:
            return {}, (f"no label {key}: {error}",)
    else:
        return {}, ()
    if not is_label_value(label):
        return {}, (f"no label {key}: {owner.application} is no label's value",)
    return {key: label}, ()


def _missing(wanted: Mapping[str, str], present: Mapping[str, Any]) -> dict[str, str]:
    return {key: value for key, value in wanted.items() if key not in present}


def _without_annotations(thing: Mapping[str, Any], keys: tuple[str, ...]) -> Mapping[str, Any]:
    metadata = reading.mapping(thing, "metadata")
    kept = {key: value for key, value in reading.mapping(metadata, "annotations").items() if key not in keys}
    return {**thing, "metadata": {**metadata, "annotations": kept}}
