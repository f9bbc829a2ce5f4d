"""Completing an object in a test: twice, since a second pass must change nothing, nor make anything prunable."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from argocd import names
from argocd.judging.case import Surroundings, User
from argocd.judging.configuration import Configuration, Tracking, TrackingFormat
from argocd.judging.neighbours import KnownCluster
from argocd.settings.argocd_cm import Settings, TrackingMethod
from argocd.tracking.completion import NOTHING, Completion, complete
from argocd.tracking.marks import is_prune_candidate
from tests.argocd.fake_neighbours import Neighbourhood

ARGOCD = User(user="system:serviceaccount:argocd:argocd-application-controller")
REMOTE_ARGOCD = User(user="system:serviceaccount:kube-system:argocd-manager")
ADA = User(user="ada")

OWN_ID = "shop:/ConfigMap:shop/colours"
COPIED_ID = "shop:/ConfigMap:shop/shapes"


OPEN: Mapping[str, Any] = {
    "destinations": [{"server": "*", "namespace": "*"}],
    "sourceNamespaces": ["*"],
}
"""A project's spec that permits everything."""


@dataclass
class Cluster1(Neighbourhood):
    """Applications with the objects that they list."""

    listing: list[Mapping[str, Any]] = field(default_factory=list)
    knows_clusters: bool = True

    def clusters_by_name(self, name: str) -> Sequence[KnownCluster] | None:
        return super().clusters_by_name(name) if self.knows_clusters else None

    def clusters_by_server(self, server: str) -> Sequence[KnownCluster] | None:
        return super().clusters_by_server(server) if self.knows_clusters else None

    def applications_listing(
        self, group: str, kind: str, namespace: str, name: str
    ) -> Sequence[Mapping[str, Any]] | None:
        assert (namespace, name) == ("shop", "colours")
        assert (group, kind) in {("", "ConfigMap"), ("extensions", "Ingress"), ("argoproj.io", "Rollout")}
        return self.listing


def application(
    name: str = "shop", *, namespace: str = "argocd", destination: dict[str, str] | None = None
) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"destination": destination or {"server": names.IN_CLUSTER_SERVER, "namespace": "shop"}},
    }


def config_map(
    annotations: dict[str, str] | None = None, *, labels: dict[str, str] | None = None, **metadata: Any
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "colours",
            "namespace": "shop",
            "labels": labels or {},
            "annotations": annotations or {},
            **metadata,
        },
    }


def namespace(application_name: str = "", *, enabled: str = "enabled") -> dict[str, Any]:
    annotations = {names.TIPHYS_TRACKING_APPLICATION: application_name} if application_name else {}
    return {"metadata": {"labels": {names.TIPHYS_TRACKING: enabled}, "annotations": annotations}}


def completed(
    thing: dict[str, Any],
    *,
    listing: Sequence[Mapping[str, Any]] = (),
    known: Sequence[Mapping[str, Any]] = (),
    clusters: Sequence[KnownCluster] | None = (),
    owner: str = "",
    writer: User = ADA,
    settings: Settings | None = None,
    configuration: Configuration | None = None,
    group: str | None = None,
    project: Mapping[str, Any] | None = OPEN,
) -> Completion:
    """`project` is the spec of the Applications' project; None where there is none."""
    surroundings = Surroundings(
        settings=settings or Settings(),
        configuration=configuration or Configuration(),
        neighbours=Cluster1(
            listing=list(listing),
            applications=list(known),
            clusters=list(clusters or ()),
            knows_clusters=clusters is not None,
            projects=[] if project is None else [{"metadata": {"name": "default"}, "spec": project}],
        ),
    )

    def once(judged: dict[str, Any]) -> Completion:
        return complete(
            judged, namespace=namespace(owner), writer=writer, surroundings=surroundings, group=group
        )

    found = once(thing)
    after = applied(thing, found)
    assert replace(once(after), warnings=()) == NOTHING, "a second pass changes something"
    if writer == ARGOCD or listing:
        return found  # what it manages already
    version = surroundings.configuration.argocd.version
    if not is_prune_candidate(thing, settings=surroundings.settings, version=version):
        assert not is_prune_candidate(after, settings=surroundings.settings, version=version)
    return found


def applied(thing: dict[str, Any], completion: Completion) -> dict[str, Any]:
    after = copy.deepcopy(thing)
    for key in completion.removed:
        del after["metadata"]["annotations"][key]
    after["metadata"]["annotations"].update(completion.annotations)
    after["metadata"]["labels"].update(completion.labels)
    return after


def by(method: TrackingMethod, **more: Any) -> Settings:
    return Settings(tracking_method=method, **more)


def in_format(tracking_format: TrackingFormat, **more: Any) -> Configuration:
    return Configuration(tracking=Tracking(format=tracking_format, **more))
