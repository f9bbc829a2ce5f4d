"""Other objects that a rule may ask for: a small protocol, so that caches, files and tests can answer.

`None` always means "not known" (no cache, or one that is not in sync): a rule then does not speak. Every
answer costs the same however many objects there are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class KnownCluster:
    """What a cluster secret says, less its credentials."""

    server: str
    name: str
    project: str = ""
    namespaces: tuple[str, ...] = ()
    secret: str = ""


class Neighbours(Protocol):
    def project(self, name: str) -> Mapping[str, Any] | None:
        """The project in Argo CD's namespace; an empty mapping where it is known not to exist."""
        ...

    def clusters_by_name(self, name: str) -> Sequence[KnownCluster] | None: ...

    def clusters_by_server(self, server: str) -> Sequence[KnownCluster] | None: ...

    def clusters_of_project(self, project: str) -> Sequence[KnownCluster] | None: ...

    def repositories_of_project(self, project: str) -> Sequence[str] | None:
        """URLs of repository secrets that are scoped to the project."""
        ...

    def repositories_by_url(self, url: str, project: str) -> Sequence[str] | None:
        """Names of repository secrets with the same normalised URL and project."""
        ...

    def application(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        """The application; an empty mapping where it is known not to exist."""
        ...

    def applications_of_project(self, project: str) -> Sequence[Mapping[str, Any]] | None: ...

    def applications_like(self, application: Mapping[str, Any]) -> Sequence[Mapping[str, Any]] | None:
        """Other applications with the same destination and source."""
        ...

    def applications_listing(
        self, group: str, kind: str, namespace: str, name: str
    ) -> Sequence[Mapping[str, Any]] | None:
        """Applications whose status.resources lists that object without requiresPruning."""
        ...

    def applications_labelled(self, label: str) -> Sequence[Mapping[str, Any]] | None:
        """Applications whose instance name, cut to fit a label, is this text."""
        ...

    def application_count(self) -> int | None: ...

    def secret(self, name: str) -> bool | None:
        """Whether Argo CD's namespace has a Secret of this name, labelled or not."""
        ...

    def config_map(self, name: str) -> bool | None:
        """Whether Argo CD's namespace has a ConfigMap of this name."""
        ...

    def service_account(self, namespace: str, name: str) -> bool | None:
        """Whether the account exists on this cluster."""
        ...

    def is_sync_account(self, namespace: str, name: str) -> bool | None:
        """Whether a project's destinationServiceAccounts lets Argo CD sync as this account."""
        ...
