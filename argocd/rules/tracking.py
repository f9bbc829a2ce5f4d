"""Marks that say whose an object is: copied, broken, taken from another installation, changed by hand."""

from collections.abc import Iterator, Mapping
from typing import Any

from argocd import names, reading
from argocd.judging import writers
from argocd.judging.case import Action, Case, Finding, Kind, Operation, Profile, Rule
from argocd.judging.configuration import TrackingFormat
from argocd.kubernetes_names import LABEL_LIMIT
from argocd.rules import examples
from argocd.settings.argocd_cm import TrackingMethod
from argocd.settings.resource_filters import is_excluded
from argocd.tracking import ids
from argocd.tracking.ids import TrackingId
from argocd.tracking.marks import annotation, application_of, is_hook, is_root, is_self_referencing
from argocd.tracking.owners import Owner, OwnerEvidence, method_of, owner_of

_TRACKING_ID = f"metadata.annotations[{names.TRACKING_ID}]"
_PROPOSED_ID = f"metadata.annotations[{names.PROPOSED_TRACKING_ID}]"
_INSTALLATION_ID = f"metadata.annotations[{names.INSTALLATION_ID}]"
_METHOD = f"metadata.annotations[{names.TIPHYS_TRACKING_METHOD}]"


def _ids(case: Case) -> Iterator[tuple[str, str, TrackingId | None]]:
    """Path, text and meaning of the ids that Argo CD reads, in the configured format."""
    if not _are_ids_read(case):
        return
    if (tracking_format := case.surroundings.configuration.tracking.format) is not TrackingFormat.PROPOSED:
        text = annotation(case.object, names.TRACKING_ID)
        yield _TRACKING_ID, text, ids.parse_released(text)
    if tracking_format is not TrackingFormat.RELEASED:
        text = annotation(case.object, names.PROPOSED_TRACKING_ID)
        yield _PROPOSED_ID, text, ids.parse_proposed(text)


def _are_ids_read(case: Case) -> bool:
    """Argo CD that tracks by label reads no id, and none on a kind that it leaves out."""
    settings = case.surroundings.settings
    return settings.tracking_method is not TrackingMethod.LABEL and not is_excluded(
        settings,
        group=ids.group_of(case.object),
        kind=reading.text(case.object, "kind"),
        cluster=names.IN_CLUSTER_SERVER,
    )


def _malformed(case: Case) -> Iterator[Finding]:
    for path, text, found in _ids(case):
        if text and not found:
            yield Finding(
                "tracking/malformed-id",
                path,
                f"'{text}' is no tracking id, so Argo CD does not track this object",
                "Leave the annotation to Argo CD, or write app:group/kind:namespace/name.",
            )


def _copied(case: Case) -> Iterator[Finding]:
    thing = case.object
    if (
        not is_root(thing)
        or is_hook(thing)
        or not reading.text(thing, "metadata", "name")
        or writers.is_syncing(case.writer, case.surroundings)
    ):
        return
    for path, text, found in _ids(case):
        if found and not found.is_about(thing):
            yield Finding(
                "tracking/copied-id",
                path,
                f"'{text}' names another object, so Argo CD neither compares nor prunes this one",
                "Remove the annotation from the copy; Argo CD writes it on what it manages.",
            )


def _foreign_installation(case: Case) -> Iterator[Finding]:
    ours = case.surroundings.settings.installation_id
    theirs = annotation(case.old, names.INSTALLATION_ID)
    now = annotation(case.object, names.INSTALLATION_ID)
    if not ours or theirs in {"", ours, now}:
        return
    # What it takes from itself may only be an Argo CD that lives elsewhere; nobody else does that for it.
    if not (_is_own_past(theirs, case) if now == ours else writers.is_remote_argocd(case.writer)):
        owner = ids.parse_released(annotation(case.old, names.TRACKING_ID))
        of = f" and its application '{owner.application}'" if owner else ""
        yield Finding(
            "tracking/foreign-installation",
            _INSTALLATION_ID,
            f"the object belongs to the Argo CD installation '{theirs}'{of}",
            "Let that installation release it first, or take the object out of this installation's source.",
        )


def _is_own_past(installation: str, case: Case) -> bool:
    """Whether Argo CD itself renews an id that it had before, on what one of its Applications lists."""
    surroundings = case.surroundings
    if installation not in surroundings.settings.former_installation_ids or not writers.is_argocd(
        case.writer, surroundings
    ):
        return False
    owner = owner_of(case.object, namespace={}, writer=case.writer, surroundings=surroundings)
    return isinstance(owner, Owner) and owner.evidence is OwnerEvidence.STATUS


