"""The principal's caches, and what follows from them: who shall have what, and what mirrors there are."""

import asyncio
from collections.abc import Hashable, Iterable, Iterator
from functools import partial
from typing import Any

from argocd import names
from argocd.agents import ignore_sync
from argocd.agents.identity import has_source, under_first_identity
from argocd.agents.modes import kept_mode, labelled_mode
from argocd.agents.project_copies import bare_name, prefixed_name, project_for_agent
from argocd.agents.routing import (
    AgentIndex,
    admits_application,
    agent_of_application,
    is_autonomous_mirror,
    project_of_repository,
    route_project,
)
from argocd.agents.vocabulary import Mode
from argocd.reading import sequence, text
from argocd.settings import secrets
from kube.cache import Cache
from kube.projections import without_managed_fields
from kube.resources import APP_PROJECTS, APPLICATIONS, CONFIG_MAPS, SECRETS
from kube.store import Object, Store
from sidecars.delivery.timing import Timing
from sidecars.mirroring.inventories import SPECS, STATUS, Digests, Inventories
from sidecars.mirroring.kinds import (
    APPLICATION,
    GPG_KEYS,
    GPG_KEYS_ONLY,
    PROJECT,
    REPOSITORIES,
    REPOSITORY,
    Naming,
    SyncedKind,
    digest,
    status_digest,
)
from sidecars.principal.project_reach import Reaches
from sidecars.principal.settings import PrincipalSettings
from tiphys.errors import SurroundingsError

# A list of ten thousand Applications takes an API server a few seconds.
SYNC_SECONDS = 120.0
CLUSTERS = f"{names.SECRET_TYPE}={names.SECRET_TYPE_CLUSTER},{names.AGENT_NAME}"


