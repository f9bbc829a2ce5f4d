"""What an update or a deletion of a project does to the applications that use it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from argocd import names, reading
from argocd.applications.sources import repositories
from argocd.budget import DEFAULT_STEPS, BudgetExceededError, StepBudget
from argocd.globs import Verdict
from argocd.judging.neighbours import KnownCluster
from argocd.projects.permissions import (
    Project,
    application_namespace_permitted,
    destination_permitted,
    source_permitted,
)

Application = Mapping[str, Any]
Resolve = Callable[[Mapping[str, Any]], KnownCluster | None]
"""The cluster that a destination means, or None where it means none or is not known."""


SHARE = DEFAULT_STEPS // 5
"""Steps of a review that may go into what its neighbours need: thousands of applications and a hundred patterns."""


@dataclass(frozen=True, slots=True)
class Impact:
    """Names of the applications that could use what they use before, and can no longer."""

    sources: tuple[str, ...] = ()
    destinations: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """In the words of Argo CD's API server, which does not look at the namespaces of applications."""
        parts = [
            f"{len(broken)} applications {what} became invalid"
            for what, broken in (
                ("source", self.sources),
                ("destination", self.destinations),
                ("namespace", self.namespaces),
            )
            if broken
        ]
        return f"as a result of project update {' and '.join(parts)}" if parts else ""

    @property
    def applications(self) -> list[str]:
        return sorted({*self.sources, *self.destinations, *self.namespaces})


def impact_of(
    *,
    old: Project,
    new: Project,
    applications: Iterable[Application],
    resolve: Resolve,
    control_plane: str,
    project_clusters: Sequence[KnownCluster] | None = (),
) -> Impact:
    """What was wrong before is not counted, and what would take too long to find out is not looked for.

    How many applications there are is not the writer's doing, and tenants could make them many: so the work has a share
    of the review's budget, and when that is used up the rest is left out.
    """

    # Applications ask the same things again and again.
    @cache
    def source_lost(url: str) -> bool:
        return _is_lost(source_permitted, old, new, url)

    @cache
    def destination_lost(server: str, name: str, namespace: str) -> bool:
        return _is_lost(
            destination_permitted,
            old,
            new,
            server=server,
            name=name,
            namespace=namespace,
            project_clusters=project_clusters,
        )

    @cache
    def namespace_lost(namespace: str) -> bool:
        return _is_lost(
            application_namespace_permitted, old, new, namespace=namespace, control_plane=control_plane
        )

    sources, destinations, namespaces = [], [], []
    with suppress(BudgetExceededError), StepBudget(SHARE):
        for application in applications:
            name = reading.text(application, "metadata", "name")
            spec = reading.mapping(application, "spec")
            if any(source_lost(url) for _, url, _ in repositories(spec)):
                sources.append(name)
            destination = reading.mapping(spec, "destination")
            cluster = resolve(destination)
            namespace = reading.text(destination, "namespace")
            if cluster is not None and destination_lost(cluster.server, cluster.name, namespace):
                destinations.append(name)
            if namespace_lost(reading.text(application, "metadata", "namespace")):
                namespaces.append(name)
    return Impact(tuple(sources), tuple(destinations), tuple(namespaces))


def _is_lost(
    permitted: Callable[..., Verdict], old: Project, new: Project, *asked: Any, **by_name: Any
) -> bool:
    return (
        permitted(old, *asked, **by_name) is Verdict.YES
        and permitted(new, *asked, **by_name) is not Verdict.YES
    )


def deletion_problem(project: str, *, applications: int) -> str:
    """What the API server says when somebody wants to delete the project; empty where it would."""
    if project == names.DEFAULT_PROJECT:
        return f"name '{project}' is reserved and cannot be deleted"
    return f"project is referenced by {applications} applications" if applications else ""
