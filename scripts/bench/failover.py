"""A region is gone: how soon the other serves once an operator says so, and its agents are back.

Two real API servers with the fence that the manifests install, both principals in processes of their own. Agents are
streams without stores, and dial one port that leads to whichever principal the health check names.
"""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, asynccontextmanager, suppress
from ctypes import c_int
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from kube.live import LiveStore
from kube.resources import APPLICATIONS, SECRETS
from kube.store import Object, Resource, Store
from scripts.bench.figures import Figure
from scripts.bench.fleet import AGENTS, CONNECT_GOAL, Crowd, agent_name
from scripts.bench.live_sidecars import run_with_store
from scripts.bench.paired import application, tell
from scripts.bench.sidecar_processes import (
    NAMESPACE,
    SPAWN,
    Papers,
    child,
    cluster_secret,
    principal_of,
    quiet,
)
from scripts.cluster.controlplane import Cluster
from scripts.ports import free_port
from sidecars.fleet.ha_client import HaClient
from sidecars.replication.control.settings import HaSettings, PreferredRole
from sidecars.wire.generated import hacontrol_pb2
from tiphys.errors import TiphysError

NAME = "failover: a pair on two API servers with its fence, 10 000 Applications, 1 000 agents"

MANY = 10_000
PROMOTION_GOAL = 2.0
WRITERS = 16
WITHIN = 400.0
ABSENT = "agent-absent"
"""Whose Applications they are: nobody asks for them."""
MANIFESTS = Path(__file__).parents[2] / "manifests" / "overlays" / "standby"


@dataclass(frozen=True, slots=True)
class Region:
    """One principal of the pair: what its process is told."""

    name: str
    kubeconfig: str
    port: int
    health: int
    admin: int

    @property
    def identity(self) -> str:
        return f"principal-{self.name}"

    @property
    def client(self) -> HaClient:
        return HaClient(address=f"127.0.0.1:{self.admin}")

    async def healthy(self, promotion: asyncio.Future[Any]) -> None:
        async with asyncio.timeout(WITHIN):
            while not await self._is_healthy():
                if promotion.done():
                    promotion.result()
                await asyncio.sleep(0.01)

    async def _is_healthy(self) -> bool:
        with suppress(OSError, IndexError):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.health)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            status = (await reader.readline()).split()[1]
            writer.close()
            return int(status) == HTTPStatus.OK
        return False

    async def until(self, state: str, so: Callable[[dict[str, Any]], Any] = lambda _: True) -> dict[str, Any]:
        async with asyncio.timeout(WITHIN):
            while True:
                with suppress(TiphysError):
                    told = await self.client.status()
                    if told["state"] == state and so(told):
                        return told
                await asyncio.sleep(0.1)


def run_principal(folder: str, here: Region, there: Region, role: str) -> None:
    async def serve(store: Store) -> None:
        ha = HaSettings(
            preferred_role=PreferredRole(role),
            peer_address=f"localhost:{there.port}",
            allowed_clients=frozenset({there.identity}),
            admin_port=here.admin,
        )
        papers = Papers(Path(folder))
        await principal_of(
            store, papers, port=here.port, identity=here.identity, health_port=here.health, ha=ha
        ).run()

    run_with_store(here.kubeconfig, serve)


def run_name(port: int, target: Any) -> None:
    """Connections go to where the target says at that moment."""
    quiet()

    async def copied(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
        sink.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", target.value)
        except OSError:
            writer.close()
            return
        await asyncio.gather(copied(reader, back), copied(there, writer))

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", port, backlog=AGENTS)
        await server.serve_forever()

    asyncio.run(main())


def run() -> list[Figure]:
    """In a process of its own: grpc stays with the first event loop of a process."""
    with ProcessPoolExecutor(1, mp_context=SPAWN) as pool:
        return pool.submit(_run).result()


def _run() -> list[Figure]:
    quiet()
    return asyncio.run(_measured())


async def _measured() -> list[Figure]:
    tell("two API servers start")
    with (
        tempfile.TemporaryDirectory() as folder,
        Cluster(name="bench-a") as first,
        Cluster(name="bench-b") as second,
        ExitStack() as primary,
    ):
        papers = Papers.write(Path(folder))
        a, b = (_equipped(cluster, papers, name) for cluster, name in ((first, "a"), (second, "b")))
        name, target = free_port(), SPAWN.Value(c_int, a.port)
        with child(run_name, name, target), child(run_principal, folder, b, a, "replica"):
            primary.enter_context(child(run_principal, folder, a, b, "primary"))
            await a.until("active", so=lambda told: told["fenced"])
            await _furnish(first)
            crowd = Crowd(papers, name)
            async with _joined(crowd):
                tell("everybody catches up")
                await crowd.complete()
                await a.until("active", so=_is_whole)
                crowd.restart()
                primary.close()  # killed
                await b.until("disconnected")
                tell("promotion")
                began = time.perf_counter()
                promotion = asyncio.ensure_future(b.client.change_role("Promote", _word()))
                await b.healthy(promotion)
                promoted = time.perf_counter() - began
                target.value = b.port  # as a name whose health check has changed
                await promotion
                await crowd.complete()
                back = time.perf_counter() - began - promoted
    return [
        Figure(f"promotion to /healthz 200 with {MANY:,} Applications", promoted, "s", goal=PROMOTION_GOAL),
        Figure(f"{AGENTS:,} agents on the new active one", back, "s", goal=CONNECT_GOAL),
    ]


def _equipped(cluster: Cluster, papers: Papers, name: str) -> Region:
    for namespace in (NAMESPACE, ABSENT):
        cluster.create_namespace(namespace)
    cluster.kubectl("apply", "--server-side", "-k", str(MANIFESTS))
    region = Region(
        name,
        str(cluster.kubeconfig_of_account("tiphys-principal", namespace=NAMESPACE)),
        *(free_port() for _ in range(3)),
    )
    papers.keep_principal(region.identity)
    return region


async def _furnish(active: Cluster) -> None:
    tell(f"{MANY} Applications")
    store = await LiveStore.connect(kubeconfig=active.kubeconfig)
    turns = asyncio.Semaphore(WRITERS)

    async def create(resource: Resource, body: Object, namespace: str) -> None:
        async with turns:
            await store.create(resource, body, namespace=namespace)

    try:
        async with asyncio.TaskGroup() as group:
            for number in range(AGENTS):
                group.create_task(create(SECRETS, cluster_secret(agent_name(number)), NAMESPACE))
            for number in range(MANY):
                group.create_task(create(APPLICATIONS, application(f"app-{number}"), ABSENT))
    finally:
        await store.close()


@asynccontextmanager
async def _joined(crowd: Crowd) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(crowd.join(number)) for number in range(AGENTS)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _is_whole(told: dict[str, Any]) -> bool:
    """The replica has everything, and a comparison said so."""
    replica: dict[str, Any] = next((each for each in told["replicas"] if each["connected"]), {})
    equal = replica.get("digests_equal") or {}
    return bool(equal) and all(equal.values()) and replica["lag_events"] == 0


def _word() -> Any:
    return hacontrol_pb2.Word(who="bench", reason="a benchmark")
