"""A principal and its agents in this process, on embedded stores, joined by a stream of memory."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from typing import Any

from argocd import names
from argocd.agents.vocabulary import Mode
from kube.embedded import EmbeddedStore
from kube.resources import APP_PROJECTS, SECRETS
from kube.store import Object, Resource, Store, WatchEventKind
from sidecars.agent.agent import Agent
from sidecars.agent.settings import AgentSettings
from sidecars.mirroring.link import Runtime
from sidecars.principal.principal import Principal
from sidecars.principal.registration import RegistrationGate
from sidecars.principal.settings import PrincipalSettings
from sidecars.process.serving_gate import ServingGate
from sidecars.wire import capabilities
from sidecars.wire.events import Event
from tiphys.errors import SurroundingsError

ARGOCD = "argocd"
PATIENCE = 60.0
OURS = capabilities.OURS
PLAIN: frozenset[str] = frozenset()


class Pipe:
    """One end of a stream."""

    def __init__(self) -> None:
        self._arrived: asyncio.Queue[Event | None] = asyncio.Queue()
        self.other: Pipe | None = None
        self.sent: list[Event] = []
        self.drops: Callable[[Event], bool] = lambda _: False
        self._closed = False

    async def send(self, event: Event) -> None:
        if self._closed:
            raise SurroundingsError("the pipe is closed")
        assert self.other is not None
        self.sent.append(event)
        if self.drops(event):
            return
        self.other._arrived.put_nowait(event)

    async def send_many(self, events: Iterable[Event]) -> None:
        for event in events:
            await self.send(event)

    async def receive(self) -> Event | None:
        return await self._arrived.get()

    def close(self) -> None:
        assert self.other is not None
        for end in (self, self.other):
            end._closed = True
            end._arrived.put_nowait(None)


def pipes() -> tuple[Pipe, Pipe]:
    one, two = Pipe(), Pipe()
    one.other, two.other = two, one
    return one, two


class Hub:
    """A control plane whose principal can be stopped and started again."""

    def __init__(self, store: Store, *, namespace: str = ARGOCD, **settings: Any) -> None:
        self.store = store
        self.settings = PrincipalSettings(namespace=namespace, **settings)
        self.principal: Principal | None = None
        self.promoted = False
        """Then it may lack what its agents have."""

    @property
    def gate(self) -> RegistrationGate:
        """As the port of a principal that serves asks it."""
        assert self.principal is not None
        return RegistrationGate(self.store, self.principal.hub_state, serving=ServingGate())

    async def know(self, agent: str) -> None:
        await self.store.create(
            SECRETS,
            {
                "metadata": {
                    "name": f"cluster-{agent}",
                    "labels": {names.SECRET_TYPE: "cluster", names.AGENT_NAME: agent},
                },
                "stringData": {"name": agent, "server": f"https://proxy?agentName={agent}", "config": "{}"},
            },
            namespace=self.settings.namespace,
        )

    @asynccontextmanager
    async def running(self, runtime: Runtime | None = None) -> AsyncIterator[Principal]:
        principal = Principal(
            self.store,
            settings=self.settings,
            principal_uid="principal-1",
            runtime=runtime,
            promoted=self.promoted,
        )
        async with _task(principal.run()):
            async with asyncio.timeout(PATIENCE):
                await principal.ready.wait()
            self.principal = principal
            try:
                yield principal
            finally:
                self.principal = None


@asynccontextmanager
async def running_agent(
    store: Store, *, runtime: Runtime | None = None, **settings: Any
) -> AsyncIterator[Agent]:
    agent = Agent(
        store,
        settings=AgentSettings(**{"namespace": ARGOCD, **settings}),
        runtime=runtime,
    )
    async with _task(agent.run()):
        async with asyncio.timeout(PATIENCE):
            await agent.ready.wait()
        yield agent


@asynccontextmanager
async def connected(
    principal: Principal, agent: Agent, *, name: str = "agent-a", extensions: frozenset[str] = OURS
) -> AsyncIterator[tuple[Pipe, Pipe]]:
    """The principal's and the agent's end."""
    here, there = pipes()
    async with (
        _task(principal.serve(name, agent.settings.mode, here, extensions=extensions)),
        _task(
            agent.serve(
                there,
                name=name,
                principal_namespace=principal.settings.namespace,
                extensions=extensions,
            )
        ),
    ):
        try:
            yield here, there
        finally:
            here.close()


@asynccontextmanager
async def _task(work: Any) -> AsyncIterator[None]:
    """Its death is the test's."""
    task = asyncio.ensure_future(work)
    try:
        yield
        if task.done() and not task.cancelled() and task.exception() is not None:
            task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Pair:
    """Hub, workload and the two sidecars between them; each can be away for a while."""

    def __init__(
        self,
        *,
        mode: Mode = Mode.MANAGED,
        name: str = "agent-a",
        extensions: frozenset[str] = OURS,
        hub: dict[str, Any] | None = None,
        agent: dict[str, Any] | None = None,
        hub_store: Store | None = None,
        workload: Store | None = None,
        hub_namespace: str = ARGOCD,
        agent_namespace: str = ARGOCD,
        runtime: Runtime | None = None,
    ) -> None:
        """`runtime` for both ends: those of a virtual clock."""
        self._runtime = runtime
        self.name = name
        self.mode = mode
        self.hub_namespace = hub_namespace
        self.agent_namespace = agent_namespace
        self.hub = Hub(
            hub_store or EmbeddedStore(namespaces=[hub_namespace, name]),
            namespace=hub_namespace,
            **{"allowed_namespaces": (name,), **(hub or {})},
        )
        self.workload: Store = workload or EmbeddedStore(namespaces=[agent_namespace])
        self._agent_settings = {"mode": mode, "namespace": agent_namespace, **(agent or {})}
        self._extensions = extensions

    @asynccontextmanager
    async def together(self) -> AsyncIterator[tuple[Principal, Agent]]:
        async with (
            self.hub.running(self._runtime) as principal,
            running_agent(self.workload, runtime=self._runtime, **self._agent_settings) as agent,
            self.connection(principal, agent),
        ):
            yield principal, agent

    @asynccontextmanager
    async def principal_alone(self) -> AsyncIterator[Principal]:
        async with self.hub.running(self._runtime) as principal:
            yield principal

    @asynccontextmanager
    async def agent_alone(self) -> AsyncIterator[Agent]:
        settings = self._agent_settings
        async with running_agent(self.workload, runtime=self._runtime, **settings) as agent:
            yield agent

    def connection(self, principal: Principal, agent: Agent) -> Any:
        return connected(principal, agent, name=self.name, extensions=self._extensions)


