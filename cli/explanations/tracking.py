"""Whose an object is: the marks that it should carry, those that it carries, and what pruning would do."""

from dataclasses import replace
from typing import Any

from argocd import names, reading
from argocd.explanations.explanation import Explanation, ExplanationSection, ExplanationStep, Mark
from argocd.judging.case import User
from argocd.judging.configuration import Version
from argocd.settings.argocd_cm import Settings, TrackingMethod
from argocd.tracking.ids import TruncationError, group_of, parse_released
from argocd.tracking.marks import (
    annotation,
    application_of,
    forbids_pruning,
    is_hook,
    is_of_this_installation,
    is_prune_candidate,
    is_root,
    is_self_referencing,
    marks_for,
)
from argocd.tracking.owners import Dispute, Owner, owner_of
from checks.manifests import Object
from cli.options.explained_objects import ExplainedObjects
from cli.roles.kind_names import find_kind
from tiphys.errors import CallError


def parse_target(text: str) -> tuple[str, str, str]:
    """`Deployment.apps/web` as group, kind and name; kubectl's spelling of a kind will do too."""
    group, kind, name = parse_kind(text)
    if not name:
        raise CallError(f"{text}: write KIND/NAME or KIND.GROUP/NAME, such as Deployment.apps/web")
    return group, kind, name


def parse_kind(text: str) -> tuple[str, str, str]:
    """The same, where the name may be missing: all of them."""
    kind, _, name = text.partition("/")
    kind, _, group = kind.partition(".")
    return group, kind, name


async def fetch_all(store: Any, text: str, listing: Any) -> list[tuple[Object, Object]]:
    """Those of a kind in all namespaces, or in Argo CD's where the others are not for us to see."""
    from kube.resources import NAMESPACES  # noqa: PLC0415 - files need no client

    group, kind, name = parse_kind(text)
    resource = await find_kind(store, group=group, kind=kind)
    around = {
        reading.text(each, "metadata", "name"): each
        async for page in listing.everywhere(NAMESPACES)
        for each in page
    }
    return [
        (thing, around.get(reading.text(thing, "metadata", "namespace"), {}))
        async for page in listing.everywhere(resource)
        for thing in page
        if name in {"", reading.text(thing, "metadata", "name")}
    ]


async def fetch(store: Any, text: str, namespace: str | None) -> tuple[Object, Object]:
    """The object and its Namespace, from a cluster."""
    from kube import queries  # noqa: PLC0415 - files need no client
    from kube.resources import NAMESPACES  # noqa: PLC0415

    group, kind, name = parse_target(text)
    found = await find_kind(store, group=group, kind=kind)
    if found.namespaced and not namespace:
        raise CallError(f"{text} is in a namespace: say which by -n NAMESPACE, or -A for all")
    thing = await queries.find(store, found, name=name, namespace=namespace if found.namespaced else None)
    if thing is None:
        where = f" in namespace {namespace}" if namespace and found.namespaced else ""
        raise CallError(f"there is no {text}{where}")
    if not namespace or not found.namespaced:
        return thing, {}
    return thing, await queries.find(store, NAMESPACES, name=namespace) or {}


def find(known: ExplainedObjects, text: str, namespace: str | None) -> tuple[Object, Object]:
    group, kind, name = parse_target(text)
    for thing in known.objects:
        metadata = reading.mapping(thing, "metadata")
        if (
            reading.text(metadata, "name") == name
            and reading.text(thing, "kind").lower() == kind.lower()
            and group_of(thing) == group
            and namespace in {None, reading.text(metadata, "namespace")}
        ):
            home = reading.text(metadata, "namespace")
            around = (
                other
                for other in known.objects
                if reading.text(other, "kind") == "Namespace"
                and reading.text(other, "metadata", "name") == home
            )
            return thing, next(around, {})
    raise CallError(f"there is no {text} in the files: write KIND/NAME or KIND.GROUP/NAME")


def explain(known: ExplainedObjects, thing: Object, around: Object) -> Explanation:
    surroundings = known.surroundings
    settings, version = surroundings.settings, known.configuration.argocd.version
    # Argo CD's own word counts: what an id says is believed where Argo CD writes it.
    home = known.configuration.argocd.namespace
    writer = User(user=f"{names.SERVICE_ACCOUNT_PREFIX}{home}:argocd-application-controller")
    owner = owner_of(thing, namespace=around, writer=writer, surroundings=surroundings)
    taken_for = application_of(thing, settings=settings, version=version)
    about = f"{reading.text(thing, 'kind')} {_qualified(thing)}"
    carries = _carried(thing, settings.instance_label)
    expected, trouble = _expected(thing, owner, settings)
    steps = _pruning(thing, known)
    prunes = is_prune_candidate(thing, settings=settings, version=version)
    data: dict[str, Any] = {
        "object": about,
        "method": settings.tracking_method.value,
        "carries": carries,
        "should-carry": expected,
        "argo-cd-takes-it-for": taken_for,
        "owner": owner.application if isinstance(owner, Owner) else "",
        "evidence": owner.evidence.value if isinstance(owner, Owner) else "",
        "disputed-by": list(owner.applications) if isinstance(owner, Dispute) else [],
        "pruned-when-its-source-has-it-no-more": prunes,
    }
    marks = [
        ExplanationStep(
            Mark.NOTE if key not in expected else Mark.of(carries.get(key) == expected[key]),
            f"{key}: {carries.get(key) or '(absent)'}",
            f"should be {expected[key]}" if key in expected and carries.get(key) != expected[key] else "",
        )
        for key in dict.fromkeys([*expected, *carries])
    ]
    sections = [
        ExplanationSection(
            f"its marks; Argo CD tracks by {settings.tracking_method.value}",
            marks or [ExplanationStep(Mark.NOTE, "none")],
        ),
        ExplanationSection("if its application's source did not hold it", steps),
    ]
    if trouble:
        sections[0].steps.append(ExplanationStep(Mark.NO, trouble))
    if not settings.known:
        sections.append(
            ExplanationSection(
                "besides",
                [
                    ExplanationStep(
                        Mark.NOTE, f"{names.ARGOCD_CM} is not {known.where}: its defaults are meant"
                    )
                ],
            )
        )
    return Explanation(
        _answer(about, owner, taken_for), good=_agree(owner, taken_for), data=data, sections=sections
    )


