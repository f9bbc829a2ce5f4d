"""A principal in each of two regions, and the one name by which agents find the active one."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import aiohttp

from demo.clusters import ARRIVE_SECONDS
from demo.ports import LOOPBACK
from kube.guarded import GuardedStore
from kube.store import Store
from sidecars.fleet.ha_client import HaClient
from sidecars.principal.process import PrincipalOptions, PrincipalProcess
from tiphys.errors import SurroundingsError, TiphysError
from tiphys.running import Running

START_SECONDS = 30.0
CHECK_SECONDS = 2.0
LOOK_SECONDS = 0.1
# One connection's share; agents send kilobytes.
CHUNK_BYTES = 64 * 1024


@dataclass(slots=True)
class _Power:
    """Of the machine that a principal runs on: without it nothing reaches the API server, no farewell either."""

    gone: bool = False

    def may_write(self) -> str:
        return "its machine is gone" if self.gone else ""


class DemoRegion:
    """`options` makes those of each life of its principal."""

    def __init__(
        self, cluster: str, store: Store, options: Callable[[], PrincipalOptions], *, running: Running
    ) -> None:
        self.cluster = cluster
        self._store = store
        self._options = options
        self._running = running
        self._power = _Power()
        self._task: asyncio.Task[None] | None = None
        self.process: PrincipalProcess | None = None

    async def start(self) -> None:
        """Returns when it listens."""
        self._power = _Power()
        process = PrincipalProcess(GuardedStore(self._store, self._power.may_write), self._options())
        self._task = self._running.start(process.run(), name=f"principal of {self.cluster}")
        async with asyncio.timeout(START_SECONDS):
            await process.listening.wait()
        self.process = process

    async def kill(self) -> None:
        """Its Lease stays as it is, and nothing that it was about to write is written."""
        self._power.gone = True
        await self.stop()

    async def stop(self) -> None:
        task, self._task, self.process = self._task, None, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    @property
    def operator(self) -> HaClient:
        """As `tiphys ha` speaks to it."""
        admin = self.process and self.process.pair and self.process.pair.admin
        assert admin, "it is started first"
        return HaClient(address=f"{LOOPBACK}:{admin.port}")

    async def until(self, state: str, *, peer: str = "") -> None:
        """As `tiphys ha status` tells; of the peer too, where that matters."""
        told: dict[str, Any] = {"state": "not there"}
        with suppress(TimeoutError):
            async with asyncio.timeout(ARRIVE_SECONDS):
                while True:
                    with suppress(TiphysError):  # its admin port opens a moment later
                        told = await self.operator.status()
                        if told["state"] == state and peer in {"", told["peer"].get("state")}:
                            return
                    await asyncio.sleep(LOOK_SECONDS)
        raise SurroundingsError(
            f"the principal of {self.cluster} did not become {state}: it is {told['state']}"
        )

    async def is_healthy(self) -> bool:
        """What a load balancer's health check asks."""
        if self.process is None:
            return False
        url = f"http://{LOOPBACK}:{self.process.health.port}/healthz"
        timeout = aiohttp.ClientTimeout(total=CHECK_SECONDS)
        try:
            async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as answer:
                return answer.status == HTTPStatus.OK
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False


class OneName:
    """What DNS or a load balancer does: a connection goes to the region whose health check passes."""

    def __init__(self, regions: Mapping[str, DemoRegion], *, ports: Mapping[str, int]) -> None:
        self._regions = regions
        self._ports = ports
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.StreamWriter, str] = {}
        self.port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._carry, LOOPBACK, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self, region: str) -> None:
        """A machine that is gone closes nothing; what stands in between says so after a while, here at once."""
        for writer, where in list(self._open.items()):
            if where == region:
                writer.transport.abort()

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for region in self._regions:
            self.cut(region)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for name, region in self._regions.items():
                if not await region.is_healthy():
                    continue
                there, back = await asyncio.open_connection(LOOPBACK, self._ports[name])
                self._open |= {writer: name, back: name}
                try:
                    await asyncio.gather(_copied(reader, back), _copied(there, writer))
                finally:
                    for each in (writer, back):
                        self._open.pop(each, None)
                return
        except OSError:
            return
        finally:
            writer.close()


async def _copied(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(CHUNK_BYTES):
            target.write(data)
            await target.drain()
    target.close()
