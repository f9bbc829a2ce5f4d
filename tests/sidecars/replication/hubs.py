"""Two hubs of a pair on stores of their own: what a principal gives to replication, without the rest of it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import sidecars.wire  # noqa: F401  isort: skip

from grpc import aio

from argocd import names
from certs.key_pair import Material
from kube.cache import Cache
from kube.embedded import EmbeddedStore
from kube.projections import without_managed_fields
from kube.resources import (
    APP_PROJECTS,
    APPLICATION_SETS,
    APPLICATIONS,
    CONFIG_MAPS,
    SECRETS,
)
from kube.store import Object, Resource, Store
from sidecars.delivery.timing import Timing
from sidecars.mirroring.kinds import GPG_KEYS_ONLY, REPOSITORIES
from sidecars.principal.state import CLUSTERS
from sidecars.replication.access import ReplicationAccess
from sidecars.replication.handshake import Handshake
from sidecars.replication.kinds import (
    APPLICATION,
    CLUSTER,
    GPG_KEYS,
    PROJECT,
    REPOSITORY,
    ReplicatedKind,
    ReplicationScope,
)
from sidecars.replication.objects import ReplicatedObjects, own_caches
from sidecars.replication.peer import PeerLink
from sidecars.replication.primary.go_replica import GoReplicas, GoRouting
from sidecars.replication.primary.service import ReplicationService
from sidecars.replication.primary.session import SessionLimits
from sidecars.replication.primary.source import ReplicationSource
from sidecars.replication.standby.connection import GrpcConnector
from sidecars.replication.standby.follower import Follower
from sidecars.replication.states import HaState
from sidecars.wire.auth.methods import certificate_method
from sidecars.wire.auth.trust import Trust
from sidecars.wire.tls import ServerCredentials
from tests.sidecars.wire import pki
from tiphys import metrics

ARGOCD = "argocd"
SCOPE = ReplicationScope(namespace=ARGOCD, allowed_namespaces=("agent-*",))
PATIENCE = 60.0


class ScriptedController:
    """What a principal of the pair says of itself, and what it was told."""

    def __init__(self, principal: str, state: HaState, *, epoch: int = 1, history: str = "") -> None:
        self.handshake = Handshake(
            pair="pair-1",
            principal=principal,
            state=state,
            epoch=epoch,
            history=history,
            namespace=ARGOCD,
            mapping="namespace",
            allowed_namespaces=SCOPE.allowed_namespaces,
            authorities=("authority-1",),
        )
        self.told: list[str] = []
        self.heard_of: list[Handshake] = []

    @property
    def serves_replicas(self) -> bool:
        return self.handshake.state is HaState.ACTIVE

    def called(self, _identity: str, caller: Handshake) -> None:
        self.heard(caller)

    def heard(self, peer: Handshake) -> None:
        self.heard_of.append(peer)

    def syncing(self) -> None:
        self.told.append("syncing")

    def in_sync(self) -> None:
        self.told.append("in sync")

    def disconnected(self, reason: str) -> None:
        self.told.append(f"disconnected: {reason}")

    def say(self, **changes: Any) -> None:
        self.handshake = replace(self.handshake, **changes)


def all_caches(
    store: Store, timing: Timing, *, namespace: str = ARGOCD
) -> dict[ReplicatedKind, Cache[Object]]:
    cache = partial(
        Cache[Object],
        store,
        projection=without_managed_fields,
        clock=timing.monotonic,
        random=timing.random,
    )
    return {
        PROJECT: cache(APP_PROJECTS, namespace=namespace),
        APPLICATION: cache(APPLICATIONS),
        REPOSITORY: cache(SECRETS, namespace=namespace, label_selector=REPOSITORIES),
        CLUSTER: cache(SECRETS, namespace=namespace, label_selector=CLUSTERS),
        GPG_KEYS: cache(CONFIG_MAPS, namespace=namespace, field_selector=GPG_KEYS_ONLY),
        **own_caches(store, namespace=namespace, timing=timing),
    }


@dataclass
class Hub:
    """A cluster of the pair and what its principal keeps of it."""

    store: Store
    timing: Timing = field(default_factory=Timing)
    scope: ReplicationScope = SCOPE

    def __post_init__(self) -> None:
        self.caches = all_caches(self.store, self.timing, namespace=self.scope.namespace)
        self.objects = ReplicatedObjects(self.caches, scope=self.scope)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Hub"]:
        tasks = [asyncio.ensure_future(cache.run()) for cache in self.caches.values()]
        try:
            async with asyncio.timeout(PATIENCE):
                await self.objects.synced()
            yield self
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def embedded() -> EmbeddedStore:
    return EmbeddedStore(namespaces=(ARGOCD, "agent-a", "agent-b"))


AUTHORITY = pki.issue("authority", authority=True)


def certificate(name: str, *, issuer: pki.Issued = AUTHORITY) -> Material:
    issued = pki.issue(name, issuer, usage=(pki.CLIENT, pki.SERVER))
    return Material(pair=issued.pair(), roots=issuer.pem)


class Listening:
    """The primary's port, with the replication service alone."""

    def __init__(
        self,
        source: ReplicationSource,
        controller: ScriptedController,
        *,
        allowed: frozenset[str] = frozenset({"standby"}),
        agents: frozenset[str] = frozenset({"agent-a"}),
        go_replicas: GoReplicas | None = None,
    ) -> None:
        material = certificate("primary")
        self.trust = Trust(AUTHORITY.pem, now=lambda: datetime.now(UTC))
        access = ReplicationAccess(
            method=certificate_method("subject:CN=([^,]+)"),
            trust=self.trust,
            allowed=allowed,
            is_agent=agents.__contains__,
        )
        self.service = ReplicationService(
            source,
            controller=controller,
            access=access,
            monotonic=Timing().monotonic,
            go_replicas=go_replicas,
        )
        self._credentials = ServerCredentials(material, require_client_certificate=True)
        self._server: Any = None
        self.port = 0

    def swap(self, material: Material) -> None:
        """What the next handshake sees."""
        self._credentials.swap(material)

    async def start(self) -> None:
        self._server = aio.server(options=[("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers(self.service.handlers())
        self.port = self._server.add_secure_port(f"127.0.0.1:{self.port}", self._credentials.grpc)
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(0)


class Pair:
    """A primary and a standby over grpc with certificates; both ends can be ended and begun anew."""

    def __init__(
        self,
        primary: Hub,
        standby: Hub,
        *,
        limits: SessionLimits | None = None,
        log_bytes: int = 64 << 20,
        routing: GoRouting | None = None,
        holding: Callable[[], bool] = lambda: False,
        **listening: Any,
    ) -> None:
        self.primary, self.standby = primary, standby
        self.active = ScriptedController("one", HaState.ACTIVE, history="h1")
        self.passive = ScriptedController("two", HaState.SYNCING, epoch=0)
        self.source = ReplicationSource(
            primary.objects, timing=primary.timing, limits=limits, log_bytes=log_bytes
        )
        go_replicas = None
        if routing is not None:
            go_replicas = GoReplicas(
                primary.objects,
                store=primary.store,
                current_log=self.source.current_log,
                routing=routing,
                principal_uid="principal-1",
                now=primary.timing.now,
                holding=holding,
            )
        self.listening = Listening(self.source, self.active, go_replicas=go_replicas, **listening)
        self.follower = self.new_follower()
        self.link: PeerLink | None = None

    def new_follower(self, *, name: str = "standby", **options: Any) -> Follower:
        self.material = certificate(name)
        return Follower(
            self.standby.store,
            self.standby.objects,
            controller=self.passive,
            connect=self._connect,
            timing=self.standby.timing,
            **options,
        )

    def _connect(self, start: Any) -> Any:
        if self.link is None:
            self.link = PeerLink(
                f"localhost:{self.listening.port}", self.material, mine=lambda: self.passive.handshake
            )
        return GrpcConnector(self.link.channel, controller=self.passive)(start)

    @asynccontextmanager
    async def running(self, *, following: bool = True) -> AsyncIterator["Pair"]:
        async with self.primary.running(), self.standby.running():
            await self.source.start(epoch=1, history="h1")
            await self.listening.start()
            await self.follower.load()
            if following:
                await self.follower.start()
            try:
                yield self
            finally:
                await self.follower.stop()
                if self.link is not None:
                    await self.link.close()
                await self.source.stop()
                await self.listening.stop()

    async def equal(self) -> None:
        """Returns when both hubs have the same, the primary knows it and the standby has said so."""

        def holds() -> bool:
            acknowledged = [replica.acknowledged for replica in self.source.replicas()]
            return (
                self.primary.objects.digests() == self.standby.objects.digests()
                and acknowledged == [self.source.last_sequence]
                and self.passive.told[-1:] == ["in sync"]
            )

        await until(holds)


async def until(holds: Callable[[], Any], *, seconds: float = PATIENCE) -> None:
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 - of two processes at once
            await asyncio.sleep(0.01)


# Objects.


def figure(name: str) -> float:
    """A metric without labels, of this process."""
    return metrics.REGISTRY.get_sample_value(name) or 0.0


def application(name: str, *, revision: str = "HEAD", **fields: Any) -> Object:
    spec = {
        "project": "default",
        "source": {"repoURL": "https://git/x", "path": name, "targetRevision": revision},
        "destination": {"name": "agent-a", "namespace": "apps"},
    }
    return {"metadata": {"name": name}, "spec": spec, **fields}


async def create(store: Store, resource: Resource, body: Object, *, namespace: str = ARGOCD) -> Object:
    return await store.create(resource, body, namespace=namespace)


async def fill(store: Store, count: int, *, prefix: str = "app") -> None:
    for number in range(count):
        await create(store, APPLICATIONS, application(f"{prefix}-{number:05}"), namespace="agent-a")


def cluster_secret(agent: str, *, token: str = "") -> Object:
    config = f'{{"bearerToken":"{token}","tlsClientConfig":{{}}}}' if token else "{}"
    return {
        "metadata": {
            "name": f"cluster-{agent}",
            "labels": {names.SECRET_TYPE: names.SECRET_TYPE_CLUSTER, names.AGENT_NAME: agent},
        },
        "stringData": {"name": agent, "server": f"https://proxy?agentName={agent}", "config": config},
    }


async def everything(store: Store) -> None:
    """One of each kind."""
    await create(store, APP_PROJECTS, {"metadata": {"name": "team"}, "spec": {"sourceRepos": ["*"]}})
    await create(store, APPLICATION_SETS, {"metadata": {"name": "set"}, "spec": {"generators": []}})
    for kind in (names.SECRET_TYPE_REPOSITORY, names.SECRET_TYPE_REPO_CREDS):
        labels = {names.SECRET_TYPE: kind}
        secret = {"metadata": {"name": f"the-{kind}", "labels": labels}, "stringData": {"url": "https://git"}}
        await create(store, SECRETS, secret)
    await create(store, SECRETS, cluster_secret("agent-a", token="secret-token"))
    for name in (names.ARGOCD_GPG_KEYS_CM, names.AGENT_MODES, names.TLS_BLOCKLIST):
        await create(store, CONFIG_MAPS, {"metadata": {"name": name}, "data": {"key": name}})
    await create(store, APPLICATIONS, application("web"), namespace="agent-a")
