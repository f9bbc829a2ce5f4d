"""Principal and agent over grpc, the resource proxy in front, the stand-in for pods behind."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from argocd.agents.vocabulary import Mode
from kube.embedded import EmbeddedStore
from kube.resources import APP_PROJECTS, APPLICATIONS
from sidecars.wire.server.sessions import Cut
from tests.sidecars import pair_in_memory, processes
from tests.sidecars.proxies.hub_caller import client_context, resource_port
from tests.sidecars.proxies.pods_api import NAMESPACE, POD, PodsApi, StoreWithApi, pods_api
from tests.sidecars.proxies.redis.redis_servers import eventually

AGENT = "prod"
PATIENCE = 60.0
POD_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods/{POD}"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:deployer"
PROJECT = {
    "sourceRepos": ["*"],
    "destinations": [{"server": "*", "name": "*", "namespace": "*"}],
    "destinationServiceAccounts": [
        {"server": "https://kubernetes.default.svc", "namespace": "*", "defaultServiceAccount": "deployer"}
    ],
}


class PodScene:
    """`agents` of one name each share the stand-in."""

    def __init__(self, stack: AsyncExitStack, folder: Path) -> None:
        self._stack = stack
        self._folder = folder
        self._agents: dict[str, AsyncExitStack] = {}
        self._workloads: dict[str, StoreWithApi] = {}
        self.pki = processes.Pki()
        self.hub = EmbeddedStore(namespaces=["argocd", AGENT])
        self.processes: dict[str, Any] = {}
        self.callers: dict[str, aiohttp.ClientSession] = {}
        self.shell: Any = None

    async def start(self) -> None:
        self.pods: PodsApi
        self.pods, self._raw = await self._stack.enter_async_context(pods_api(self._folder))
        options = await resource_port(self.hub, self.pki, namespace="argocd")
        self.principal = await self._stack.enter_async_context(
            processes.principal(
                self.hub,
                self.pki,
                serving={"resources": options},
                allowed_namespaces=("*",),
                trust_agent_mode=True,
            )
        )
        assert self.principal.resources is not None
        async with asyncio.timeout(PATIENCE):
            await self.principal.resources.listening.wait()
        self.url = f"https://localhost:{self.principal.resources.port}"

    async def know(self, name: str) -> None:
        await pair_in_memory.Hub(self.hub).know(name)
        self._workloads[name] = await self._workload()
        context = client_context(self.pki, self.pki.pair(name, server=False))
        connector = aiohttp.TCPConnector(ssl=context, limit=0)
        self.callers[name] = await self._stack.enter_async_context(aiohttp.ClientSession(connector=connector))

    async def _workload(self) -> StoreWithApi:
        made = StoreWithApi(namespaces=["argocd"])
        made.raw = self._raw
        await made.create(APP_PROJECTS, {"metadata": {"name": "web"}, "spec": PROJECT}, namespace="argocd")
        await made.create(APPLICATIONS, pair_in_memory.application("shop"), namespace="argocd")
        return made

    async def agent_comes(self, name: str = AGENT, **settings: Any) -> Any:
        if name not in self._workloads:
            await self.know(name)
        self._agents[name] = AsyncExitStack()
        self.processes[name] = await self._agents[name].enter_async_context(
            self._connected(self._workloads[name], name, **settings)
        )
        await eventually(lambda: self.principal._requests.connected(name))
        return self.processes[name]

    @asynccontextmanager
    async def twin(self, name: str = AGENT, **settings: Any) -> AsyncIterator[Any]:
        """Another agent of the same name, on a cluster of its own."""
        async with self._connected(await self._workload(), name, **settings) as process:
            yield process

    def _connected(
        self, workload: StoreWithApi, name: str, mode: Mode = Mode.AUTONOMOUS, **settings: Any
    ) -> Any:
        return processes.connected_agent(
            workload, self.pki, name=name, port=self.principal.port, mode=mode, **settings
        )

    async def agent_goes(self, name: str = AGENT) -> None:
        await self._agents.pop(name).aclose()
        await eventually(lambda: not self.principal._requests.connected(name))

    def break_connection(self, name: str = AGENT) -> None:
        """As a network does; the agent comes back by itself."""
        assert self.principal.server is not None
        for session in self.principal.server.sessions.of(name):
            session.cut(Cut.unavailable("a test breaks it"))

    def get(self, path: str, *, agent: str = AGENT, **headers: str) -> Any:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.callers[agent].get(f"{self.url}{path}", headers=named)

    async def close(self) -> None:
        for stack in self._agents.values():
            await stack.aclose()


@asynccontextmanager
async def pod_scene(folder: Path) -> AsyncIterator[PodScene]:
    async with AsyncExitStack() as stack:
        scene = PodScene(stack, folder)
        await scene.start()
        try:
            yield scene
        finally:
            await scene.close()
