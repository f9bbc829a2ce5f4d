"""A principal with agents that answer by a script, and its fleet page: for pictures, tests in a browser and benchmarks.

Principal, caches and page are the real ones on the embedded store; only the agents are played.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from argocd import names
from argocd.agents.vocabulary import Message, Mode, Target
from kube.embedded import EmbeddedStore
from kube.resources import APP_PROJECTS, APPLICATIONS, CONFIG_MAPS, SECRETS
from kube.store import Object
from sidecars.mirroring import repeated_drift
from sidecars.mirroring.repeated_drift import DriftReport
from sidecars.principal.fleet_page.page import FleetPage
from sidecars.principal.fleet_page.regions import RegionFacts
from sidecars.principal.principal import Principal
from sidecars.principal.settings import PrincipalSettings
from sidecars.wire import capabilities, payloads
from sidecars.wire.events import Event, acknowledgement, fresh_id, message_event
from tiphys.errors import SurroundingsError
from tiphys.http_server import HttpPages

ARGOCD = "argocd"
PATIENCE = 60.0
NAMES = (
    "eu-west-prod", "eu-north-prod", "us-east-prod", "us-west-prod", "ap-south-prod",
    "staging", "edge-berlin", "edge-osaka",
)  # fmt: skip
AUTONOMOUS = frozenset({"edge-berlin", "edge-osaka"})
APPLICATIONS_OF_ONE = ("checkout", "catalogue", "identity", "payments", "search", "mail", "ledger", "web")
STATES = (
    *(("Healthy", "Synced"),) * 5, ("Healthy", "OutOfSync"), ("Progressing", "Synced"), ("Degraded", "OutOfSync"),
    ("Suspended", "Synced"), ("Missing", "OutOfSync"),
)  # fmt: skip


class PlayedStream:
    """An agent's stream that acknowledges what it is told; one that does not answer has something waiting for ever."""

    def __init__(self, *, answers: bool = True) -> None:
        self._arrived: asyncio.Queue[Event | None] = asyncio.Queue()
        self.answers = answers
        self.read = asyncio.Event()
        """Set when the principal serves it."""
        self._closed = False

    async def send(self, event: Event) -> None:
        if self._closed:
            raise SurroundingsError("the stream is closed")
        if self.answers and event.expects_acknowledgement:
            self._arrived.put_nowait(acknowledgement(event, source=""))

    async def send_many(self, events: Iterable[Event]) -> None:
        for event in events:
            await self.send(event)

    async def receive(self) -> Event | None:
        self.read.set()
        return await self._arrived.get()

    def tell(self, event: Event) -> None:
        self._arrived.put_nowait(event)

    def close(self) -> None:
        self._closed = True
        self._arrived.put_nowait(None)


@dataclass
class SampleFleet:
    store: EmbeddedStore
    principal: Principal
    address: str = ""
    streams: dict[str, PlayedStream] = field(default_factory=dict)
    _tasks: dict[str, asyncio.Task[Any]] = field(default_factory=dict)

    async def connect(
        self, name: str, *, mode: Mode = Mode.MANAGED, answers: bool = True, days: float = 200
    ) -> None:
        stream = self.streams[name] = PlayedStream(answers=answers)
        self.principal.hub_state.versions[name] = "0.9.0"
        serving = self.principal.serve(
            name,
            mode,
            stream,
            extensions=frozenset({capabilities.BATCHES}),
            certificate_end=datetime.now(UTC) + timedelta(days=days),
        )
        self._tasks[name] = asyncio.ensure_future(serving)
        async with asyncio.timeout(PATIENCE):
            await stream.read.wait()

    async def disconnect(self, name: str) -> None:
        self.streams.pop(name).close()
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(self._tasks.pop(name), return_exceptions=True)

    async def close(self) -> None:
        for name in list(self.streams):
            await self.disconnect(name)

    async def register(self, name: str) -> None:
        await self.store.create(SECRETS, cluster(name), namespace=ARGOCD)

    async def settled(self) -> None:
        """Everything that was told has been acknowledged, but by those who never answer."""
        async with asyncio.timeout(PATIENCE):
            for agent in self.principal.known_agents:
                if agent.name in self.streams and self.streams[agent.name].answers:
                    await agent.link.outbox.settled()

    def refuse(self, agent: str, *, namespace: str, name: str, message: str) -> None:
        """The agent says that its API server did not take an Application."""
        told = (
            b'{"message":"' + message.encode() + b'","resourceName":"' + name.encode()
            + b'","resourceNamespace":"' + namespace.encode() + b'"}'
        )  # fmt: skip
        self.streams[agent].tell(
            Event(
                type=Message.ERROR,
                target=Target.APPLICATION,
                resource_id=fresh_id(),
                event_id=fresh_id(),
                subject=f"{namespace}/{name}",
                payload=told,
            )
        )

    def undo(self, agent: str, *, name: str, times: int, seconds: int, fields: tuple[str, ...]) -> None:
        """The agent says that somebody keeps changing a copy of one of its Applications."""
        report = DriftReport(
            target=Target.APPLICATION,
            namespace=agent,
            name=name,
            times=times,
            seconds=seconds,
            fields=list(fields),
        )
        told = payloads.write(report)
        self.streams[agent].tell(
            message_event(repeated_drift.TYPE, target=repeated_drift.TARGET, payload=told)
        )

    async def mend(self, agent: str, name: str) -> None:
        """The Application is well on the agent's cluster, as its next status says."""
        there = await self.store.get(APPLICATIONS, name=name, namespace=agent)
        status = {"health": {"status": "Healthy"}, "sync": {"status": "Synced"}}
        await self.store.replace(APPLICATIONS, {**there, "status": status})