def _changed(case: Case) -> Iterator[Finding]:
    old, settings = case.old, case.surroundings.settings
    version = case.surroundings.configuration.argocd.version
    if old is None or not case.writer.user or not is_root(old) or _may_mark(case):
        return
    owner = application_of(old, settings=settings, version=version)
    if not owner or not is_self_referencing(old, settings=settings, version=version):
        return
    if (now := application_of(case.object, settings=settings, version=version)) != owner:
        by_label = settings.tracking_method is TrackingMethod.LABEL
        becomes = f"gives it to '{now}', which may prune it" if now else "hides it from Argo CD"
        yield Finding(
            "tracking/changed-by-hand",
            f"metadata.labels[{settings.instance_label}]" if by_label else _TRACKING_ID,
            f"the object is managed by '{owner}'; this change {becomes}",
            "Change the application's source, or delete the Application without cascading.",
        )


def _may_mark(case: Case) -> bool:
    configuration = case.surroundings.configuration
    return (
        writers.is_syncing(case.writer, case.surroundings)
        or writers.is_tiphys(case.writer)
        or writers.is_agent(case.writer, configuration)
    )


def _instance(application: Mapping[str, Any], case: Case) -> str:
    return ids.instance_name(
        reading.text(application, "metadata", "name"),
        namespace=reading.text(application, "metadata", "namespace"),
        argocd_namespace=case.surroundings.configuration.argocd.namespace,
    )


def _name_too_long(case: Case) -> Iterator[Finding]:
    instance = _instance(case.object, case)
    length = len(instance.encode(errors="replace"))
    labelled = method_of(case.object, case.surroundings) is TrackingMethod.LABEL
    if labelled and length > LABEL_LIMIT:
        yield Finding(
            "tracking/name-too-long",
            "metadata.name",
            f"'{instance}' has {length} characters, and the label that tracks its objects may have "
            f"{LABEL_LIMIT}: no object of this application can be applied",
            "Shorten the name, or track by annotation.",
        )


def _label_collision(case: Case) -> Iterator[Finding]:
    instance = _instance(case.object, case)
    if method_of(case.object, case.surroundings) is not TrackingMethod.ANNOTATION_AND_LABEL:
        return
    try:
        label = ids.truncate(instance)
    except ids.TruncationError:
        return
    if label == instance:
        return
    for other in case.surroundings.neighbours.applications_labelled(label) or ():
        if (name := _instance(other, case)) != instance:
            yield Finding(
                "tracking/label-collision",
                "metadata.name",
                f"cut to {LABEL_LIMIT} characters the label of '{instance}' is that of '{name}'",
                "Let the names differ earlier; selecting by the label finds the objects of both.",
            )


def _unknown_method(case: Case) -> Iterator[Finding]:
    text = annotation(case.object, names.TIPHYS_TRACKING_METHOD)
    if text and TrackingMethod.of(text) is TrackingMethod.UNKNOWN:
        yield Finding(
            "tracking/unknown-method",
            _METHOD,
            f"'{text}' is no tracking method, so the system's is used",
            "Write label, annotation or annotation+label.",
        )


_ANY = frozenset({Kind.ANY})
_APPLICATION = frozenset({Kind.APPLICATION})


def _config_map(annotations: str, *, labels: str = "") -> str:
    return (
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: colours\n  namespace: shop\n"
        f"  labels: {{{labels}}}\n  annotations: {{{annotations}}}\ndata: {{}}\n"
    )


_MANAGED = _config_map("argocd.argoproj.io/tracking-id: 'shop:/ConfigMap:shop/colours'")
_LONG = "a-shop-with-a-name-that-says-which-region-zone-stage-and-team-it-is-of"

