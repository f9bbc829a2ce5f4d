"""Who else has a hand on the same objects: other admission webhooks, Gatekeeper's mutations, another argocd-agent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from argocd import names, reading
from checks.doctor.cluster_checks import REACHABLE
from checks.doctor.diagnosis import Diagnosis, DoctorCheck, DoctorSection, error, ok, some, warning
from checks.doctor.examined import Examined, InstalledPart
from kube import queries
from kube.errors import ForbiddenError, NotFoundError
from kube.resources import DEPLOYMENTS, ENDPOINT_SLICES, MUTATING_WEBHOOKS, NAMESPACES, VALIDATING_WEBHOOKS
from kube.selectors import LabelSelector, Requirement
from kube.store import Object, Resource
from webhook.registration.table import ARGOCD_RESOURCES, NAME

VENDORS = {"kyverno": "Kyverno", "gatekeeper": "Gatekeeper"}
GATEKEEPER_MUTATIONS = ("Assign", "AssignMetadata", "AssignImage", "ModifySet")


def _selector(told: Object) -> LabelSelector:
    """A selector as objects write it."""
    found = [
        Requirement(key, frozenset({value})) for key, value in reading.mapping(told, "matchLabels").items()
    ]
    for each in reading.sequence(told, "matchExpressions"):
        operator, key = reading.text(each, "operator"), reading.text(each, "key")
        values = frozenset(reading.texts(each, "values")) if operator in {"In", "NotIn"} else None
        found.append(Requirement(key, values, negated=operator in {"NotIn", "DoesNotExist"}))
    return LabelSelector(tuple(found))


def _is_about(entry: Object, *, groups: set[str], kinds: set[str]) -> bool:
    return any(
        groups & set(reading.texts(rule, "apiGroups")) and kinds & set(reading.texts(rule, "resources"))
        for rule in reading.sequence(entry, "rules")
    )


_ARGOCD = {"groups": {names.GROUP, "*"}, "kinds": {*ARGOCD_RESOURCES, "*", "*/*"}}
_PODS = {"groups": {"", "*"}, "kinds": {"pods", "*", "*/*"}}


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another's configuration: its name for people, and those of its webhooks that are asked."""

    told: str
    entries: Sequence[Object]


def _told(configuration: Object) -> str:
    name = reading.text(configuration, "metadata", "name")
    vendor = next((told for word, told in VENDORS.items() if word in name), "")
    return f"{vendor} ({name})" if vendor else name


async def _matching(
    examined: Examined, resource: Resource, *, namespace: str, about: dict[str, set[str]]
) -> list[Neighbour]:
    """Others that are asked about these kinds in the namespace."""
    labels = reading.mapping(
        await queries.find(examined.store, NAMESPACES, name=namespace), "metadata", "labels"
    )
    found = []
    for configuration in (await examined.store.list(resource)).items:
        if reading.text(configuration, "metadata", "name") == NAME:
            continue
        entries = [
            entry
            for entry in reading.sequence(configuration, "webhooks")
            if _is_about(entry, **about)
            and _selector(reading.value(entry, "namespaceSelector")).matches(labels)
        ]
        if entries:
            found.append(Neighbour(_told(configuration), entries))
    return found


def _fails_closed(entry: Object) -> bool:
    return reading.text(entry, "failurePolicy") != "Ignore"


def _closed(found: Sequence[Neighbour]) -> list[Neighbour]:
    return [each for each in found if any(map(_fails_closed, each.entries))]


def _names(found: Sequence[Neighbour]) -> str:
    return some(list(dict.fromkeys(each.told for each in found)))


async def _away(examined: Examined, found: Sequence[Neighbour]) -> list[Neighbour]:
    """Those that refuse everything now: they fail closed, for all objects, and nobody is behind their Service."""
    away = []
    for neighbour in found:
        for entry in filter(_fails_closed, neighbour.entries):
            narrowed = reading.mapping(entry, "objectSelector") or reading.sequence(entry, "matchConditions")
            if not narrowed and await _is_deserted(
                examined, reading.mapping(entry, "clientConfig", "service")
            ):
                away.append(neighbour)
                break
    return away


async def _is_deserted(examined: Examined, service: Mapping[str, Any]) -> bool:
    """What is asked by an address of its own may be anywhere."""
    if not service:
        return False
    selector = f"kubernetes.io/service-name={reading.text(service, 'name')}"
    try:
        page = await examined.store.list(
            ENDPOINT_SLICES, namespace=reading.text(service, "namespace"), label_selector=selector
        )
    except ForbiddenError:
        return False  # that it is there at all is told all the same
    return not any(
        reading.value(endpoint, "conditions", "ready") is not False
        for slice_ in page.items
        for endpoint in reading.sequence(slice_, "endpoints")
    )


