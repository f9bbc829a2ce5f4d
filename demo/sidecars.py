"""Sidecars in this process, joined by gRPC with mutual TLS on loopback: a principal in each region, of which one is
active, and an agent for each workload cluster.
"""

import asyncio
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Self

from argocd import names
from argocd.agents.vocabulary import Mode
from certs.authority import Authority, LeafSubject
from certs.folder import BUNDLE, CERTIFICATE, KEY, publish
from certs.sources import Files
from demo.clusters import AUTONOMOUS, CONTROL_PLANE, MANAGED, SECOND_REGION, DemoClusters
from demo.ports import LOOPBACK, free_port
from demo.regions import DemoRegion, OneName
from kube.resources import SECRETS
from kube.store import Identity
from sidecars.agent.process import AgentOptions, AgentProcess
from sidecars.agent.settings import AgentSettings
from sidecars.principal.process import VERSION, PrincipalOptions
from sidecars.principal.settings import PrincipalSettings
from sidecars.replication.control.settings import HaSettings, PreferredRole
from sidecars.wire.auth.methods import certificate_method
from sidecars.wire.auth.tokens import Tokens, generate_key
from sidecars.wire.client.dialer import DialOptions
from tiphys.running import Running

CONNECT_SECONDS = 30.0
NAMESPACE = names.DEFAULT_NAMESPACE
PRINCIPAL = Identity(f"system:serviceaccount:{NAMESPACE}:tiphys-principal", ("system:serviceaccounts",))
AGENT = Identity(f"system:serviceaccount:{NAMESPACE}:tiphys-agent", ("system:serviceaccounts",))
AGENTS = (MANAGED, AUTONOMOUS)
ROLES = {CONTROL_PLANE: PreferredRole.PRIMARY, SECOND_REGION: PreferredRole.REPLICA}


class DemoFleet:
    """Everybody has the account that manifests/ gives him. Agents come and go, and dial one name."""

    def __init__(self, running: Running, clusters: DemoClusters, *, folder: Path) -> None:
        self._running = running
        self._clusters = clusters
        self._folder = folder
        self._authority = Authority.create("demonstration", now=datetime.now(UTC))
        self._tokens = Tokens(generate_key(), now=time.time)
        self.regions: dict[str, DemoRegion] = {}
        self._ports = {cluster: free_port() for cluster in ROLES}
        self._name = OneName(self.regions, ports=self._ports)
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.end()

    async def end(self) -> None:
        """Before their clusters, and before the webhook that is asked: agents say goodbye, Leases are given back."""
        for name in reversed(list(self._tasks)):
            await self.stop_agent(name)
        await self._name.stop()
        await asyncio.gather(*(region.stop() for region in self.regions.values()))

    async def start_principals(self) -> None:
        """Returns when one serves and the other follows. Agents are known by the cluster Secrets that Argo CD has of them."""
        for cluster in ROLES:
            store = await self._clusters.as_user(cluster, PRINCIPAL)
            certificate = self._certificate(
                LeafSubject(_identity(cluster), dns_names=["localhost"]), server=True
            )
            self.regions[cluster] = DemoRegion(
                cluster, store, partial(self._options, cluster, certificate), running=self._running
            )
        await self._name.start()
        await asyncio.gather(*(region.start() for region in self.regions.values()))
        await self.regions[CONTROL_PLANE].until("active")
        for name in AGENTS:
            await self._clusters.stores[CONTROL_PLANE].create(SECRETS, _cluster(name), namespace=NAMESPACE)
        await self.regions[SECOND_REGION].until("replicating")

    def _options(self, cluster: str, certificate: Files) -> PrincipalOptions:
        peer = next(other for other in ROLES if other != cluster)
        return PrincipalOptions(
            settings=PrincipalSettings(namespace=NAMESPACE, allowed_namespaces=AGENTS),
            method=certificate_method("CN=([^,]+)"),
            tokens=self._tokens,
            source=certificate,
            host=LOOPBACK,
            port=self._ports[cluster],
            health_host=LOOPBACK,
            health_port=0,
            metrics_port=0,
            pages_port=0,
            # The same in each life: nobody has to wait for the Lease of one that is gone for certain.
            identity=_identity(cluster),
            ha=HaSettings(
                preferred_role=ROLES[cluster],
                peer_address=f"localhost:{self._ports[peer]}",
                allowed_clients=frozenset({_identity(peer)}),
                admin_port=0,
            ),
        )

    async def kill_principal(self, cluster: str) -> None:
        region = self.regions[cluster]
        self._name.cut(cluster)
        await region.kill()

    def page(self, cluster: str) -> str:
        process = self.regions[cluster].process
        assert process is not None, "the principals are started first"
        return f"http://{LOOPBACK}:{process.pages.port}/"

    async def start_agent(self, name: str, *, mode: Mode) -> None:
        """On the cluster of its name; returns when it is connected."""
        options = AgentOptions(
            settings=AgentSettings(mode=mode, namespace=NAMESPACE),
            dialing=DialOptions(
                host="localhost",
                port=self._name.port,
                mode=mode,
                namespace=NAMESPACE,
                version=VERSION,
            ),
            source=self._certificate(LeafSubject(name), server=False),
            health_host=LOOPBACK,
            health_port=0,
            metrics_port=0,
        )
        process = AgentProcess(await self._clusters.as_user(name, AGENT), options)
        self._tasks[name] = self._running.start(process.run(), name=f"agent {name}")
        async with asyncio.timeout(CONNECT_SECONDS):
            await process.connected.wait()

    async def stop_agent(self, name: str) -> None:
        task = self._tasks.pop(name)
        task.cancel()
        await asyncio.wait({task})

    def _certificate(self, subject: LeafSubject, *, server: bool) -> Files:
        """A principal's is one of a client too: it asks its peer."""
        folder = self._folder / subject.common_name
        pair = self._authority.issue(subject, now=datetime.now(UTC), server=server, client=True)
        authority = self._authority.pair.certificate
        publish(folder, {CERTIFICATE: pair.certificate, KEY: pair.key, BUNDLE: authority})
        return Files(certificate=folder / CERTIFICATE, key=folder / KEY, authorities=folder / BUNDLE)


def _identity(cluster: str) -> str:
    return f"principal-of-{cluster}"


def _cluster(name: str) -> dict[str, object]:
    return {
        "metadata": {
            "name": f"{names.AGENT_CLUSTER_SECRET_PREFIX}{name}",
            "labels": {names.SECRET_TYPE: names.SECRET_TYPE_CLUSTER, names.AGENT_NAME: name},
        },
        "stringData": {"name": name, "server": f"https://{name}.example.org", "config": "{}"},
    }
