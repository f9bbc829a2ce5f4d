"""Neighbours of which nothing is known, and a few that are known to exist, answering as the caches would."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from argocd import reading
from argocd.judging.neighbours import KnownCluster
from argocd.tracking.ids import truncate

Objects = list[Mapping[str, Any]]


def name_of(thing: Mapping[str, Any]) -> str:
    return reading.text(thing, "metadata", "name")


def _deploys(application: Mapping[str, Any]) -> list[Any]:
    keys = ("destination", "source", "sources", "sourceHydrator")
    return [reading.value(application, "spec", key) for key in keys]


class Nothing:
    """Knows no neighbour: what a rule meets in a pipeline that was given one file."""

    def project(self, name: str) -> Mapping[str, Any] | None:
        return None

    def clusters_by_name(self, name: str) -> Sequence[KnownCluster] | None:
        return None

    def clusters_by_server(self, server: str) -> Sequence[KnownCluster] | None:
        return None

    def clusters_of_project(self, project: str) -> Sequence[KnownCluster] | None:
        return None

    def repositories_of_project(self, project: str) -> Sequence[str] | None:
        return None

    def repositories_by_url(self, url: str, project: str) -> Sequence[str] | None:
        return None

    def application(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        return None

    def applications_of_project(self, project: str) -> Sequence[Mapping[str, Any]] | None:
        return None

    def applications_like(self, application: Mapping[str, Any]) -> Sequence[Mapping[str, Any]] | None:
        return None

    def applications_listing(
        self,
        group: str,
        kind: str,
        namespace: str,
        name: str,
    ) -> Sequence[Mapping[str, Any]] | None:
        return None

    def applications_labelled(self, label: str) -> Sequence[Mapping[str, Any]] | None:
        return None

    def application_count(self) -> int | None:
        return None

    def secret(self, name: str) -> bool | None:
        return None

    def config_map(self, name: str) -> bool | None:
        return None

    def service_account(self, namespace: str, name: str) -> bool | None:
        return None

    def is_sync_account(self, namespace: str, name: str) -> bool | None:
        return None


@dataclass
class Neighbourhood(Nothing):
    projects: Objects = field(default_factory=list)
    clusters: list[KnownCluster] = field(default_factory=list)
    applications: Objects = field(default_factory=list)
    repositories: list[tuple[str, str, str]] = field(default_factory=list)
    """The name, the URL and the project of each repository secret."""
    similar: Objects = field(default_factory=list)
    accounts: set[tuple[str, str]] = field(default_factory=set)
    secrets: set[str] = field(default_factory=set)
    config_maps: set[str] = field(default_factory=set)

    def project(self, name: str) -> Mapping[str, Any] | None:
        return next((known for known in self.projects if name_of(known) == name), {})

    def clusters_by_name(self, name: str) -> Sequence[KnownCluster] | None:
        return [known for known in self.clusters if known.name == name]

    def clusters_by_server(self, server: str) -> Sequence[KnownCluster] | None:
        return [known for known in self.clusters if known.server == server]

    def clusters_of_project(self, project: str) -> Sequence[KnownCluster] | None:
        return [known for known in self.clusters if known.project == project]

    def repositories_of_project(self, project: str) -> Sequence[str] | None:
        return [url for _, url, owner in self.repositories if owner == project]

    def repositories_by_url(self, url: str, project: str) -> Sequence[str] | None:
        return [name for name, known, owner in self.repositories if (known, owner) == (url, project)]

    def application(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        wanted = (namespace, name)
        return next(
            (
                known
                for known in self.applications
                if (reading.text(known, "metadata", "namespace"), name_of(known)) == wanted
            ),
            {},
        )

    def applications_of_project(self, project: str) -> Sequence[Mapping[str, Any]] | None:
        return [known for known in self.applications if reading.text(known, "spec", "project") == project]

    def applications_like(self, application: Mapping[str, Any]) -> Sequence[Mapping[str, Any]] | None:
        return [known for known in self.similar if _deploys(known) == _deploys(application)]

    def applications_labelled(self, label: str) -> Sequence[Mapping[str, Any]] | None:
        return [known for known in self.applications if truncate(name_of(known)) == label]

    def application_count(self) -> int | None:
        return len(self.applications)

    def service_account(self, namespace: str, name: str) -> bool | None:
        return (namespace, name) in self.accounts

    def secret(self, name: str) -> bool | None:
        return name in self.secrets

    def config_map(self, name: str) -> bool | None:
        return name in self.config_maps
