"""Two hubs and a workload cluster with real API servers: principals and an agent as processes that can be killed,
and one name for agents that follows the health checks.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self

from argocd import names
from kube.live import LiveStore
from scripts.cluster.controlplane import Cluster
from scripts.ports import free_port
from sidecars.fleet.ha_client import HaClient
from sidecars.wire.generated import hacontrol_pb2
from tests.cluster.installation import MANIFESTS, tiphys
from tests.sidecars.processes import fetch
from tests.webhook.conftest import ROOT
from tests.webhook.webhook_process import environment
from tiphys.errors import TiphysError

ARGOCD, AGENT = "argocd", "prod"
PATIENCE = 90.0  # a Lease of somebody who was killed runs for 15 s; the machine is shared


def word(**more: Any) -> Any:
    return hacontrol_pb2.Word(who="test", reason="a test", **more)


@asynccontextmanager
async def connected(kubeconfig: Path) -> AsyncIterator[LiveStore]:
    store = await LiveStore.connect(kubeconfig=kubeconfig)
    try:
        yield store
    finally:
        await store.close()


class Hub:
    """One principal, its cluster and its ports."""

    def __init__(self, name: str, cluster: Cluster, folder: Path) -> None:
        self.name = name
        self.cluster = cluster
        self._folder = folder
        self.port, self.health, self.admin_port = free_port(), free_port(), free_port()
        self.peer: Hub
        self.process: subprocess.Popen[bytes] | None = None
        self.admin = HaClient(address=f"127.0.0.1:{self.admin_port}")
        self.log = folder / f"principal-{name}.log"

    def install(self) -> None:
        self.cluster.create_namespace(ARGOCD)
        self.cluster.create_namespace(AGENT)
        self.cluster.kubectl("apply", "--server-side", "-k", str(MANIFESTS / "standby"))
        self._account = self.cluster.kubeconfig_of_account("tiphys-principal", namespace=ARGOCD)

    def start(self, *more: str, role: str = "primary", through: int = 0) -> None:
        """`through`: a port by which it reaches its peer."""
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "cli", "principal", "--kubeconfig", str(self._account)),
                *("--listen-host", "127.0.0.1", "--listen-port", str(self.port)),
                *("--metrics-port", "0", "--healthz-port", str(self.health), "--agents-port", "0"),
                *("--allowed-namespaces", "*", "--disable-redis-proxy", "--ha-enabled"),
                *("--ha-preferred-role", role, "--ha-peer-address", f"localhost:{through or self.peer.port}"),
                *("--ha-allowed-replication-clients", f"principal-{self.peer.name}"),
                *("--ha-admin-port", str(self.admin_port), *more),
            ],
            stderr=self.log.open("ab"),
            env=environment(),
            cwd=ROOT,
        )

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        """As kill -9."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(timeout=30)
            self.process = None

    def end(self) -> None:
        """As a node that is drained."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(timeout=60)
            self.process = None

    async def health_check(self) -> int:
        with suppress(OSError, ValueError, IndexError):
            return (await fetch(self.health, "/healthz"))[0]
        return 0

    async def status(self) -> dict[str, Any]:
        try:
            return await self.admin.status()
        except TiphysError as error:
            return {"state": "down", "reason": str(error)}

    async def until(
        self, *states: str, so: Callable[[dict[str, Any]], Any] = lambda _: True
    ) -> dict[str, Any]:
        told: dict[str, Any] = {}
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    told = await self.status()
                    if told["state"] in states and so(told):
                        return told
                    assert self.process is None or self.process.poll() is None, self.log.read_text()[-3000:]
                    await asyncio.sleep(0.1)
        except TimeoutError:
            words = json.dumps({key: told.get(key) for key in ("state", "detail", "reason", "fence_problem")})
            tail = self.log.read_text()[-3000:]
            raise AssertionError(f"{self.name} is not {states}: {words}\n{tail}") from None

    @asynccontextmanager
    async def store(self) -> AsyncIterator[LiveStore]:
        """An operator's, who may write on a standby too."""
        emergency = self.cluster.kubeconfig_of("jo", groups=("system:masters", "tiphys:break-glass"))
        async with connected(emergency) as store:
            yield store


class Forwarder:
    """A port of ours in front of others'; what it carries can be cut."""

    def __init__(self) -> None:
        self.port = 0
        self.is_cut = False
        self._open: set[asyncio.StreamWriter] = set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Self]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            self.cut()

    def cut(self) -> None:
        self.is_cut = True
        for writer in list(self._open):
            writer.transport.abort()

    async def target(self) -> int | None:
        raise NotImplementedError

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            port = None if self.is_cut else await self.target()
            if port is not None:
                there, back = await asyncio.open_connection("127.0.0.1", port)
                self._open.add(back)
                await asyncio.gather(_copied(reader, back), _copied(there, writer))
                self._open.discard(back)
        except OSError:
            return
        finally:
            writer.close()
            self._open.discard(writer)


