"""Neighbours kept by the questions that rules ask, so that each answer costs the same however many there are.

Filled once from files, or kept up to date by the callbacks of caches: `put` and `drop` cost as much as the
one object is large. A kind answers only while it is `known`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from enum import StrEnum
from hashlib import blake2b
from sys import intern
from typing import Any

import orjson

from argocd import reading
from argocd.applications.sources import is_hydrated, plain_sources, project_of, release_name
from argocd.engine.summaries import resource_key, summarize_application, summarize_secret
from argocd.impersonation.accounts import SyncAccounts
from argocd.judging.neighbours import KnownCluster
from argocd.settings import git_urls
from argocd.tracking.ids import TruncationError, instance_name, truncate

Object = Mapping[str, Any]
Key = tuple[str, str]
"""Namespace and name."""


class Shelf(StrEnum):
    """What is kept apart, because it becomes known apart."""

    PROJECTS = "projects"
    APPLICATIONS = "applications"
    SECRETS = "secrets"
    SECRET_NAMES = "names of secrets"  # noqa: S105 - the name of a shelf
    CONFIG_MAP_NAMES = "names of config maps"
    ACCOUNTS = "service accounts"


def key_of(thing: Object) -> Key:
    metadata = reading.mapping(thing, "metadata")
    return reading.text(metadata, "namespace"), reading.text(metadata, "name")


class _Index:
    """Keys of objects by some value of theirs."""

    def __init__(self) -> None:
        self._keys: dict[Any, Key | dict[Key, None]] = {}

    def add(self, value: Any, key: Key) -> None:
        held = self._keys.get(value)
        if held is None or held == key:
            self._keys[value] = key  # nearly always there is one: a dict for it would cost 232 bytes
        elif isinstance(held, dict):
            held[key] = None
        else:
            self._keys[value] = {held: None, key: None}

    def remove(self, value: Any, key: Key) -> None:
        held = self._keys.get(value)
        if isinstance(held, dict):
            held.pop(key, None)
            if not held:
                del self._keys[value]
        elif held == key:
            del self._keys[value]

    def keys(self, value: Any) -> Iterable[Key]:
        held = self._keys.get(value)
        if held is None:
            return ()
        return tuple(held) if isinstance(held, dict) else (held,)


class Directory:
    """The neighbours that have been put in: an `argocd.judging.neighbours.Neighbours`. Objects may be whole or summaries (`argocd.engine.summaries`)."""

    def __init__(
        self,
        *,
        argocd_namespace: str,
        known: Iterable[Shelf] = (),
        mapping: Callable[[], MutableMapping[Any, Object]] = dict,
    ) -> None:
        """`mapping` makes what projects and Applications are kept in."""
        self._argocd_namespace = argocd_namespace
        self._known = set(known)
        self._projects: MutableMapping[str, Object] = mapping()
        self._applications: MutableMapping[Key, Object] = mapping()
        self._of_project = _Index()
        self._alike = _Index()
        self._labelled = _Index()
        self._listed = _Index()
        self._clusters: dict[Key, KnownCluster] = {}
        self._cluster_names = _Index()
        self._cluster_servers = _Index()
        self._cluster_projects = _Index()
        self._repositories: dict[Key, Object] = {}
        self._repository_urls = _Index()
        self._repository_projects = _Index()
        self._secret_names: set[str] = set()
        self._config_map_names: set[str] = set()
        self._accounts: set[Key] = set()
        self._sync_accounts = SyncAccounts(argocd_namespace=argocd_namespace)

    # Filling

    def know(self, shelf: Shelf, *, known: bool = True) -> None:
        (self._known.add if known else self._known.discard)(shelf)

    def put_project(self, project: Object) -> None:
        namespace, name = key_of(project)
        if namespace == self._argocd_namespace:
            self._projects[name] = project
            self._sync_accounts.put(name, project)

    def drop_project(self, project: Object) -> None:
        namespace, name = key_of(project)
        if namespace == self._argocd_namespace:
            self._projects.pop(name, None)
            self._sync_accounts.drop(name)

    def put_application(self, application: Object) -> None:
        self.drop_application(application)
        (namespace, name), kept = key_of(application), summarize_application(application)
        key = (intern(namespace), name)  # there are few namespaces, and many Applications in each
        self._applications[key] = kept
        for index, value in self._application_indexes(kept):
            index.add(value, key)

    def drop_application(self, application: Object) -> None:
        key = key_of(application)
        if (held := self._applications.pop(key, None)) is not None:
            for index, value in self._application_indexes(held):
                index.remove(value, key)

    def _application_indexes(self, application: Object) -> Iterator[tuple[_Index, str | bytes]]:
        yield self._of_project, _project_of(application)
        yield self._alike, likeness(application)
        if label := self._label_of(application):
            yield self._labelled, label
        for resource in application["resources"]:
            yield self._listed, resource

    def put_secret(self, secret: Object) -> None:
        """Whole, or as `summarize_secret` left it."""
        self.drop_secret(secret)
        key = key_of(secret)
        if key[0] != self._argocd_namespace:
            return
        kept = secret if "data" not in secret and "stringData" not in secret else summarize_secret(secret)
        if cluster := reading.mapping(kept, "cluster"):
            self._clusters[key] = KnownCluster(
                server=reading.text(cluster, "server"),
                name=reading.text(cluster, "name"),
                project=reading.text(cluster, "project"),
                namespaces=tuple(reading.texts(cluster, "namespaces")),
                secret=key[1],
            )
            for index, value in self._cluster_indexes(self._clusters[key]):
                index.add(value, key)
        if repository := reading.mapping(kept, "repository"):
            self._repositories[key] = repository
            for index, value in self._repository_indexes(repository):
                index.add(value, key)

    def drop_secret(self, secret: Object) -> None:
        key = key_of(secret)
        if (cluster := self._clusters.pop(key, None)) is not None:
            for index, value in self._cluster_indexes(cluster):
                index.remove(value, key)
        if (repository := self._repositories.pop(key, None)) is not None:
            for index, value in self._repository_indexes(repository):
                index.remove(value, key)

    def _repository_indexes(self, repository: Object) -> tuple[tuple[_Index, Any], ...]:
        project = reading.text(repository, "project")
        return (
            (self._repository_urls, (reading.text(repository, "normalized"), project)),
            (self._repository_projects, project),
        )

    def put_secret_name(self, secret: Object) -> None:
        self._put_name(self._secret_names, secret)

    def drop_secret_name(self, secret: Object) -> None:
        self._drop_name(self._secret_names, secret)

    def put_config_map_name(self, config_map: Object) -> None:
        self._put_name(self._config_map_names, config_map)

    def drop_config_map_name(self, config_map: Object) -> None:
        self._drop_name(self._config_map_names, config_map)

    def _put_name(self, names: set[str], thing: Object) -> None:
        namespace, name = key_of(thing)
        if namespace in {self._argocd_namespace, ""}:  # a file need not say it
            names.add(name)

    def _drop_name(self, names: set[str], thing: Object) -> None:
        namespace, name = key_of(thing)
        if namespace == self._argocd_namespace:
            names.discard(name)

    def put_account(self, account: Object) -> None:
        self._accounts.add(key_of(account))

    def drop_account(self, account: Object) -> None:
        self._accounts.discard(key_of(account))

    def _cluster_indexes(self, cluster: KnownCluster) -> tuple[tuple[_Index, str], ...]:
        return (
            (self._cluster_names, cluster.name),
            (self._cluster_servers, cluster.server),
            (self._cluster_projects, cluster.project),
        )

    # Answers

    def project(self, name: str) -> Object | None:
        return self._projects.get(name, {}) if Shelf.PROJECTS in self._known else None

    def clusters_by_name(self, name: str) -> Sequence[KnownCluster] | None:
        return self._clusters_in(self._cluster_names, name)

    def clusters_by_server(self, server: str) -> Sequence[KnownCluster] | None:
        return self._clusters_in(self._cluster_servers, server)

    def clusters_of_project(self, project: str) -> Sequence[KnownCluster] | None:
        return self._clusters_in(self._cluster_projects, project)

    def _clusters_in(self, index: _Index, value: str) -> Sequence[KnownCluster] | None:
        if Shelf.SECRETS not in self._known:
            return None
        return [self._clusters[key] for key in index.keys(value)]

    def repositories_of_project(self, project: str) -> Sequence[str] | None:
        if Shelf.SECRETS not in self._known:
            return None
        return [
            reading.text(self._repositories[key], "url") for key in self._repository_projects.keys(project)
        ]

    def repositories_by_url(self, url: str, project: str) -> Sequence[str] | None:
        if Shelf.SECRETS not in self._known:
            return None
        return [name for _, name in self._repository_urls.keys((git_urls.normalize(url), project))]

    def application(self, namespace: str, name: str) -> Object | None:
        return self._applications.get((namespace, name), {}) if Shelf.APPLICATIONS in self._known else None

    def applications_of_project(self, project: str) -> Sequence[Object] | None:
        return self._applications_in(self._of_project, project)

    def applications_like(self, application: Object) -> Sequence[Object] | None:
        if Shelf.APPLICATIONS not in self._known:
            return None
        own = key_of(application)
        alike = self._alike.keys(likeness(application))
        return [self._applications[key] for key in alike if key != own]

    def applications_listing(
        self, group: str, kind: str, namespace: str, name: str
    ) -> Sequence[Object] | None:
        return self._applications_in(self._listed, resource_key(group, kind, namespace, name))

    def applications_labelled(self, label: str) -> Sequence[Object] | None:
        return self._applications_in(self._labelled, label)

    def _label_of(self, application: Object) -> str:
        namespace, name = key_of(application)
        try:
            return truncate(instance_name(name, namespace=namespace, argocd_namespace=self._argocd_namespace))
        except TruncationError:
            return ""

    def _applications_in(self, index: _Index, value: Any) -> Sequence[Object] | None:
        if Shelf.APPLICATIONS not in self._known:
            return None
        return [self._applications[key] for key in index.keys(value)]

    def application_count(self) -> int | None:
        return len(self._applications) if Shelf.APPLICATIONS in self._known else None

    def secret(self, name: str) -> bool | None:
        return name in self._secret_names if Shelf.SECRET_NAMES in self._known else None

    def config_map(self, name: str) -> bool | None:
        return name in self._config_map_names if Shelf.CONFIG_MAP_NAMES in self._known else None

    def service_account(self, namespace: str, name: str) -> bool | None:
        return (namespace, name) in self._accounts if Shelf.ACCOUNTS in self._known else None

    def is_sync_account(self, namespace: str, name: str) -> bool | None:
        return self._sync_accounts.has(namespace, name) if Shelf.PROJECTS in self._known else None


def likeness(application: Object) -> bytes:
    """What two applications share when they would fight over the same objects: destination and whole sources.

    As a digest: there is one for every Application, and the texts would be most of what an index holds.
    """
    spec = reading.mapping(application, "spec")
    destination = reading.mapping(spec, "destination")
    where = [reading.text(destination, key) for key in ("server", "name", "namespace")]
    hydrated = [_canonical(spec.get("sourceHydrator"))] if is_hydrated(spec) else []
    name = reading.text(application, "metadata", "name")
    plain = sorted(
        _canonical({**source, "release": release_name(source, application=name)})
        for _, source in plain_sources(spec)
    )
    whole = b"\n".join([_canonical(where), *hydrated, *plain])
    return blake2b(whole, digest_size=16).digest()


def _canonical(value: Any) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
    except TypeError:
        return b"?"  # nested too deeply, or no JSON: no API server will store it


def _project_of(application: Object) -> str:
    return project_of(reading.mapping(application, "spec"))