RULES = (
    Rule(
        id="tracking/foreign-installation",
        kinds=_ANY,
        profile=Profile.RECOMMENDED,
        action=Action.DENY,
        reads=(_INSTALLATION_ID,),
        title="An object of another Argo CD installation keeps its id",
        explanation=(
            "Two installations that deploy to one cluster tell their objects apart by the installation id. "
            "Whoever writes its own id over another's takes the object, and both will fight over it; who removes the "
            "other's id prepares that. An Argo CD that lives elsewhere (kube-system:argocd-manager) may remove its own; an "
            f"id that this installation had before (argocd-cm's annotation {names.TIPHYS_FORMER_INSTALLATION_IDS}) may be "
            "renewed by Argo CD itself, on what one of its Applications lists."
        ),
        bad=examples.argocd_cm("installationID: blue")
        + examples.BEFORE
        + _config_map("argocd.argoproj.io/installation-id: green")
        + examples.BEFORE
        + _config_map("argocd.argoproj.io/installation-id: blue"),
        good=examples.argocd_cm("installationID: blue")
        + examples.BEFORE
        + _config_map("argocd.argoproj.io/installation-id: blue"),
        check=_foreign_installation,
    ),
    Rule(
        id="tracking/malformed-id",
        kinds=_ANY,
        profile=Profile.RECOMMENDED,
        action=Action.WARN,
        reads=(_TRACKING_ID, _PROPOSED_ID),
        title="A tracking id has the format that Argo CD reads",
        explanation=(
            "Argo CD swallows the error and treats the object as one that nobody manages: it is neither "
            "compared nor pruned. With the method `label`, and on kinds that argocd-cm leaves out, ids mean nothing "
            "and are not judged."
        ),
        bad=_config_map("argocd.argoproj.io/tracking-id: shop"),
        good=_MANAGED,
        check=_malformed,
    ),
    Rule(
        id="tracking/copied-id",
        kinds=_ANY,
        profile=Profile.RECOMMENDED,
        action=Action.WARN,
        reads=(_TRACKING_ID, _PROPOSED_ID),
        title="A tracking id is about the object that carries it",
        explanation=(
            "Ids are copied with the rest of the metadata by people, operators and namespace tools. Argo CD "
            "shows such an object, but does not compare it and never prunes it. Hooks, objects with "
            "generateName and objects with an owner are left alone, and so are all with the method `label` and "
            "those of kinds that argocd-cm leaves out: there Argo CD reads no ids."
        ),
        bad=_config_map("argocd.argoproj.io/tracking-id: 'shop:/ConfigMap:shop/shapes'"),
        good=_MANAGED,
        check=_copied,
    ),
    Rule(
        id="tracking/changed-by-hand",
        kinds=_ANY,
        profile=Profile.RECOMMENDED,
        action=Action.WARN,
        reads=("metadata.labels", _TRACKING_ID, _INSTALLATION_ID),
        operations=frozenset({Operation.UPDATE}),
        title="What Argo CD manages keeps its mark",
        explanation=(
            "An object without its tracking id (or, with label tracking, without its instance label) is lost to "
            "its application; one with the id of another application may be pruned by that one."
        ),
        bad=_MANAGED
        + examples.BEFORE
        + _config_map("argocd.argoproj.io/tracking-id: 'other:/ConfigMap:shop/colours'"),
        good=_MANAGED
        + examples.BEFORE
        + _config_map("argocd.argoproj.io/tracking-id: 'shop:/ConfigMap:shop/colours'", labels="team: shop"),
        check=_changed,
    ),
    Rule(
        id="tracking/name-too-long",
        kinds=_APPLICATION,
        profile=Profile.RECOMMENDED,
        action=Action.WARN,
        reads=("metadata.name", _METHOD),
        title="With label tracking an application's name fits a label",
        explanation=(
            "With the method `label` Argo CD writes the whole name (with the namespace before it, outside its "
            "own) into a label, and Kubernetes refuses every object whose label has more than 63 characters."
        ),
        bad=examples.argocd_cm("application.resourceTrackingMethod: label")
        + examples.BEFORE
        + examples.application(name=_LONG),
        good=examples.argocd_cm("application.resourceTrackingMethod: label")
        + examples.BEFORE
        + examples.application(),
        check=_name_too_long,
    ),
    Rule(
        id="tracking/label-collision",
        kinds=_APPLICATION,
        profile=Profile.RECOMMENDED,
        action=Action.WARN,
        reads=("metadata.name", _METHOD),
        title="Long names of applications differ in their first 63 characters",
        explanation=(
            "With the method `annotation+label` the label is cut to 63 characters. Tracking does not suffer, "
            "but whoever selects by the label gets the objects of both applications."
        ),
        bad=examples.argocd_cm("application.resourceTrackingMethod: annotation+label")
        + examples.BEFORE
        + examples.application(name=f"{_LONG}-1")
        + examples.BEFORE
        + examples.application(name=f"{_LONG}-2"),
        good=examples.argocd_cm("application.resourceTrackingMethod: annotation+label")
        + examples.BEFORE
        + examples.application(name=f"1-{_LONG}")
        + examples.BEFORE
        + examples.application(name=f"2-{_LONG}"),
        check=_label_collision,
        neighbours=True,
    ),
    Rule(
        id="tracking/unknown-method",
        kinds=_APPLICATION,
        profile=Profile.RECOMMENDED,
        action=Action.WARN,
        reads=(_METHOD,),
        title="An application's own tracking method is one that exists",
        explanation=(
            "The annotation `tiphys.dev/tracking-method` overrides the system's method for one Application; "
            "any other text is ignored."
        ),
        bad=examples.application(metadata="annotations: {tiphys.dev/tracking-method: labels}"),
        good=examples.application(metadata="annotations: {tiphys.dev/tracking-method: annotation+label}"),
        check=_unknown_method,
    ),
)