class OneName(Forwarder):
    """What DNS does for agents: a connection goes to whichever principal's health check says 200."""

    def __init__(self, *hubs: Hub) -> None:
        super().__init__()
        self._hubs = hubs

    async def target(self) -> int | None:
        for hub in self._hubs:
            if await hub.health_check() == HTTPStatus.OK:
                return hub.port
        return None


class Link(Forwarder):
    """The way of one principal to the other."""

    def __init__(self, hub: Hub) -> None:
        super().__init__()
        self._hub = hub

    async def target(self) -> int | None:
        return self._hub.port


async def _copied(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
    target.close()


class PairOfHubs:
    def __init__(self, a: Hub, b: Hub, folder: Path) -> None:
        self.a, self.b = a, b
        self._folder = folder
        a.peer, b.peer = b, a

    def equip(self) -> None:
        """By the commands that the docs name; the second region gets what the first has made."""
        for hub in (self.a, self.b):
            hub.install()
        tiphys(self.a.cluster, "pki", "init")
        folder = self._folder / "principal-b"
        names_of = ("--dns", "localhost")
        tiphys(self.a.cluster, "pki", "issue", "principal", "--identity", "principal-a", *names_of)
        tiphys(
            self.a.cluster,
            *("pki", "issue", "principal", "--identity", "principal-b", *names_of, "--output", str(folder)),
        )
        secret = ("create", "secret", "--namespace", ARGOCD)
        pair = (f"--cert={folder / 'tls.crt'}", f"--key={folder / 'tls.key'}")
        self.b.cluster.kubectl(*secret, "tls", "argocd-agent-principal-tls", *pair)
        self.b.cluster.kubectl(
            *secret, "generic", "argocd-agent-ca", f"--from-file=ca.crt={folder / 'ca.crt'}"
        )
        key = json.loads(
            self.a.cluster.kubectl("get", "secret", "-n", ARGOCD, "argocd-agent-jwt", "-o", "json").stdout
        )
        key["metadata"] = {"name": "argocd-agent-jwt", "namespace": ARGOCD}
        self.b.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(key))

    def kill(self) -> None:
        for hub in (self.a, self.b):
            hub.kill()


class PairWithWorkload(PairOfHubs):
    """And one agent, on a cluster of its own."""

    def __init__(self, a: Hub, b: Hub, workload: Cluster, folder: Path) -> None:
        super().__init__(a, b, folder)
        self.workload = workload

    def equip_agent(self, hub: Hub) -> None:
        """Once a principal serves: before that the fence keeps everybody out."""
        folder = self._folder / "agent"
        tiphys(hub.cluster, "agents", "create", AGENT, "--mode", "managed")
        tiphys(self.a.cluster, "pki", "issue", "agent", AGENT, "--output", str(folder))
        self.workload.create_namespace(ARGOCD)
        self.workload.kubectl("apply", "--server-side", "-k", str(MANIFESTS / "workload-managed"))
        secret = ("create", "secret", "--namespace", ARGOCD)
        pair = (f"--cert={folder / 'tls.crt'}", f"--key={folder / 'tls.key'}")
        self.workload.kubectl(*secret, "tls", "argocd-agent-client-tls", *pair)
        self.workload.kubectl(
            *secret, "generic", "argocd-agent-ca", f"--from-file=ca.crt={folder / 'ca.crt'}"
        )

    @contextmanager
    def agent(self, name: OneName) -> Iterator[None]:
        account = self.workload.kubeconfig_of_account("tiphys-agent", namespace=ARGOCD)
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "cli", "agent", "--kubeconfig", str(account)),
                *("--agent-mode", "managed", "--creds", "mtls:any"),
                *("--server-address", "localhost", "--server-port", str(name.port)),
                *("--metrics-port", "0", "--healthz-port", "0"),
            ],
            stderr=(self._folder / "agent.log").open("ab"),
            env=environment(),
            cwd=ROOT,
        )
        try:
            yield
            assert process.poll() is None, (self._folder / "agent.log").read_text()[-3000:]
        finally:
            process.kill()
            process.wait(timeout=30)

    @asynccontextmanager
    async def at_workload(self) -> AsyncIterator[LiveStore]:
        async with connected(self.workload.kubeconfig) as store:
            yield store


def record_of(hub: Hub) -> dict[str, str]:
    path = f"/api/v1/namespaces/{ARGOCD}/configmaps/{names.HA_RECORD}"
    data: dict[str, str] = hub.cluster.request("GET", path)["data"]
    return data


async def equal(active: Hub, standby: Hub) -> dict[str, Any]:
    """The standby has all, and a comparison says so."""
    await standby.until("replicating")

    def compared(told: dict[str, Any]) -> bool:
        (replica,) = [each for each in told["replicas"] if each["connected"]] or [{}]
        digests = replica.get("digests_equal") or {}
        return bool(digests) and all(digests.values()) and replica["lag_events"] == 0

    return await active.until("active", so=compared)