class HubState:
    def __init__(self, store: Store, *, settings: PrincipalSettings, timing: Timing) -> None:
        self.settings = settings
        self.agents = AgentIndex(mapped_by=settings.mapped_by)
        self.homes: dict[str, str] = {}
        """In which namespace each agent lives on its own cluster, as it said at its login."""
        self.versions: dict[str, str] = {}
        """Of each agent, as it said at its login."""
        self._digests = Digests()
        self._reaches = Reaches()
        self.changes = 0
        own = settings.namespace
        cache = partial(
            Cache[Object],
            store,
            projection=without_managed_fields,
            clock=timing.monotonic,
            random=timing.random,
        )
        self.projects = cache(
            APP_PROJECTS,
            namespace=own,
            label_selector=settings.label_selector,
            indexes={"mirror of": _mirrored_agent},
        )
        self.applications = cache(
            APPLICATIONS, label_selector=settings.label_selector, indexes={"agent": _possible_agents}
        )
        self.repositories = cache(
            SECRETS, namespace=own, label_selector=REPOSITORIES, indexes={"project": self._project}
        )
        self.gpg_keys = cache(CONFIG_MAPS, namespace=own, field_selector=GPG_KEYS_ONLY)
        self.clusters = cache(
            SECRETS, namespace=own, label_selector=CLUSTERS, indexes={"agent": _agent_of_cluster}
        )
        self.modes = cache(CONFIG_MAPS, namespace=own, field_selector=f"metadata.name={names.AGENT_MODES}")
        for each in self.caches:
            each.subscribe(self._count)
        self.projects.subscribe(self._forget_reach)

    @property
    def caches(self) -> tuple[Cache[Object], ...]:
        known = (self.projects, self.applications, self.repositories, self.gpg_keys, self.clusters)
        return known if self.settings.trust_agent_mode else (*known, self.modes)

    @property
    def told_to_agents(self) -> dict[SyncedKind, Cache[Object]]:
        return {
            APPLICATION: self.applications,
            PROJECT: self.projects,
            REPOSITORY: self.repositories,
            GPG_KEYS: self.gpg_keys,
        }

    def _count(self, old: Object | None, new: Object | None) -> None:
        self.changes += 1
        if new is None:
            self._digests.forget(text(old, "metadata", "uid"))

    def _forget_reach(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            self._reaches.forget(text(old, "metadata", "name"))

    async def run(self) -> None:
        """Its caches, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for cache in self.caches:
                group.create_task(cache.run(), name="cache")

    async def synced(self) -> None:
        try:
            async with asyncio.timeout(SYNC_SECONDS):
                await asyncio.gather(*(cache.synced() for cache in self.caches))
        except TimeoutError as error:
            raise SurroundingsError(
                f"the API server gave no complete lists within {SYNC_SECONDS:.0f} s"
            ) from error

    # Who shall have what.

    def admitted(self, application: Object | None) -> Object | None:
        settings = self.settings
        if application is None or not admits_application(
            application,
            allowed_namespaces=list(settings.allowed_namespaces),
            principal_namespace=settings.namespace,
            mapped_by=settings.mapped_by,
        ):
            return None
        return application

    def cluster_of(self, agent: str) -> str:
        """What the hub's Argo CD calls the agent's cluster; empty where it does not know it."""
        for secret in self.clusters.find("agent", agent):
            return secrets.value(secret, "name") or agent
        return ""

    def mode_of(self, agent: str) -> Mode | None:
        """The principal's word; None where there is none yet, or where the agent's own counts."""
        if self.settings.trust_agent_mode:
            return None
        labels = (labelled_mode(secret) for secret in self.clusters.find("agent", agent))
        config_map = self.modes.get(names.AGENT_MODES, namespace=self.settings.namespace)
        return next((mode for mode in labels if mode is not None), None) or kept_mode(config_map, agent)

    def agents_of_project(self, name: str) -> list[str]:
        return self.agents.for_project(self.projects.get(name, namespace=self.settings.namespace))

    def repositories_of(self, project: str) -> list[Object]:
        return self.repositories.find("project", project)

    def applications_of(self, agent: str) -> Iterator[Object]:
        """Those that a managed agent shall have, or that it has told of."""
        for application in self.applications.find("agent", agent):
            if self.admitted(application) is not None and self.agent_of(application) == agent:
                yield application

    def agent_of(self, application: Object) -> str:
        return agent_of_application(
            application, mapped_by=self.settings.mapped_by, mode_of=self.agents.mode_of
        )

    def project_copy(self, project: Object | None, agent: str) -> Object | None:
        if (
            project is None
            or not self._reaches.may_include(project, agent)
            or ignore_sync.is_ignored(project)
            or is_autonomous_mirror(project, mode_of=self.agents.mode_of)
            or not route_project(project, agent, mapped_by=self.settings.mapped_by).goes
        ):
            return None
        return project_for_agent(project, agent=agent, mapped_by=self.settings.mapped_by)

    def expected(self, agent: str, kind: SyncedKind, name: str, namespace: str) -> Object | None:
        """What a managed agent shall have under a name; None where it shall have nothing."""
        own = self.settings.namespace
        if kind is PROJECT:
            return self.project_copy(self.projects.get(name, namespace=own), agent)
        if kind is REPOSITORY:
            secret = self.repositories.get(name, namespace=own)
            project = self._project_of(secret)
            goes = project and self.project_copy(self.projects.get(project, namespace=own), agent)
            return dict(under_first_identity(secret)) if secret is not None and goes else None
        if kind is GPG_KEYS:
            keys = self.gpg_keys.get(name, namespace=own)
            return None if ignore_sync.is_ignored(keys) else keys
        application = self.admitted(self.applications.get(name, namespace=namespace or agent))
        if application is None or self.agent_of(application) != agent:
            return None
        return application

    def all_expected(self, agent: str) -> Iterator[tuple[SyncedKind, Object]]:
        projects = set()
        for project in self.projects.values():
            if (copy := self.project_copy(project, agent)) is not None:
                projects.add(text(copy, "metadata", "name"))
                yield PROJECT, copy
        for secret in self.repositories.values():
            if self._project_of(secret) in projects:
                yield REPOSITORY, dict(under_first_identity(secret))
        for keys in self.gpg_keys.values():
            if not ignore_sync.is_ignored(keys):
                yield GPG_KEYS, keys
        for application in self.applications_of(agent):
            yield APPLICATION, application

    # Mirrors of what autonomous agents have.

    def mirrors_of(self, agent: str) -> Iterator[tuple[SyncedKind, Object]]:
        for project in self.projects.find("mirror of", agent):
            if text(project, "metadata", "name").startswith(f"{agent}-"):
                yield PROJECT, project
        for application in self.applications.find("agent", agent):
            if (
                text(application, "metadata", "namespace") == agent
                and has_source(application)
                and not ignore_sync.is_ignored(application)
            ):
                yield APPLICATION, application

    def mirror(self, agent: str, kind: SyncedKind, name: str) -> Object | None:
        """By the agent's own name of it."""
        if kind is PROJECT:
            return self.projects.get(prefixed_name(agent, name), namespace=self.settings.namespace)
        return self.applications.get(name, namespace=agent) if kind is APPLICATION else None

    # For comparisons.

    def size_of(self, agent: str) -> int:
        """Of its inventory at most, without a look at each project."""
        shared = len(self.projects) + len(self.repositories) + len(self.gpg_keys)
        return shared + len(self.applications.find("agent", agent))

    def naming(self, mode: Mode) -> Naming:
        return Naming(mode, self.settings.mapped_by)

    def inventories(self, agent: str, mode: Mode) -> Inventories:
        entries = {SPECS: partial(self.specs, agent, mode)}
        if mode is Mode.MANAGED:
            entries[STATUS] = partial(self.statuses, agent)
        return Inventories(entries, version=lambda: self.changes)

    def specs(self, agent: str, mode: Mode) -> Iterator[tuple[str, bytes]]:
        naming = self.naming(mode)
        managed = mode is Mode.MANAGED
        for kind, item in self.all_expected(agent) if managed else self.mirrors_of(agent):
            name, namespace = text(item, "metadata", "name"), text(item, "metadata", "namespace")
            if kind is PROJECT and not managed:
                name = bare_name(agent, name)
            # A project's copy depends on who gets it.
            scope = f"{SPECS} {agent}" if kind is PROJECT else SPECS
            yield (
                naming.key(kind, name, namespace=namespace),
                self._digest(
                    scope, item, partial(digest, kind, item, with_status=not managed and kind is APPLICATION)
                ),
            )

    def statuses(self, agent: str) -> Iterator[tuple[str, bytes]]:
        naming = self.naming(Mode.MANAGED)
        for item in self.applications_of(agent):
            name, namespace = text(item, "metadata", "name"), text(item, "metadata", "namespace")
            yield (
                naming.key(APPLICATION, name, namespace=namespace),
                self._digest(STATUS, item, partial(status_digest, item)),
            )

    def _digest(self, scope: str, item: Object, compute: Any) -> bytes:
        if scope not in {SPECS, STATUS}:
            computed: bytes = compute()
            return computed
        uid, version = text(item, "metadata", "uid"), text(item, "metadata", "resourceVersion")
        return self._digests.of(scope, uid, version, compute)

    def _project_of(self, secret: Object | None) -> str:
        if secret is None:
            return ""
        return project_of_repository(secret, argocd_namespace=self.settings.namespace)

    def _project(self, secret: Object) -> Iterable[Hashable]:
        project = self._project_of(secret)
        return [project] if project else []


def _possible_agents(application: Object) -> Iterable[Hashable]:
    found = {
        text(application, "metadata", "namespace"),
        text(application, "spec", "destination", "name"),
    }
    return [name for name in sorted(found) if name]


def _mirrored_agent(project: Object) -> Iterable[Hashable]:
    if not has_source(project):
        return []
    return [name for name in sequence(project, "spec", "sourceNamespaces")[:1] if isinstance(name, str)]


def _agent_of_cluster(secret: Object) -> Iterable[Hashable]:
    agent = text(secret, "metadata", "labels", names.AGENT_NAME)
    return [agent] if agent else []