async def _mutators(examined: Examined) -> Diagnosis:
    namespace = examined.options.argocd_namespace
    found = await _matching(examined, MUTATING_WEBHOOKS, namespace=namespace, about=_ARGOCD)
    if away := await _away(examined, found):
        return _nobody_answers(away, what=f"Argo CD's objects in {namespace}")
    # Gatekeeper is always asked about everything; without a mutation of its own it changes nothing.
    if found and not await _gatekeeper_mutates(examined):
        found = [each for each in found if not each.told.startswith(VENDORS["gatekeeper"])]
    if found:
        return warning(
            f"{_names(found)} may change Argo CD's objects in {namespace}: what Git has and what is stored differ",
            remedy="exclude argoproj.io from its policies, or the namespace by its namespaceSelector",
        )
    return ok()


def _nobody_answers(away: Sequence[Neighbour], *, what: str) -> Diagnosis:
    return error(
        f"{_names(away)} fails closed on {what}, and its Service has nobody behind it: they are refused",
        remedy="start it again, or delete its webhook configuration",
    )


async def _gatekeeper_mutates(examined: Examined) -> bool:
    kinds = await examined.store.discover(group="mutations.gatekeeper.sh", version="v1")
    for kind in GATEKEEPER_MUTATIONS:
        try:
            if kind in kinds and (await examined.store.list(kinds[kind], limit=1)).items:
                return True
        except NotFoundError:  # the definition goes while we ask
            continue
    return False


async def _validators(examined: Examined) -> Diagnosis:
    namespace = examined.options.argocd_namespace
    found = await _matching(examined, VALIDATING_WEBHOOKS, namespace=namespace, about=_ARGOCD)
    if away := await _away(examined, found):
        return _nobody_answers(away, what=f"Argo CD's objects in {namespace}")
    if closed := _closed(found):
        return warning(
            f"{_names(closed)} judges Argo CD's objects too, and fails closed: nobody can apply one while it is away",
            remedy="leave Argo CD's kinds to one of the two, or let the other fail open",
        )
    return ok()


async def _own_pods(examined: Examined) -> Diagnosis:
    """A webhook that cannot be started because another is away, which waits for Argo CD, which waits for us."""
    namespace = examined.options.namespace
    found = [
        neighbour
        for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
        for neighbour in await _matching(examined, resource, namespace=namespace, about=_PODS)
    ]
    if away := await _away(examined, found):
        return _nobody_answers(away, what=f"pods in {namespace}")
    if closed := _closed(found):
        return warning(
            f"{_names(closed)} fails closed for pods in {namespace}: Tiphys cannot start while it is away",
            remedy=f"exclude {namespace} by its namespaceSelector",
        )
    return ok()


async def _argocd_agent(examined: Examined) -> Diagnosis:
    namespace = examined.options.argocd_namespace
    ours = [part for part in (InstalledPart.PRINCIPAL, InstalledPart.AGENT) if await examined.has(part)]
    page = await examined.store.list(DEPLOYMENTS, namespace=namespace)
    others = [
        reading.text(deployment, "metadata", "name")
        for deployment in page.items
        if reading.value(deployment, "spec", "replicas") != 0 and _runs_argocd_agent(deployment)
    ]
    if others and ours:
        return error(
            f"Deployment {some(others)} in {namespace} is argocd-agent's, beside {some([part.object_name for part in ours])}:"
            " both write the same objects",
            remedy=f"kubectl --namespace {namespace} scale deployment {others[0]} --replicas=0",
        )
    return ok(f"{some(others)} is argocd-agent's, ours is not there" if others else "")


def _runs_argocd_agent(deployment: Object) -> bool:
    """By its program: the image of a mirror may be called anything."""
    for container in reading.sequence(deployment, "spec", "template", "spec", "containers"):
        image = reading.text(container, "image").rpartition("/")[2]
        if image.startswith("argocd-agent"):
            return True
        if any("argocd-agent" in word for word in reading.texts(container, "command")):
            return True
    return False


SECTION = DoctorSection(
    title="neighbours",
    checks=(
        DoctorCheck(
            id="neighbours/mutating-webhooks",
            title="no other webhook changes Argo CD's objects",
            look=_mutators,
            needs=(REACHABLE,),
        ),
        DoctorCheck(
            id="neighbours/validating-webhooks",
            title="no other webhook fails closed on Argo CD's objects",
            look=_validators,
            needs=(REACHABLE,),
        ),
        DoctorCheck(
            id="neighbours/own-pods",
            title="no other webhook can keep Tiphys's pods from starting",
            look=_own_pods,
            needs=(REACHABLE,),
        ),
        DoctorCheck(
            id="neighbours/argocd-agent",
            title="no argocd-agent does the same work",
            look=_argocd_agent,
            needs=(REACHABLE,),
        ),
    ),
)
