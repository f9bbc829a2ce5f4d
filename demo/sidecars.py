"""Principal and agents in this process, joined by gRPC with mutual TLS on loopback."""

import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from argocd import names
from argocd.agents.vocabulary import Mode
from certs.authority import Authority, LeafSubject
from certs.folder import BUNDLE, CERTIFICATE, KEY, publish
from certs.sources import Files
from demo.clusters import CONTROL_PLANE, DemoClusters
from kube.resources import SECRETS
from kube.store import Identity
from sidecars.agent.process import AgentOptions, AgentProcess
from sidecars.agent.settings import AgentSettings
from sidecars.principal.process import VERSION, PrincipalOptions, PrincipalProcess
from sidecars.principal.settings import PrincipalSettings
from sidecars.wire.auth.methods import certificate_method
from sidecars.wire.auth.tokens import Tokens, generate_key
from sidecars.wire.client.dialer import DialOptions
from tiphys.running import Running

LOOPBACK = "127.0.0.1"
CONNECT_SECONDS = 30.0
NAMESPACE = names.DEFAULT_NAMESPACE
PRINCIPAL = Identity(f"system:serviceaccount:{NAMESPACE}:tiphys-principal", ("system:serviceaccounts",))
AGENT = Identity(f"system:serviceaccount:{NAMESPACE}:tiphys-agent", ("system:serviceaccounts",))


class DemoFleet:
    """One principal on the control plane; agents come and go, each with the account that manifests/ gives it."""

    def __init__(self, running: Running, clusters: DemoClusters, *, folder: Path) -> None:
        self._running = running
        self._clusters = clusters
        self._folder = folder
        self._authority = Authority.create("demonstration", now=datetime.now(UTC))
        self._principal: PrincipalProcess | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Before their clusters: agents say goodbye, Leases are given back."""
        for name in reversed(list(self._tasks)):
            await self.stop(name)

    async def start_principal(self, *, agents: tuple[str, ...]) -> None:
        """Knows the agents by the cluster Secrets that the control plane's Argo CD has of them."""
        for name in agents:
            await self._clusters.stores[CONTROL_PLANE].create(SECRETS, _cluster(name), namespace=NAMESPACE)
        options = PrincipalOptions(
            settings=PrincipalSettings(namespace=NAMESPACE, allowed_namespaces=agents),
            method=certificate_method("CN=([^,]+)"),
            tokens=Tokens(generate_key(), now=time.time),
            source=self._certificate(LeafSubject("localhost", dns_names=["localhost"]), server=True),
            host=LOOPBACK,
            port=0,
            health_host=LOOPBACK,
            health_port=0,
            metrics_port=0,
            pages_port=0,
        )
        process = PrincipalProcess(await self._clusters.as_user(CONTROL_PLANE, PRINCIPAL), options)
        self._tasks["principal"] = self._running.start(process.run(), name="principal")
        async with asyncio.timeout(CONNECT_SECONDS):
            await process.listening.wait()
        self._principal = process

    @property
    def page(self) -> str:
        assert self._principal is not None, "the principal is started first"
        return f"http://{LOOPBACK}:{self._principal.pages.port}/"

    async def start_agent(self, name: str, *, mode: Mode) -> None:
        """On the cluster of its name; returns when it is connected."""
        assert self._principal is not None, "the principal is started first"
        options = AgentOptions(
            settings=AgentSettings(mode=mode, namespace=NAMESPACE),
            dialing=DialOptions(
                host="localhost",
                port=self._principal.port,
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

    async def stop(self, name: str) -> None:
        task = self._tasks.pop(name)
        task.cancel()
        await asyncio.wait({task})

    def _certificate(self, subject: LeafSubject, *, server: bool) -> Files:
        folder = self._folder / subject.common_name
        pair = self._authority.issue(subject, now=datetime.now(UTC), server=server, client=not server)
        authority = self._authority.pair.certificate
        publish(folder, {CERTIFICATE: pair.certificate, KEY: pair.key, BUNDLE: authority})
        return Files(certificate=folder / CERTIFICATE, key=folder / KEY, authorities=folder / BUNDLE)


def _cluster(name: str) -> dict[str, object]:
    return {
        "metadata": {
            "name": f"{names.AGENT_CLUSTER_SECRET_PREFIX}{name}",
            "labels": {names.SECRET_TYPE: names.SECRET_TYPE_CLUSTER, names.AGENT_NAME: name},
        },
        "stringData": {"name": name, "server": f"https://{name}.example.org", "config": "{}"},
    }
