"""The certificates that are locked out, as a ConfigMap of the principal's namespace says at any time."""

import asyncio
from collections.abc import Awaitable, Callable

from argocd import names
from kube.cache import Cache
from kube.projections import whole
from kube.resources import CONFIG_MAPS
from kube.store import Object, Store
from sidecars.principal.state import SYNC_SECONDS
from sidecars.wire.auth.blocklist import Blocklist
from tiphys import logs
from tiphys.errors import SurroundingsError

Swap = Callable[[Blocklist], Awaitable[None]]

log = logs.get_logger()


class WatchedBlocklist:
    """`run` belongs into a task group, `follow` beside it."""

    def __init__(self, store: Store, *, namespace: str, swap: Swap) -> None:
        self._namespace = namespace
        self._swap = swap
        self._cache: Cache[Object] = Cache(
            store,
            CONFIG_MAPS,
            projection=whole,
            namespace=namespace,
            field_selector=f"metadata.name={names.TLS_BLOCKLIST}",
        )
        self._changed = asyncio.Event()
        self._cache.subscribe(lambda _old, _new: self._changed.set())

    @property
    def name(self) -> str:
        return f"ConfigMap {self._namespace}/{names.TLS_BLOCKLIST}"

    async def run(self) -> None:
        await self._cache.run()

    async def read(self) -> None:
        """No port is open before: whoever is blocked comes back all the time and finds any window."""
        try:
            async with asyncio.timeout(SYNC_SECONDS):
                await self._cache.synced()
        except TimeoutError as error:
            raise SurroundingsError(
                f"{self.name} cannot be read, so nobody is let in: {self._cache.health.error or 'no answer'};"
                " the principal needs list and watch of it"
            ) from error
        self._changed.clear()
        await self._swap(self._present())

    async def follow(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._swap(self._present())

    def _present(self) -> Blocklist:
        found = Blocklist.of(self._cache.get(names.TLS_BLOCKLIST, namespace=self._namespace))
        if found.unreadable:
            log.warning("keys of the blocklist are no fingerprints", keys=list(found.unreadable)[:5])
        return found