async def until(
    store: Store,
    resource: Resource,
    condition: Callable[[dict[str, Object]], Any],
    *,
    namespace: str = ARGOCD,
    patience: float = PATIENCE,
) -> dict[str, Object]:
    """Watches until the condition holds of all objects by name; says what there was instead."""
    there: dict[str, Object] = {}
    try:
        async with (
            asyncio.timeout(patience),
            aclosing(store.watch(resource, namespace=namespace, resource_version="0")) as events,
        ):
            page = await store.list(resource, namespace=namespace)
            there = {item["metadata"]["name"]: item for item in page.items}
            if condition(there):
                return there
            async for event in events:
                if event.kind is WatchEventKind.BOOKMARK:
                    continue
                name = event.object["metadata"]["name"]
                if event.kind is WatchEventKind.DELETED:
                    there.pop(name, None)
                else:
                    there[name] = event.object
                if condition(there):
                    return there
    except TimeoutError:
        pass
    page = await store.list(resource, namespace=namespace)
    there = {item["metadata"]["name"]: item for item in page.items}
    if condition(there):
        return there
    raise AssertionError(f"the condition does not hold of {str(there)[:2000]}")


def project(name: str = "web", *, agents: str = "agent-*", **spec: Any) -> Object:
    return {
        "metadata": {"name": name},
        "spec": {
            "destinations": [{"name": agents, "namespace": "*"}],
            "sourceNamespaces": [agents],
            "sourceRepos": ["*"],
            **spec,
        },
    }


def application(name: str = "shop", **more: Any) -> Object:
    metadata = {"name": name, **more.pop("metadata", {})}
    return {
        "metadata": metadata,
        "spec": {
            "project": "web",
            "source": {"repoURL": "https://git.example.org/shop.git", "path": ".", "targetRevision": "main"},
            "destination": {"name": "agent-a", "namespace": "shop"},
        },
        **more,
    }


async def change(
    store: Store, resource: Resource, name: str, *, namespace: str = ARGOCD, **fields: Any
) -> Object:
    """Top-level fields replaced; of metadata only the given keys."""
    there = await store.get(resource, name=name, namespace=namespace)
    metadata = {**there["metadata"], **fields.pop("metadata", {})}
    return await store.replace(resource, {**there, **fields, "metadata": metadata})


async def describe(store: Store, name: str, text: str, *, namespace: str = ARGOCD) -> Object:
    there = await store.get(APP_PROJECTS, name=name, namespace=namespace)
    return await store.replace(APP_PROJECTS, {**there, "spec": {**there["spec"], "description": text}})


def described(name: str, text: str) -> Callable[[dict[str, Object]], bool]:
    return lambda there: name in there and there[name]["spec"].get("description") == text
