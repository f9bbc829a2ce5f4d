"""A primary's and a standby's side of replication, as processes of their own between two real API servers."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from uuid import uuid4

from grpc import aio

from certs.key_pair import KeyPair, Material
from kube.cache import Cache
from kube.live import LiveStore
from kube.projections import without_managed_fields
from kube.resources import APP_PROJECTS, APPLICATIONS, CONFIG_MAPS, SECRETS
from kube.store import Object, Store
from scripts.bench.paired import AGENT
from scripts.bench.sidecar_processes import NAMESPACE, Papers, child, quiet
from scripts.cluster.controlplane import Cluster
from scripts.ports import free_port
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
from sidecars.replication.primary.service import ReplicationService
from sidecars.replication.primary.source import ReplicationSource
from sidecars.replication.standby.connection import GrpcConnector
from sidecars.replication.standby.follower import Follower
from sidecars.replication.states import HaState
from sidecars.wire.auth.methods import certificate_method
from sidecars.wire.auth.trust import Trust
from sidecars.wire.tls import ServerCredentials

SCOPE = ReplicationScope(namespace=NAMESPACE, allowed_namespaces=("agent-*",))
STANDBY = "standby"


class FixedRole:
    """A principal whose role nobody changes."""

    def __init__(self, principal: str, state: HaState, *, history: str = "") -> None:
        self.handshake = Handshake(
            pair="bench",
            principal=principal,
            state=state,
            epoch=1,
            history=history,
            namespace=NAMESPACE,
            mapping="namespace",
            allowed_namespaces=SCOPE.allowed_namespaces,
            authorities=("bench",),
        )
        self.serves_replicas = state.serves

    def called(self, identity: str, caller: Handshake) -> None: ...

    def heard(self, peer: Handshake) -> None: ...

    def syncing(self) -> None: ...

    def in_sync(self) -> None: ...

    def disconnected(self, reason: str) -> None: ...


def hub_caches(store: Store, timing: Timing) -> dict[ReplicatedKind, Cache[Object]]:
    cache = partial(Cache[Object], store, projection=without_managed_fields)
    return {
        PROJECT: cache(APP_PROJECTS, namespace=NAMESPACE),
        # Bare writes go to another namespace, and nobody but the bare watch shall work on them.
        APPLICATION: cache(APPLICATIONS, namespace=AGENT),
        REPOSITORY: cache(SECRETS, namespace=NAMESPACE, label_selector=REPOSITORIES),
        CLUSTER: cache(SECRETS, namespace=NAMESPACE, label_selector=CLUSTERS),
        GPG_KEYS: cache(CONFIG_MAPS, namespace=NAMESPACE, field_selector=GPG_KEYS_ONLY),
        **own_caches(store, namespace=NAMESPACE, timing=timing),
    }


def run_primary(kubeconfig: str, folder: str, port: int) -> None:
    async def serve(objects: ReplicatedObjects, _store: Store, timing: Timing) -> None:
        papers, history = Papers(Path(folder)), str(uuid4())
        source = ReplicationSource(objects, timing=timing)
        access = ReplicationAccess(
            method=certificate_method("subject:CN=([^,]+)"),
            trust=Trust(papers.roots, now=lambda: datetime.now(UTC)),
            allowed=frozenset({STANDBY}),
            is_agent=lambda _name: False,
        )
        role = FixedRole("one", HaState.ACTIVE, history=history)
        service = ReplicationService(source, controller=role, access=access, monotonic=timing.monotonic)
        await source.start(epoch=1, history=history)
        server = aio.server()
        server.add_generic_rpc_handlers(service.handlers())
        material = Material(_key_pair(papers.folder, "principal"), papers.roots)
        credentials = ServerCredentials(material, require_client_certificate=True)
        server.add_secure_port(f"127.0.0.1:{port}", credentials.grpc)
        await server.start()
        await server.wait_for_termination()

    _run(kubeconfig, serve)


def run_standby(kubeconfig: str, folder: str, port: int) -> None:
    async def serve(objects: ReplicatedObjects, store: Store, timing: Timing) -> None:
        papers, role = Papers(Path(folder)), FixedRole("two", HaState.SYNCING)
        material = Material(_key_pair(papers.folder, STANDBY), papers.roots)
        link = PeerLink(f"localhost:{port}", material, mine=lambda: role.handshake)
        connect = GrpcConnector(link.channel, controller=role)
        follower = Follower(store, objects, controller=role, connect=connect, timing=timing)
        await follower.load()
        await follower.start()
        await follower.ended()

    _run(kubeconfig, serve)


def _key_pair(folder: Path, name: str) -> KeyPair:
    return KeyPair((folder / f"{name}.crt").read_bytes(), (folder / f"{name}.key").read_bytes())


def _run(kubeconfig: str, serve: Callable[[ReplicatedObjects, Store, Timing], Awaitable[None]]) -> None:
    quiet()

    async def main() -> None:
        store, timing = await LiveStore.connect(kubeconfig=kubeconfig), Timing()
        caches = hub_caches(store, timing)
        objects = ReplicatedObjects(caches, scope=SCOPE)
        async with asyncio.TaskGroup() as group:
            for cache in caches.values():
                group.create_task(cache.run())
            await objects.synced()
            await serve(objects, store, timing)

    asyncio.run(main())


class LivePair:
    """Both sides; each can be away for a while."""

    def __init__(self, hub: Cluster, workload: Cluster, folder: Path) -> None:
        self._port = free_port()
        self._folder = str(folder)
        self._kubeconfigs = str(hub.kubeconfig), str(workload.kubeconfig)

    @contextmanager
    def primary(self) -> Iterator[int]:
        with child(run_primary, self._kubeconfigs[0], self._folder, self._port) as process:
            yield process.pid

    @contextmanager
    def standby(self) -> Iterator[int]:
        with child(run_standby, self._kubeconfigs[1], self._folder, self._port) as process:
            yield process.pid
