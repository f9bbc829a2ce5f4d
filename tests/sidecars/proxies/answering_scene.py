"""A principal with its resource proxy, Argo CD's side of it, and an agent that answers as it is told to."""

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from argocd.agents.vocabulary import Target
from kube.cache import Cache
from kube.embedded import EmbeddedStore
from kube.resources import SECRETS
from kube.store import Object, PatchKind
from sidecars.principal.process import PrincipalProcess
from sidecars.proxies.statuses import status_json
from sidecars.wire import payloads
from sidecars.wire.events import Event
from sidecars.wire.proxy_payloads import ResourceResponse
from tests.sidecars import pair_in_memory, processes
from tests.sidecars.proxies.hub_caller import HubCaller, client_context, hub_caller, resource_port
from tests.sidecars.proxies.redis.redis_servers import eventually

AGENT = "agent-a"
PATH = "/api/v1/namespaces/shop/configmaps/prices"


class Answering:
    """An agent that answers as it is told to."""

    def __init__(self) -> None:
        self.asked: list[Event] = []
        self.answer = ResourceResponse(status=200, resource="{}")

    async def handle(self, event: Event) -> bytes | None:
        self.asked.append(event)
        return payloads.write(self.answer)

    def refusal(self, event: Event, *, status: int, message: str) -> bytes | None:
        return payloads.write(ResourceResponse(status=status, resource=status_json(status, message).decode()))

    def mutates(self, event: Event) -> bool:
        return event.type != "GET"


class Scene:
    def __init__(
        self,
        process: PrincipalProcess,
        hub: HubCaller,
        answering: Answering,
        pki: processes.Pki,
        store: EmbeddedStore,
    ) -> None:
        assert process.resources is not None
        self.store = store
        self.process = process
        self.port = process.resources.port
        self.hub = hub
        self.agent = answering
        self.pki = pki

    async def given(self, token: str, *, agent: str = AGENT) -> str:
        """To Argo CD, in the agent's cluster Secret; the principal has seen that."""
        config = b64encode(json.dumps({"bearerToken": token} if token else {}).encode()).decode()
        secret = await self.store.patch(
            SECRETS,
            {"data": {"config": config}},
            name=f"cluster-{agent}",
            namespace="argocd",
            kind=PatchKind.MERGE,
        )
        await self.clusters.reached(secret["metadata"]["resourceVersion"])
        return token

    @property
    def clusters(self) -> Cache[Object]:
        assert self.process.principal is not None
        return self.process.principal.hub_state.clusters

    @asynccontextmanager
    async def raw(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A connection with the agent's certificate, for bytes that no library would send."""
        context = client_context(self.pki, self.pki.pair(AGENT, server=False))
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=context, server_hostname="localhost"
        )
        try:
            yield reader, writer
        finally:
            writer.close()

    async def sent(self, request: bytes) -> int:
        async with self.raw() as (reader, writer), asyncio.timeout(30):
            writer.write(request)
            head = await reader.read(4096)
            return int(head.split()[1]) if head else 0


@asynccontextmanager
async def answering_agent(
    process: PrincipalProcess, pki: processes.Pki, name: str
) -> AsyncIterator[Answering]:
    """Connected; the control plane knows it already."""
    workload = EmbeddedStore(namespaces=["argocd"])
    async with processes.connected_agent(workload, pki, name=name, port=process.port) as agent:
        await eventually(lambda: process.principal is not None and process.principal.requests.connected(name))
        answering = Answering()
        assert agent._agent is not None
        agent._agent.dispatcher.serve(Target.RESOURCE, answering)
        yield answering


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    hub = EmbeddedStore(namespaces=["argocd", AGENT])
    pki = processes.Pki()
    await pair_in_memory.Hub(hub).know(AGENT)
    options = await resource_port(hub, pki, namespace="argocd")
    async with (
        processes.principal(hub, pki, serving={"resources": options}) as principal,
        answering_agent(principal, pki, AGENT) as answering,
    ):
        assert principal.resources is not None
        async with asyncio.timeout(30):
            await principal.resources.listening.wait()
        async with hub_caller(pki, principal.resources.port, agent=AGENT) as caller:
            yield Scene(principal, caller, answering, pki, hub)