def cluster(name: str) -> Object:
    return {
        "metadata": {
            "name": f"{names.AGENT_CLUSTER_SECRET_PREFIX}{name}",
            "labels": {names.SECRET_TYPE: names.SECRET_TYPE_CLUSTER, names.AGENT_NAME: name},
        },
        "stringData": {
            "name": name,
            "server": f"https://{name}.example.org?agentName={name}",
            "config": "{}",
        },
    }


def application(name: str, *, agent: str, state: tuple[str, str], project: str = "shop") -> Object:
    health, sync = state
    return {
        "metadata": {"name": name, "namespace": agent},
        "spec": {
            "project": project,
            "source": {"repoURL": "https://git.example.org/shop.git", "path": name},
            "destination": {"name": agent, "namespace": name},
        },
        "status": {"health": {"status": health}, "sync": {"status": sync}},
    }


def project(name: str, *, agents: tuple[str, ...]) -> Object:
    return {
        "metadata": {"name": name},
        "spec": {
            "sourceNamespaces": list(agents),
            "sourceRepos": ["https://git.example.org/*"],
            "destinations": [{"name": agent, "namespace": "*"} for agent in agents],
            "destinationServiceAccounts": [
                {"server": "*", "namespace": "checkout", "defaultServiceAccount": "checkout-deployer"},
                {"server": "*", "namespace": "*", "defaultServiceAccount": "shop-deployer"},
            ],
        },
    }


def _agents(count: int) -> Iterator[str]:
    yield from NAMES[:count]
    for number in range(len(NAMES), count):
        yield f"edge-{number:04d}"


@asynccontextmanager
async def sample_fleet(
    count: int, *, applications: int = len(APPLICATIONS_OF_ONE), regions: bool = False
) -> AsyncIterator[SampleFleet]:
    """So many agents, all connected, each with so many Applications in various states."""
    found = list(_agents(count))
    store = EmbeddedStore(namespaces=[ARGOCD, *found])
    settings = PrincipalSettings(namespace=ARGOCD, allowed_namespaces=("*",), trust_agent_mode=True)
    for name in found:
        await store.create(SECRETS, cluster(name), namespace=ARGOCD)
    await store.create(
        APP_PROJECTS, project("shop", agents=("*-prod", "staging", "edge-*")), namespace=ARGOCD
    )
    await store.create(APP_PROJECTS, project("billing", agents=("eu-*",)), namespace=ARGOCD)
    impersonation = {"application.sync.impersonation.enabled": "true"}
    await store.create(
        CONFIG_MAPS, {"metadata": {"name": names.ARGOCD_CM}, "data": impersonation}, namespace=ARGOCD
    )
    for number, name in enumerate(found):
        if name not in AUTONOMOUS:
            for which in range(applications):
                label = APPLICATIONS_OF_ONE[which % len(APPLICATIONS_OF_ONE)]
                state = STATES[(number * 3 + which) % len(STATES)]
                await store.create(APPLICATIONS, application(label, agent=name, state=state), namespace=name)
    principal = Principal(store, settings=settings, principal_uid="sample")
    fleet = SampleFleet(store, principal)
    page = FleetPage(
        store,
        lambda: fleet.principal,
        waits=lambda: "starting",
        regions=_two_regions if regions else tuple,
    )
    pages = HttpPages({}, host="127.0.0.1", port=0, routes=page.routes)
    async with AsyncExitStack() as stack:
        for work in (principal.run(), pages.run()):
            await stack.enter_async_context(_task(work))
        async with asyncio.timeout(PATIENCE):
            await principal.ready.wait()
            await pages.listening.wait()
        fleet.address = f"http://127.0.0.1:{pages.port}/"
        stack.push_async_callback(fleet.close)
        for name in found:
            await fleet.connect(name, mode=Mode.AUTONOMOUS if name in AUTONOMOUS else Mode.MANAGED)
        await fleet.settled()
        yield fleet


def _two_regions() -> list[RegionFacts]:
    return [
        RegionFacts(name="this region", ours=True, state="active", epoch=7),
        RegionFacts(name="hub.us.example.org:8443", ours=False, state="replicating", epoch=7, lag="0.0 s"),
    ]


@asynccontextmanager
async def _task(work: Any) -> AsyncIterator[None]:
    task = asyncio.ensure_future(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
