"""Applications, ApplicationSets and the ignore-sync label."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from argocd import names, reading
from argocd.agents import ignore_sync
from argocd.applications import application_sets, destinations, permissions, sources, sync_annotations
from argocd.go import net_url
from argocd.judging.neighbours import KnownCluster
from tests.argocd.fake_neighbours import Nothing


@dataclass
class Known(Nothing):
    """The clusters and projects of one case, and no others."""

    clusters: Sequence[KnownCluster] = ()
    projects: Sequence[str] = ()

    def project(self, name: str) -> Mapping[str, Any]:
        return {"metadata": {"name": name}} if name in self.projects else {}

    def clusters_by_name(self, name: str) -> Sequence[KnownCluster]:
        return [cluster for cluster in self.clusters if cluster.name == name]

    def clusters_by_server(self, server: str) -> Sequence[KnownCluster]:
        return [cluster for cluster in self.clusters if cluster.server == server]

    def clusters_of_project(self, project: str) -> Sequence[KnownCluster]:
        return [cluster for cluster in self.clusters if cluster.project == project]


def known(given: Any) -> Known:
    clusters = [
        KnownCluster(
            server=cluster.get("server", "").rstrip("/"),
            name=cluster.get("name", ""),
            project=cluster.get("project", ""),
            namespaces=tuple(cluster.get("namespaces") or ()),
        )
        for cluster in given.get("clusters") or ()
    ]
    return Known(clusters=clusters, projects=given.get("projects") or ())


def _destination_cluster(given: Any) -> Any:
    resolution = destinations.resolve(given.get("destination") or {}, neighbours=known(given))
    assert resolution is not None
    if resolution.cluster is None:
        return {"error": resolution.error}
    return {"server": resolution.cluster.server, "name": resolution.cluster.name}


class Messages(list[str]):
    """Texts that equal any list of parts of theirs: the cases know a message by a part of it."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, list) and all(any(part in text for text in self) for part in other)

    __hash__ = None  # as every list


def _permissions(given: Any) -> Any:
    found = permissions.conditions(
        given.get("applicationSpec") or {},
        {"metadata": {"name": "default"}, "spec": given.get("projectSpec") or {}},
        neighbours=known(given),
    )
    assert found is not None
    messages = Messages(condition.message for condition in found)
    return {"conditions": len(messages), "messageContains": messages}


def _ref_sources(given: Any) -> Any:
    spec = {"sources": [{"ref": ref} for ref in given]}
    problems = [*sources.invalid_refs(spec), *sources.repeated_refs(spec)]
    return {"valid": not problems}


def _managed_by_url(given: Any) -> Any:
    return {"valid": not given or net_url.scheme(given) in {"http", "https"}}


def _sync_wave(given: Any) -> Any:
    return {"wave": sync_annotations.wave(given or {})}


def _invalid_generators(given: Any) -> Any:
    applied = given.get("lastAppliedGenerators")
    annotations = {}
    if applied is not None:
        text = applied if isinstance(applied, str) else json.dumps({"spec": {"generators": applied}})
        annotations[names.LAST_APPLIED] = text
    application_set: dict[str, Any] = {
        "metadata": {"annotations": annotations},
        "spec": {"generators": given.get("generators") or []},
    }
    return {
        "invalid": bool(application_sets.unrecognized(application_set["spec"])),
        "names": application_sets.unrecognized_names(application_set),
    }


def _generated_apps(given: Any) -> Any:
    """In the order of the controller, which ends at the first that is wrong."""
    name, neighbours = reading.text(given, "metadata", "name"), known(given)
    said = f"ApplicationSet {given.get('applicationSet', '')} contains"
    if not name:
        return {
            "error": f"{said} an application with no name; a name must be set in the template's metadata.name or via a "
            "templatePatch (generateName is not supported)"
        }
    if name in (given.get("earlierNames") or ()):
        return {"error": f"{said} applications with duplicate name: {name}"}
    project = sources.project_of(given)
    if neighbours.project(project) == {}:
        return {"error": f"application references project {project} which does not exist"}
    resolution = destinations.resolve(reading.mapping(given, "destination"), neighbours=neighbours)
    error = resolution.error if resolution else ""
    return {"error": f"application destination spec is invalid: {error}" if error else None}


def _ignore_sync(given: Any) -> Any:
    label = given.get("label")
    labels = {} if label is None else {names.IGNORE_SYNC: label}
    return {"synced": not ignore_sync.is_ignored({"metadata": {"labels": labels}})}


ANSWERS: dict[str, Callable[[Any], Any]] = {
    "destination_cluster": _destination_cluster,
    "application_permissions": _permissions,
    "ref_sources": _ref_sources,
    "managed_by_url": _managed_by_url,
    "sync_wave": _sync_wave,
    "appset_invalid_generators": _invalid_generators,
    "appset_generated_apps": _generated_apps,
    "agent_ignore_sync": _ignore_sync,
}
