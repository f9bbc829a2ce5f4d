"""A pair of which one is a real argocd-agent, on two real API servers: first sync, stream, restarts, deletions meanwhile.

There is no garbage collector beside these API servers, and argocd-agent deletes in the foreground: what it has deleted
stays with a deletion timestamp.
"""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from grpc import aio

from kube import queries
from kube.live import LiveStore
from kube.resources import APP_PROJECTS, APPLICATION_SETS, APPLICATIONS
from kube.store import Object, Resource
from scripts.argocd_agent import BINARY, principal_arguments
from scripts.cluster.controlplane import Cluster
from scripts.cluster.testing import Clusters
from scripts.ports import free_port
from sidecars.replication.kinds import ReplicationScope
from sidecars.replication.standby.follower import Follower
from sidecars.replication.standby.go_primary import GoConnector, health_page
from sidecars.replication.states import HaState
from sidecars.wire.tls import channel_credentials
from tests.sidecars import pair_in_memory
from tests.sidecars.replication.hubs import (
    AUTHORITY,
    Hub,
    Pair,
    ScriptedController,
    application,
    certificate,
    embedded,
)
from tests.sidecars.wire.go_binary import running, said

pytestmark = [
    pytest.mark.skipif(not BINARY, reason="ARGOCD_AGENT_BIN names no argocd-agent"),
    pytest.mark.timeout(300),
]

until = partial(pair_in_memory.until, patience=90.0)


class Ground:
    """The same namespaces on two clusters, ours and argocd-agent's."""

    def __init__(self, clusters: Clusters, stores: tuple[LiveStore, LiveStore], folder: Path) -> None:
        self.clusters, self.folder = (clusters.control_plane, clusters.standby), folder
        self.primary, self.standby = stores
        unique = uuid4().hex[:8]
        self.hub, self.agent = f"hub-{unique}", f"agent-{unique}"
        for cluster in self.clusters:
            for name in (self.hub, self.agent):
                cluster.create_namespace(name)
        self.scope = ReplicationScope(namespace=self.hub, allowed_namespaces=("agent-*",))
        material = certificate("principal")
        assert material.pair is not None
        (folder / "principal.crt").write_bytes(material.pair.certificate)
        (folder / "principal.key").write_bytes(material.pair.key)
        (folder / "ca.crt").write_bytes(AUTHORITY.pem)

    @asynccontextmanager
    async def go(self, cluster: Cluster, port: int, *more: str) -> AsyncIterator[int]:
        """A principal of argocd-agent; yields the port of its health page."""
        allowed = f"{self.hub},{self.agent}"
        arguments = principal_arguments(self.folder, cluster, self.hub, port, allowed=allowed)
        health = next(each for each in arguments if each.startswith("--healthz-port="))
        place = self.folder / uuid4().hex[:6]
        place.mkdir()
        ha = ("--ha-enabled", f"--ha-admin-port={free_port()}")
        async with running(place, *arguments, *ha, *more) as log:
            try:
                yield int(health.partition("=")[2])
            except (AssertionError, TimeoutError) as error:
                raise AssertionError(f"{error}\n{said(log)}") from error

    async def create(self, resource: Resource, body: Object, *, namespace: str) -> None:
        await self.primary.create(resource, body, namespace=namespace)

    async def furnish(self) -> None:
        await self.create(
            APP_PROJECTS, {"metadata": {"name": "team"}, "spec": {"sourceRepos": ["*"]}}, namespace=self.hub
        )
        await self.create(APPLICATIONS, application("web"), namespace=self.agent)
        template = {"metadata": {"name": "x"}, "spec": application("x")["spec"]}
        sets = {"generators": [{"list": {"elements": [{"a": "b"}]}}], "template": template}
        await self.create(APPLICATION_SETS, {"metadata": {"name": "set"}, "spec": sets}, namespace=self.hub)

    async def revise(self, revision: str) -> None:
        web = await self.primary.get(APPLICATIONS, name="web", namespace=self.agent)
        web["spec"]["source"]["targetRevision"] = revision
        await self.primary.replace(APPLICATIONS, web)

    async def copied(self, revision: str) -> None:
        await until(
            self.standby,
            APPLICATIONS,
            lambda there: "web" in there and there["web"]["spec"]["source"]["targetRevision"] == revision,
            namespace=self.agent,
        )

    async def gone(self, resource: Resource, name: str, *, namespace: str) -> None:
        def is_gone(there: dict[str, Any]) -> bool:
            return name not in there or "deletionTimestamp" in there[name]["metadata"]

        await until(self.standby, resource, is_gone, namespace=namespace)


