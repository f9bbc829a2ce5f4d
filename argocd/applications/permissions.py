"""Whether an application may be what it says, in its project and with the clusters there are.

This is the check that Argo CD's API server and controller both make; the texts and their order are theirs.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from argocd import reading
from argocd.applications import sources
from argocd.applications.destinations import Resolution, resolve
from argocd.applications.sources import SourceProblem
from argocd.globs import Verdict
from argocd.judging.neighbours import Neighbours
from argocd.projects import permissions


def conditions(
    spec: Mapping[str, Any],
    project: Mapping[str, Any],
    *,
    neighbours: Neighbours,
    in_cluster_enabled: bool = True,
) -> list[SourceProblem] | None:
    """What Argo CD complains about; None where the clusters are not known.

    `project` is the project as the application meets it, with global projects and what belongs to it alone.
    A source that says too little ends the check, as it does there.
    """
    found: list[SourceProblem] = []
    if sources.is_hydrated(spec):
        incomplete = list(sources.hydrator_problems(spec))
        if incomplete:
            return incomplete
        found.extend(forbidden_repositories(spec, project))
    else:
        found_sources = list(sources.plain_sources(spec))
        incomplete_at = {
            problem.path.removesuffix(".targetRevision"): problem
            for problem in (
                *sources.charts_without_revision(found_sources),
                *sources.incomplete_sources(found_sources, several=sources.has_multiple_sources(spec)),
            )
        }
        forbidden = {problem.path: problem for problem in forbidden_repositories(spec, project)}
        for path, _ in found_sources:
            if path in incomplete_at:
                return [*found, incomplete_at[path]]
            if f"{path}.repoURL" in forbidden:
                found.append(forbidden[f"{path}.repoURL"])
    resolution = resolve(
        reading.mapping(spec, "destination"),
        neighbours=neighbours,
        in_cluster_enabled=in_cluster_enabled,
    )
    if resolution is None:
        return None
    if resolution.error:
        return [*found, SourceProblem("spec.destination", resolution.error)]
    return [*found, *forbidden_destination(spec, project, resolution, neighbours=neighbours)]


def forbidden_repositories(spec: Mapping[str, Any], project: Mapping[str, Any]) -> Iterator[SourceProblem]:
    for path, url, called in sources.repositories(spec):
        if url and permissions.source_permitted(project, url) is Verdict.NO:
            name = sources.project_of(spec)
            yield SourceProblem(path, f"{called} {url} is not permitted in project '{name}'")


def forbidden_destination(
    spec: Mapping[str, Any],
    project: Mapping[str, Any],
    resolution: Resolution,
    *,
    neighbours: Neighbours,
) -> Iterator[SourceProblem]:
    """`resolution` is what the destination means; one that means no cluster is another check's matter."""
    cluster = resolution.cluster
    if cluster is None:
        return
    name = sources.project_of(spec)
    namespace = reading.text(spec, "destination", "namespace")
    verdict = permissions.destination_permitted(
        project,
        server=cluster.server,
        name=cluster.name,
        namespace=namespace,
        project_clusters=neighbours.clusters_of_project(name),
    )
    if verdict is Verdict.NO:
        # Argo CD names the server as the application does: not at all where it gives the cluster's name.
        server = reading.text(spec, "destination", "server")
        yield SourceProblem(
            "spec.destination",
            f"application destination server '{server}' and namespace '{namespace}' do not match any of the "
            f"allowed destinations in project '{name}'",
        )
