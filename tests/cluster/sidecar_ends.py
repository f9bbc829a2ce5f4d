"""A control plane and a workload cluster with real API servers, and the sidecars between them over grpc."""

import uuid
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from argocd.agents.vocabulary import Mode
from kube.live import LiveStore
from kube.resources import APP_PROJECTS, APPLICATIONS
from kube.store import Object, Resource
from scripts.cluster.testing import Clusters
from sidecars.agent import process as agents
from sidecars.principal import process as principals
from tests.sidecars import pair_in_memory, processes
from tests.sidecars.processes import Pki

PATIENCE = 60.0


class Ends:
    def __init__(
        self, hub: LiveStore, workload: LiveStore, *, hub_namespace: str, agent_namespace: str
    ) -> None:
        self.hub = hub
        self.workload = workload
        self.hub_namespace = hub_namespace
        self.agent_namespace = agent_namespace
        self.agent = f"agent-{uuid.uuid4().hex[:8]}"
        self.mode = Mode.MANAGED
        self.pki = Pki()
        self.port = 0
        self.principal_options: dict[str, Any] = {}
        self.agent_settings: dict[str, Any] = {}
        self.agent_store: LiveStore | None = None
        """As another account than the administrator."""

    @asynccontextmanager
    async def principal(self) -> AsyncIterator[principals.PrincipalProcess]:
        """On the same port each time."""
        async with processes.principal(
            self.hub,
            self.pki,
            namespace=self.hub_namespace,
            port=self.port,
            serving=self.principal_options,
            allowed_namespaces=(self.agent,),
        ) as process:
            self.port = process.port
            yield process

    def connected(self) -> AbstractAsyncContextManager[agents.AgentProcess]:
        return processes.connected_agent(
            self.agent_store or self.workload,
            self.pki,
            name=self.agent,
            port=self.port,
            mode=self.mode,
            namespace=self.agent_namespace,
            **self.agent_settings,
        )

    @asynccontextmanager
    async def both(self) -> AsyncIterator[None]:
        async with self.principal(), self.connected():
            yield

    async def equip(self) -> None:
        """Secrets of both sides, for processes that are started elsewhere."""
        for store, namespace, name, common_name in (
            (self.hub, self.hub_namespace, "argocd-agent-principal-tls", "principal"),
            (self.workload, self.agent_namespace, "argocd-agent-client-tls", self.agent),
        ):
            pair = self.pki.pair(common_name, server=common_name == "principal")
            await self.pki.equip(store, namespace=namespace, name=name, pair=pair)

    # The two sides, each by its own namespaces.

    async def on_hub(self, condition: Any, *, resource: Resource = APP_PROJECTS) -> dict[str, Object]:
        namespace = self.agent if resource is APPLICATIONS else self.hub_namespace
        return await pair_in_memory.until(
            self.hub, resource, condition, namespace=namespace, patience=PATIENCE
        )

    async def on_workload(self, condition: Any, *, resource: Resource = APP_PROJECTS) -> dict[str, Object]:
        return await pair_in_memory.until(
            self.workload, resource, condition, namespace=self.agent_namespace, patience=PATIENCE
        )

    async def create_on_hub(self, body: Object, *, resource: Resource = APP_PROJECTS) -> Object:
        namespace = self.agent if resource is APPLICATIONS else self.hub_namespace
        return await self.hub.create(resource, body, namespace=namespace)

    async def create_on_workload(self, body: Object, *, resource: Resource = APP_PROJECTS) -> Object:
        return await self.workload.create(resource, body, namespace=self.agent_namespace)


@asynccontextmanager
async def two_ends(clusters: Clusters) -> AsyncIterator[Ends]:
    hub = await LiveStore.connect(kubeconfig=clusters.control_plane.kubeconfig)
    workload = await LiveStore.connect(kubeconfig=clusters.workload.kubeconfig)
    hub_namespace = clusters.control_plane.create_namespace()
    agent_namespace = clusters.workload.create_namespace()
    ends = Ends(hub, workload, hub_namespace=hub_namespace, agent_namespace=agent_namespace)
    clusters.control_plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": ends.agent}})
    await pair_in_memory.Hub(hub, namespace=hub_namespace).know(ends.agent)
    try:
        yield ends
    finally:
        await hub.close()
        await workload.close()
        for namespace in (hub_namespace, ends.agent):
            clusters.control_plane.drop_namespace(namespace)
        clusters.workload.drop_namespace(agent_namespace)
