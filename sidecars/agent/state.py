"""What an agent's cluster has: caches, the copies among it, and how they are called at the principal."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial

from argocd.agents import ignore_sync
from argocd.agents.copies import application_at_principal
from argocd.agents.identity import is_managed
from argocd.agents.namespaces import PeerUnknownError, as_told_to_peer
from argocd.agents.project_copies import NameTooLongError, project_at_principal
from argocd.agents.routing import project_of_repository
from argocd.agents.vocabulary import Mode
from argocd.reading import text
from kube.cache import Cache
from kube.projections import without_managed_fields
from kube.resources import APP_PROJECTS, APPLICATIONS, CONFIG_MAPS, SECRETS
from kube.store import Object, Store
from sidecars.agent.settings import AgentSettings
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


class AgentState:
    def __init__(self, store: Store, *, settings: AgentSettings, timing: Timing) -> None:
        self.settings = settings
        self.name = ""
        """Ours, as the principal knows us; and below its own namespace. Both are told at login."""
        self.principal_namespace = ""
        self._digests = Digests()
        self._awaited: dict[str, Callable[[], object]] = {}
        self.changes = 0
        own = settings.namespace
        cache = partial(
            Cache[Object],
            store,
            projection=without_managed_fields,
            clock=timing.monotonic,
            random=timing.random,
        )
        several = bool(settings.allowed_namespaces) and settings.mode is Mode.MANAGED
        self.caches: dict[SyncedKind, Cache[Object]] = {
            PROJECT: cache(APP_PROJECTS, namespace=own, label_selector=settings.label_selector),
            APPLICATION: cache(
                APPLICATIONS,
                namespace=None if several else own,
                label_selector=settings.label_selector,
            ),
        }
        if settings.mode is Mode.MANAGED:
            self.caches[REPOSITORY] = cache(SECRETS, namespace=own, label_selector=REPOSITORIES)
            self.caches[GPG_KEYS] = cache(CONFIG_MAPS, namespace=own, field_selector=GPG_KEYS_ONLY)
        for each in self.caches.values():
            each.subscribe(self._count)

    def _count(self, old: Object | None, new: Object | None) -> None:
        self.changes += 1
        if new is None:
            uid = text(old, "metadata", "uid")
            self._digests.forget(uid)
            if (gone := self._awaited.pop(uid, None)) is not None:
                gone()

    def when_gone(self, item: Object, call: Callable[[], object]) -> None:
        """Once, when the watch shows that this one and no other of its name is gone; the last caller is told."""
        self._awaited[text(item, "metadata", "uid")] = call

    async def synced(self) -> None:
        await asyncio.gather(*(cache.synced() for cache in self.caches.values()))

    def get(self, kind: SyncedKind, *, name: str, namespace: str) -> Object | None:
        cache = self.caches.get(kind)
        return cache.get(name, namespace=namespace) if cache is not None else None

    def has_application(self, namespace: str, name: str) -> bool:
        """One that the principal may know of; no namespace means our own."""
        place = namespace or self.settings.namespace
        return self.settings.allows(place) and self.get(APPLICATION, name=name, namespace=place) is not None

    def all(self, kind: SyncedKind) -> list[Object]:
        cache = self.caches.get(kind)
        return list(cache.values()) if cache is not None else []

    def concerns(self, kind: SyncedKind, item: Object) -> bool:
        """Whether an object is one that two ends keep in step."""
        if ignore_sync.is_ignored(item):
            return False
        namespace = text(item, "metadata", "namespace")
        if kind is REPOSITORY:
            return bool(project_of_repository(item, argocd_namespace=self.settings.namespace))
        return kind is not APPLICATION or self.settings.allows(namespace)

    def copies(self) -> Iterator[tuple[SyncedKind, Object]]:
        """What a managed agent was given."""
        for kind in self.caches:
            for item in self.all(kind):
                if is_managed(item) and (kind is not APPLICATION or self.concerns(kind, item)):
                    yield kind, item

    def own(self) -> Iterator[tuple[SyncedKind, Object]]:
        """What an autonomous agent tells of."""
        for kind in (PROJECT, APPLICATION):
            for item in self.all(kind):
                if self.concerns(kind, item):
                    yield kind, item

    def at_principal(self, kind: SyncedKind, item: Object) -> Object | None:
        """The mirror that the principal shall have of an autonomous agent's object."""
        try:
            if kind is PROJECT:
                return project_at_principal(item, agent=self.name, namespace=self.principal_namespace)
            mirror = application_at_principal(item, agent=self.name, cluster=self.name)
            if "operation" in item:
                mirror["operation"] = item["operation"]
            return mirror
        except NameTooLongError:
            return None  # it will never be there

    # For comparisons.

    @property
    def naming(self) -> Naming:
        return Naming(self.settings.mode, self.settings.mapped_by)

    def key(self, kind: SyncedKind, item: Object) -> str:
        namespace = ""
        if kind is APPLICATION:
            try:
                namespace = as_told_to_peer(item, peer_namespace=self.principal_namespace)
            except PeerUnknownError:
                namespace = text(item, "metadata", "namespace")
        return self.naming.key(kind, text(item, "metadata", "name"), namespace=namespace)

    def inventories(self) -> Inventories:
        entries = {SPECS: self.specs}
        if self.settings.mode is Mode.MANAGED:
            entries[STATUS] = self.statuses
        return Inventories(entries, version=lambda: self.changes)

    def specs(self) -> Iterator[tuple[str, bytes]]:
        if self.settings.mode is Mode.MANAGED:
            for kind, item in self.copies():
                yield self.key(kind, item), self._digest(SPECS, item, kind)
            return
        for kind, item in self.own():
            mirror = self.at_principal(kind, item)
            if mirror is not None:
                yield self.key(kind, item), digest(kind, mirror, with_status=kind is APPLICATION)

    def statuses(self) -> Iterator[tuple[str, bytes]]:
        for kind, item in self.copies():
            if kind is APPLICATION:
                yield self.key(kind, item), self._digest(STATUS, item, kind)

    def _digest(self, scope: str, item: Object, kind: SyncedKind) -> bytes:
        uid, version = text(item, "metadata", "uid"), text(item, "metadata", "resourceVersion")
        compute = partial(digest, kind, item) if scope == SPECS else partial(status_digest, item)
        return self._digests.of(scope, uid, version, compute)
