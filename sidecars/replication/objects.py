"""What a principal has of the replicated kinds: its caches, and an inventory of each kind that follows them.

The same on both ends. A change costs O(log N), and the two ends' inventories are equal exactly where their
objects are.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from argocd import names
from argocd.agents.replication import copy_digest, replicated_copy
from argocd.reading import text
from kube.cache import Cache
from kube.projections import without_managed_fields
from kube.resources import APPLICATION_SETS, CONFIG_MAPS
from kube.store import Object, Store
from sidecars.delivery.inventory import Inventory
from sidecars.delivery.timing import Timing
from sidecars.replication.kinds import (
    APPLICATION_SET,
    BLOCKLIST,
    BY_NAME,
    KINDS,
    MODES,
    ObjectKey,
    ReplicatedKind,
    ReplicationScope,
)

Listener = Callable[[ObjectKey, Object | None, Object | None], None]
"""Told of each change of a copy: what it is now, or None where it is gone, and what was stored before."""


def own_caches(store: Store, *, namespace: str, timing: Timing) -> dict[ReplicatedKind, Cache[Object]]:
    """Of the kinds that a principal needs for its replica only."""
    cache = partial(
        Cache[Object],
        store,
        namespace=namespace,
        projection=without_managed_fields,
        clock=timing.monotonic,
        random=timing.random,
    )
    return {
        APPLICATION_SET: cache(APPLICATION_SETS),
        MODES: cache(CONFIG_MAPS, field_selector=f"metadata.name={names.AGENT_MODES}"),
        BLOCKLIST: cache(CONFIG_MAPS, field_selector=f"metadata.name={names.TLS_BLOCKLIST}"),
    }


class ReplicatedObjects:
    """Make it before the caches run, or after: each object is told once."""

    def __init__(self, caches: Mapping[ReplicatedKind, Cache[Object]], *, scope: ReplicationScope) -> None:
        self.scope = scope
        self.inventories: dict[str, Inventory] = {kind.name: Inventory() for kind in KINDS}
        self._caches = dict(caches)
        self._listeners: list[Listener] = []
        for kind, cache in self._caches.items():
            cache.subscribe(partial(self._changed, kind))

    async def synced(self) -> None:
        """All of them have been listed; bound it."""
        await asyncio.gather(*(cache.synced() for cache in self._caches.values()))

    async def caught_up(self) -> None:
        """Returns when the caches have what the API server has now; bound it, and let nobody write meanwhile."""
        await asyncio.gather(*(cache.caught_up() for cache in self._caches.values()))

    async def reached(self, kind: ReplicatedKind, version: str) -> None:
        """Our own write is back by the watch; bound it."""
        await self._caches[kind].reached(version)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """To changes from now on; returns what ends it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def get(self, key: ObjectKey) -> Object | None:
        """As it is stored."""
        kind = BY_NAME[key.kind]
        cache = self._caches.get(kind)
        item = cache.get(key.name, namespace=key.namespace) if cache is not None else None
        return item if item is not None and self.scope.admits(kind, item) else None

    def items(self, kind: ReplicatedKind) -> Iterator[tuple[ObjectKey, Object]]:
        cache = self._caches.get(kind)
        for item in list(cache.values()) if cache is not None else ():
            if self.scope.admits(kind, item):
                yield _key(kind, item), item

    def counts(self) -> dict[str, int]:
        return {name: len(inventory) for name, inventory in self.inventories.items()}

    def digests(self) -> dict[str, str]:
        """By kind: equal on both ends exactly where their objects are."""
        return {name: inventory.mark().hex() for name, inventory in self.inventories.items()}

    def uid_of_application_set(self, name: str) -> str:
        """Of the one that is here; empty where there is none."""
        cache = self._caches.get(APPLICATION_SET)
        item = cache.get(name, namespace=self.scope.namespace) if cache is not None else None
        return "" if text(item, "metadata", "deletionTimestamp") else text(item, "metadata", "uid")

    def _changed(self, kind: ReplicatedKind, old: Object | None, new: Object | None) -> None:
        inventory = self.inventories[kind.name]
        if new is not None and self.scope.admits(kind, new):
            key, copy = _key(kind, new), replicated_copy(new)
            digest = copy_digest(copy)
            if inventory.get(key.text) != digest:  # else what no copy shows has changed, such as a token
                inventory.put(key.text, digest)
                self._tell(key, copy, old)
            return
        key = _key(kind, old or new or {})
        if key.text in inventory:
            inventory.remove(key.text)
            self._tell(key, None, old or new)

    def _tell(self, key: ObjectKey, copy: Object | None, former: Object | None) -> None:
        for listener in tuple(self._listeners):
            listener(key, copy, former)


def _key(kind: ReplicatedKind, item: Object) -> ObjectKey:
    metadata = item["metadata"]
    return ObjectKey(kind.name, metadata.get("namespace", ""), metadata["name"])
