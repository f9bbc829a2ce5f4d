"""A store that writes only while its owner may: a process that was paused must not finish what it was about to do."""

from collections.abc import AsyncGenerator, Callable
from typing import Any

from kube.errors import UnavailableError
from kube.store import JsonPatch, ListPage, Object, Resource, Store, WatchEvent


class GuardedStore(Store):
    """`may_write` is asked before every write; it says why not, or nothing."""

    def __init__(self, store: Store, may_write: Callable[[], str]) -> None:
        self._store = store
        self._may_write = may_write

    def _check(self) -> None:
        if reason := self._may_write():
            raise UnavailableError(f"nothing is written: {reason}")

    async def get(self, resource: Resource, **more: Any) -> Object:
        return await self._store.get(resource, **more)

    async def list(self, resource: Resource, **more: Any) -> ListPage:
        return await self._store.list(resource, **more)

    def watch(self, resource: Resource, **more: Any) -> AsyncGenerator[WatchEvent, None]:
        return self._store.watch(resource, **more)

    async def create(self, resource: Resource, body: Object, **more: Any) -> Object:
        self._check()
        return await self._store.create(resource, body, **more)

    async def replace(self, resource: Resource, body: Object, **more: Any) -> Object:
        self._check()
        return await self._store.replace(resource, body, **more)

    async def patch(self, resource: Resource, patch: Object | JsonPatch, **more: Any) -> Object:
        self._check()
        return await self._store.patch(resource, patch, **more)

    async def delete(self, resource: Resource, **more: Any) -> None:
        self._check()
        await self._store.delete(resource, **more)

    async def close(self) -> None:
        await self._store.close()