@pytest.fixture
async def ground(clusters: Clusters, tmp_path: Path) -> AsyncIterator[Ground]:
    stores = [
        await LiveStore.connect(kubeconfig=cluster.kubeconfig)
        for cluster in (clusters.control_plane, clusters.standby)
    ]
    yield Ground(clusters, (stores[0], stores[1]), tmp_path)
    for store in stores:
        await store.close()


class Routing:
    def __init__(self, agent: str) -> None:
        self._agent = agent

    def agents(self) -> Iterable[tuple[str, str]]:
        return [(self._agent, "managed")]

    def agent_of(self, item: Object) -> str:
        return str(item["metadata"]["namespace"])

    def agents_of_repository(self, _secret: Object) -> Iterable[str]:
        return [self._agent]


async def test_a_go_replica_follows_our_primary_through_restarts_and_deletions(ground: Ground) -> None:
    await ground.furnish()
    pair = Pair(
        Hub(ground.primary, scope=ground.scope),
        Hub(embedded()),
        routing=Routing(ground.agent),
        allowed=frozenset({"principal"}),
    )
    async with pair.running(following=False):
        options = ("--ha-preferred-role=replica", f"--ha-peer-address=localhost:{pair.listening.port}")
        replica = partial(ground.go, ground.clusters[1], *(free_port(), *options))
        async with replica():
            await ground.copied("HEAD")
            await until(ground.standby, APPLICATION_SETS, lambda there: "set" in there, namespace=ground.hub)
            await ground.revise("v2")
            await ground.copied("v2")
            await ground.create(
                APP_PROJECTS, {"metadata": {"name": "short"}, "spec": {}}, namespace=ground.hub
            )
            await until(ground.standby, APP_PROJECTS, lambda there: "short" in there, namespace=ground.hub)
        await ground.revise("v3")
        await ground.primary.delete(APP_PROJECTS, name="short", namespace=ground.hub)
        async with replica():
            await ground.copied("v3")
            await ground.gone(APP_PROJECTS, "short", namespace=ground.hub)


async def test_our_standby_follows_a_go_primary_and_deletes_what_it_confirms(ground: Ground) -> None:
    await ground.furnish()
    port = free_port()
    options = ("--ha-preferred-role=primary", "--ha-allowed-replication-clients=standby")
    async with (
        Hub(ground.standby, scope=ground.scope).running() as hub,
        ground.go(ground.clusters[0], port, *options) as health,
    ):
        channel = aio.secure_channel(f"localhost:{port}", channel_credentials(certificate("standby")))
        page = health_page(f"http://127.0.0.1:{health}/healthz")
        follower = Follower(
            ground.standby,
            hub.objects,
            controller=ScriptedController("two", HaState.SYNCING),
            connect=GoConnector(lambda: channel, objects=hub.objects, health=page),
            timing=hub.timing,
        )
        await follower.load()
        await follower.start()
        try:
            await ground.copied("HEAD")
            await until(ground.standby, APPLICATION_SETS, lambda there: "set" in there, namespace=ground.hub)
            await ground.revise("v2")
            await ground.copied("v2")
            await ground.primary.delete(APPLICATIONS, name="web", namespace=ground.agent)
            await until(
                ground.standby, APPLICATIONS, lambda there: "web" not in there, namespace=ground.agent
            )
            kept = await queries.find(ground.standby, APP_PROJECTS, name="team", namespace=ground.hub)
            assert kept is not None
        finally:
            await follower.stop()
            await channel.close()