def _qualified(thing: Object) -> str:
    namespace, name = reading.text(thing, "metadata", "namespace"), reading.text(thing, "metadata", "name")
    return f"{namespace}/{name}" if namespace else name


def _agree(owner: Owner | Dispute | None, taken_for: str) -> bool | None:
    if isinstance(owner, Owner):
        return owner.application == taken_for
    return None if owner is None and not taken_for else False


def _answer(about: str, owner: Owner | Dispute | None, taken_for: str) -> str:
    if isinstance(owner, Dispute):
        return (
            f"{about} is listed by {len(owner.applications)} Applications: {', '.join(owner.applications)}."
        )
    if isinstance(owner, Owner):
        if owner.application == taken_for:
            return f"{about} belongs to Application {taken_for}: {owner.evidence.value}."
        seen = f"takes it for {taken_for}'s" if taken_for else "does not see that"
        return f"{about} belongs to Application {owner.application} ({owner.evidence.value}), but Argo CD {seen}."
    if taken_for:
        return f"Argo CD takes {about} for Application {taken_for}'s, and nothing else says so."
    return f"{about} belongs to no Application."


def _carried(thing: Object, label: str) -> dict[str, str]:
    found = {
        key: annotation(thing, key)
        for key in (
            names.TRACKING_ID,
            names.INSTALLATION_ID,
            names.PROPOSED_TRACKING_ID,
            names.PROPOSED_INSTALLATION_ID,
        )
    }
    found[f"label {label}"] = reading.text(thing, "metadata", "labels", label)
    return {key: value for key, value in found.items() if value}


def _expected(thing: Object, owner: Owner | Dispute | None, settings: Any) -> tuple[dict[str, str], str]:
    if not isinstance(owner, Owner):
        return {}, ""
    try:
        marks = marks_for(
            thing,
            application=owner.application,
            settings=replace(settings, tracking_method=owner.method),
        )
    except TruncationError as error:
        return {}, str(error)
    labels = {f"label {key}": value for key, value in marks.labels.items()}
    return {**marks.annotations, **labels}, ""


def _pruning(thing: Object, known: ExplainedObjects) -> list[ExplanationStep]:
    """Each must hold; with the label method Argo CD looks at neither id."""
    settings, version = known.surroundings.settings, known.configuration.argocd.version
    taken_for = application_of(thing, settings=settings, version=version)
    steps = [
        ExplanationStep(Mark.of(bool(taken_for)), f"Argo CD takes it for {taken_for or 'nobody'}'s"),
        ExplanationStep(Mark.of(is_root(thing)), "no other object owns it"),
        ExplanationStep(Mark.of(not is_hook(thing)), "it is no hook"),
        ExplanationStep(Mark.of(not forbids_pruning(thing)), "no Prune=false forbids it"),
    ]
    notes = []
    if settings.tracking_method is not TrackingMethod.LABEL:
        steps = [*_ids(thing, settings, version), *steps]
    elif annotation(thing, names.INSTALLATION_ID):
        notes.append(
            ExplanationStep(
                Mark.NOTE,
                "its installation id does not protect it: Argo CD, and any other that tracks by label, reads none",
            )
        )
    pruned = all(step.mark is Mark.YES for step in steps)
    last = "it would be pruned" if pruned else "it would stay"
    return [*steps, *notes, ExplanationStep(Mark.NOTE, last)]


def _ids(thing: Object, settings: Settings, version: Version) -> list[ExplanationStep]:
    found = parse_released(annotation(thing, names.TRACKING_ID))
    former = annotation(thing, names.INSTALLATION_ID) in settings.former_installation_ids
    return [
        ExplanationStep(
            Mark.of(is_of_this_installation(thing, settings=settings, version=version)),
            "its installation id is this Argo CD's",
            "it is one that this Argo CD had before; the next sync renews it" if former else "",
        ),
        ExplanationStep(
            Mark.of(is_self_referencing(thing, settings=settings, version=version)),
            "its tracking id is about itself",
            f"it is about {found.kind} {found.namespace}/{found.name}"
            if found and not found.is_about(thing)
            else "",
        ),
    ]
