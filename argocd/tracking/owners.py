"""Whose an object is, by evidence good enough to write it down.

An instance label alone is evidence of nothing: charts and operators copy it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from argocd import names, reading
from argocd.applications.destinations import IN_CLUSTER, resolve
from argocd.applications.sources import project_of
from argocd.globs import Verdict
from argocd.judging.case import Surroundings, User
from argocd.judging.writers import is_syncing
from argocd.projects.permissions import (
    application_namespace_permitted,
    destination_permitted,
    effective_project,
    kind_permitted,
)
from argocd.settings.argocd_cm import TrackingMethod
from argocd.tracking.ids import (
    TrackingId,
    group_of,
    instance_name,
    parse_proposed,
    parse_released,
    split_instance,
    split_qualified,
)
from argocd.tracking.marks import annotation


class OwnerEvidence(StrEnum):
    STATUS = "an Application lists it"
    TRACKING_ID = "Argo CD wrote its tracking id"
    NAMESPACE = "its Namespace names the application"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """`application` is the instance name."""

    application: str
    evidence: OwnerEvidence
    method: TrackingMethod


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispute:
    """Several applications list the object: nobody can say whose it is."""

    applications: tuple[str, ...]


def owner_of(
    thing: Mapping[str, Any],
    *,
    namespace: Mapping[str, Any],
    writer: User,
    surroundings: Surroundings,
    group: str | None = None,
) -> Owner | Dispute | None:
    """The best evidence there is; `namespace` is the Namespace object, `group` as in `id_for`."""
    listing = _listing(thing, group_of(thing) if group is None else group, surroundings)
    if len(listing) > 1:
        return Dispute(applications=tuple(sorted(_instance(one, surroundings) for one in listing)))
    if listing:
        return Owner(
            application=_instance(listing[0], surroundings),
            evidence=OwnerEvidence.STATUS,
            method=method_of(listing[0], surroundings),
        )
    if is_syncing(writer, surroundings):
        found = own_id(thing)
        if found:
            return _known(found.application, OwnerEvidence.TRACKING_ID, surroundings)
    named = annotation(namespace, names.TIPHYS_TRACKING_APPLICATION)
    if named:
        argocd_namespace = surroundings.configuration.argocd.namespace
        name, of = split_qualified(named) if "/" in named else split_instance(named)
        instance = instance_name(name, namespace=of, argocd_namespace=argocd_namespace)
        return _known(instance, OwnerEvidence.NAMESPACE, surroundings)
    return None


def own_id(thing: Mapping[str, Any]) -> TrackingId | None:
    """The id on the object, in either format, if it is about this object and names an application."""
    for found in (
        parse_released(annotation(thing, names.TRACKING_ID)),
        parse_proposed(annotation(thing, names.PROPOSED_TRACKING_ID)),
    ):
        if found and found.application and found.is_about(thing):
            return found
    return None


def method_of(application: Mapping[str, Any] | None, surroundings: Surroundings) -> TrackingMethod:
    """The system's method, unless the Application's annotation names one."""
    override = TrackingMethod.of(annotation(application, names.TIPHYS_TRACKING_METHOD))
    return surroundings.settings.tracking_method if override is TrackingMethod.UNKNOWN else override


def _known(instance: str, evidence: OwnerEvidence, surroundings: Surroundings) -> Owner:
    name, namespace = split_instance(instance, default_namespace=surroundings.configuration.argocd.namespace)
    application = surroundings.neighbours.application(namespace, name)
    return Owner(application=instance, evidence=evidence, method=method_of(application, surroundings))


def _listing(thing: Mapping[str, Any], group: str, surroundings: Surroundings) -> list[Mapping[str, Any]]:
    listing = surroundings.neighbours.applications_listing(
        group,
        reading.text(thing, "kind"),
        reading.text(thing, "metadata", "namespace"),
        reading.text(thing, "metadata", "name"),
    )
    return [
        application
        for application in listing or ()
        if is_deployed_here(application, surroundings)
        and _may_deploy(application, thing, group=group, surroundings=surroundings)
    ]


def _may_deploy(
    application: Mapping[str, Any], thing: Mapping[str, Any], *, group: str, surroundings: Surroundings
) -> bool:
    """Whether the project of an Application permits it the object: its status is written by whoever may write it."""
    neighbours = surroundings.neighbours
    project = neighbours.project(project_of(reading.mapping(application, "spec")))
    if not project:
        return False
    found = resolve(reading.mapping(application, "spec", "destination"), neighbours=neighbours)
    cluster = (found and found.cluster) or IN_CLUSTER
    whole = effective_project(project, settings=surroundings.settings, neighbours=neighbours) or project
    verdicts = (
        application_namespace_permitted(
            project,
            namespace=reading.text(application, "metadata", "namespace"),
            control_plane=surroundings.configuration.argocd.namespace,
        ),
        destination_permitted(
            whole,
            server=cluster.server,
            name=cluster.name,
            namespace=reading.text(thing, "metadata", "namespace"),
            project_clusters=neighbours.clusters_of_project(reading.text(project, "metadata", "name")),
        ),
    )
    return set(verdicts) == {Verdict.YES} and kind_permitted(
        whole, group=group, kind=reading.text(thing, "kind"), namespaced=True
    )


def is_deployed_here(application: Mapping[str, Any], surroundings: Surroundings) -> bool:
    """Whether the Application's destination is the cluster that Argo CD itself runs in."""
    destination = reading.mapping(application, "spec", "destination")
    found = resolve(
        destination,
        neighbours=surroundings.neighbours,
        in_cluster_enabled=surroundings.settings.in_cluster,
    )
    if found is None:
        return (
            reading.text(destination, "server") == names.IN_CLUSTER_SERVER
            or reading.text(destination, "name") == names.IN_CLUSTER_NAME
        )
    return found.cluster is not None and found.cluster.server == names.IN_CLUSTER_SERVER


def _instance(application: Mapping[str, Any], surroundings: Surroundings) -> str:
    return instance_name(
        reading.text(application, "metadata", "name"),
        namespace=reading.text(application, "metadata", "namespace"),
        argocd_namespace=surroundings.configuration.argocd.namespace,
    )
