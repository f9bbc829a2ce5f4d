"""A principal with a managed and an autonomous agent, each with an API server of its own, users on all of them
and a controller that runs operations: what the sidecars promise, under every storm.
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from argocd.agents.copies import application_at_principal
from argocd.agents.identity import is_managed
from argocd.agents.project_copies import project_at_principal, project_for_agent
from argocd.agents.routing import AgentMapping, route_project
from argocd.agents.vocabulary import Mode
from argocd.reading import value
from kube.errors import ApiError, NotFoundError
from kube.resources import APP_PROJECTS, APPLICATIONS, NAMESPACES, SECRETS
from kube.store import Object, Resource, Store
from sidecars.agent.agent import Agent
from sidecars.agent.settings import AgentSettings
from sidecars.delivery.outbox import OutboxLimits
from sidecars.delivery.session import Stream
from sidecars.mirroring.link import Runtime
from sidecars.principal.principal import Principal
from sidecars.principal.settings import PrincipalSettings
from sidecars.wire import capabilities
from tests.simulation.application_controller import ApplicationController
from tests.simulation.network import Wire
from tests.simulation.world import Process, World
from tiphys.errors import SurroundingsError

HOME = "default"
MANAGED, AUTONOMOUS = "managed-1", "autonomous-1"
MODES = {MANAGED: Mode.MANAGED, AUTONOMOUS: Mode.AUTONOMOUS}
OURS = capabilities.OURS
LIMITS = OutboxLimits(bytes=60_000, reserve_bytes=60_000, state_window=8, command_window=4)
COMPARE_SECONDS = 40.0
NAMES = 6


class Sidecars:
    name = "sidecars"
    extensions = OURS
    principal_compares = agents_compare = COMPARE_SECONDS
    places = ("hub", MANAGED, AUTONOMOUS)
    pairs = (("hub", MANAGED), ("hub", AUTONOMOUS))
    stores = ("hub", MANAGED, AUTONOMOUS)

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = Random(world.random.random())
        self._argocd = ApplicationController(world, namespace=HOME)
        self._given: dict[str, str] = {}
        """Operations that the hub's API server has taken for certain, and the Applications they are for."""

    def begin(self) -> None:
        self._world.start("hub", self._run_principal)
        for agent in MODES:
            self._world.start(agent, self._run_agent)
            self._world.start(f"controller of {agent}", self._argocd.run)

    def stream(self, wire: Wire) -> Stream:
        return wire

    def _runtime(self) -> Runtime:
        return Runtime(timing=self._world.timing, new_id=self._world.new_id, outbox=LIMITS)

    def principal_made(self, principal: Principal) -> None:
        """In every life of the hub's process; and below of an agent's."""

    def agent_made(self, name: str, agent: Agent) -> None: ...

    async def beside_principal(self, principal: Principal) -> None:
        """Runs with it and ends with it; and below with an agent."""

    async def beside_agent(self, name: str, agent: Agent) -> None: ...

    def principals_surroundings(self) -> Runtime:
        return self._runtime()

    async def _run_principal(self, process: Process) -> None:
        store = process.store("hub")
        for agent in MODES:
            await _persistently(lambda agent=agent: _prepare(store, agent))  # type: ignore[misc]
        settings = PrincipalSettings(
            namespace=HOME, allowed_namespaces=tuple(MODES), compare_seconds=self.principal_compares
        )
        principal = Principal(
            store, settings=settings, principal_uid="principal", runtime=self.principals_surroundings()
        )
        self.principal_made(principal)

        async def accept(wire: Wire) -> None:
            stream = self.stream(wire)
            await principal.serve(wire.there, MODES[wire.there], stream, extensions=self.extensions)

        async with asyncio.TaskGroup() as group:
            group.create_task(principal.run(), name="principal")
            await principal.ready.wait()
            group.create_task(self.beside_principal(principal), name="beside the principal")
            process.listen(accept)

    async def _run_agent(self, process: Process) -> None:
        settings = AgentSettings(
            mode=MODES[process.name], namespace=HOME, compare_seconds=self.agents_compare
        )
        agent = Agent(process.store(process.name), settings=settings, runtime=self._runtime())
        self.agent_made(process.name, agent)
        async with asyncio.TaskGroup() as group:
            group.create_task(agent.run(), name="agent")
            await agent.ready.wait()
            group.create_task(self.beside_agent(process.name, agent), name="beside the agent")
            while True:
                try:
                    wire = await process.connect("hub")
                    await agent.serve(
                        self.stream(wire),
                        name=process.name,
                        principal_namespace=HOME,
                        extensions=self.extensions,
                    )
                except SurroundingsError:
                    self._world.count("reconnects")
                await asyncio.sleep(self._world.timing.random.uniform(0.1, 3.0))

    # What users do.

    async def work(self, seconds: float) -> None:
        end = self._world.loop.time() + seconds
        while self._world.loop.time() < end:
            await asyncio.sleep(self._random.choice((0.0, 0.1, 1.0, 2.0)))
            deed = self._random.choice(
                (
                    self._project,
                    self._project,
                    self._application,
                    self._application,
                    self._operate,
                    self._meddle,
                )
            )
            try:
                await deed()
            except ApiError:
                self._world.count("users' calls failed")

    async def _project(self) -> None:
        where = self._random.choice(("hub", AUTONOMOUS))
        spec = {
            "description": f"written at {self._world.loop.time()}",
            "destinations": [
                {"name": self._random.choice(("managed-*", "other")), "namespace": "*", "server": ""}
            ],
            "sourceNamespaces": ["*"],
        }
        await self._write(where, APP_PROJECTS, f"project-{self._random.randrange(NAMES)}", HOME, spec)

    async def _application(self) -> None:
        where, namespace = self._random.choice((("hub", MANAGED), (AUTONOMOUS, HOME)))
        spec = {
            "project": "web",
            "source": {"path": f"at-{self._world.loop.time()}"},
            "destination": {"name": "x", "namespace": "y"},
        }
        await self._write(where, APPLICATIONS, f"app-{self._random.randrange(NAMES)}", namespace, spec)

    async def _operate(self) -> None:
        """On Applications that nobody deletes: there every operation must run, once."""
        where, namespace = self._random.choice((("hub", MANAGED), (AUTONOMOUS, HOME)))
        name = f"lasting-{self._random.randrange(3)}"
        spec = {"project": "web", "source": {"path": "."}, "destination": {"name": "x", "namespace": "y"}}
        store = self._world.store(where)
        try:
            await store.get(APPLICATIONS, name=name, namespace=namespace)
        except NotFoundError:
            await store.create(APPLICATIONS, {"metadata": {"name": name}, "spec": spec}, namespace=namespace)
            return
        hub = self._world.store("hub")
        agent = MANAGED if where == "hub" else AUTONOMOUS
        there = await hub.get(APPLICATIONS, name=name, namespace=agent)
        if there.get("operation") is not None:
            return
        identity = self._world.new_id()
        operation = {"sync": {}, "info": [{"name": "id", "value": identity}]}
        await hub.replace(APPLICATIONS, {**there, "operation": operation})
        self._given[identity] = f"{agent}/{name}"
        self._world.note(f"{agent}/{name} is given {identity}")
        self._world.count("operations given")

    async def _meddle(self) -> None:
        """With copies and mirrors."""
        where, namespace = self._random.choice(((MANAGED, HOME), ("hub", HOME), ("hub", AUTONOMOUS)))
        resource = self._random.choice((APP_PROJECTS, APPLICATIONS))
        page = await self._world.store(where).list(resource, namespace=namespace)
        mirrors = [
            item
            for item in page.items
            if is_managed(item) and not item["metadata"]["name"].startswith("lasting")
        ]
        if not mirrors:
            return
        chosen = self._random.choice(mirrors)
        self._world.count("mirrors meddled with")
        if self._random.random() < 0.5:
            name = chosen["metadata"]["name"]
            await self._world.store(where).delete(resource, name=name, namespace=namespace)
        else:
            meddled = {**chosen["spec"], "description": "meddled"}
            await self._world.store(where).replace(resource, {**chosen, "spec": meddled})

    async def _write(self, where: str, resource: Resource, name: str, namespace: str, spec: Object) -> None:
        store = self._world.store(where)
        if self._random.random() < 0.2:
            await store.delete(resource, name=name, namespace=namespace)
            return
        try:
            body = await store.get(resource, name=name, namespace=namespace)
            await store.replace(resource, {**body, "spec": spec})
        except NotFoundError:
            await store.create(resource, {"metadata": {"name": name}, "spec": spec}, namespace=namespace)

    # What must hold in the end.

    async def unfinished(self) -> list[str]:
        hub_projects = await self._all("hub", APP_PROJECTS, HOME)
        native = [item for item in hub_projects.values() if not is_managed(item)]
        wanted = {
            item["metadata"]["name"]: project_for_agent(
                item, agent=MANAGED, mapped_by=AgentMapping.NAMESPACE
            )["spec"]
            for item in native
            if route_project(item, MANAGED, mapped_by=AgentMapping.NAMESPACE).goes
        }
        problems = _differences(
            "copy of project", wanted, _specs(await self._all(MANAGED, APP_PROJECTS, HOME))
        )
        own = await self._all(AUTONOMOUS, APP_PROJECTS, HOME)
        mirrors = (project_at_principal(item, agent=AUTONOMOUS, namespace=HOME) for item in own.values())
        wanted = {mirror["metadata"]["name"]: mirror["spec"] for mirror in mirrors}
        there = {name: item for name, item in hub_projects.items() if is_managed(item)}
        problems += _differences("mirror of project", wanted, _specs(there))
        problems += await self._unfinished_applications()
        seen = [*self._seen(await self._all(MANAGED, APPLICATIONS, HOME))]
        seen += self._seen(await self._all(AUTONOMOUS, APPLICATIONS, HOME))
        problems += [f"{self._given[lost]} never ran {lost}" for lost in self._given if lost not in seen]
        return problems

    async def _unfinished_applications(self) -> list[str]:
        hub, copies = (
            await self._all("hub", APPLICATIONS, MANAGED),
            await self._all(MANAGED, APPLICATIONS, HOME),
        )
        wanted = {name: _content(item) for name, item in hub.items()}
        there = {name: _content(item) for name, item in copies.items()}
        problems = _differences("copy of application", wanted, there)
        mirrors, own = (
            await self._all("hub", APPLICATIONS, AUTONOMOUS),
            await self._all(AUTONOMOUS, APPLICATIONS, HOME),
        )
        wanted = {
            name: _content(
                {**application_at_principal(item, agent=AUTONOMOUS, cluster=AUTONOMOUS), **_operation(item)}
            )
            for name, item in own.items()
        }
        there = {name: _content(item) for name, item in mirrors.items()}
        return problems + _differences("mirror of application", wanted, there)

    def _seen(self, applications: dict[str, Object]) -> list[str]:
        return [
            identity for item in applications.values() for identity in value(item, "status", "seen") or []
        ]

    async def _all(self, where: str, resource: Resource, namespace: str) -> dict[str, Object]:
        page = await self._world.store(where).list(resource, namespace=namespace)
        return {item["metadata"]["name"]: item for item in page.items}

    def violations(self) -> list[str]:
        return self._argocd.violations()


async def _prepare(store: Store, agent: str) -> None:
    """What an administrator did before: the namespace, and the Secret of the agent's cluster."""
    try:
        await store.get(NAMESPACES, name=agent)
    except NotFoundError:
        await store.create(NAMESPACES, {"metadata": {"name": agent}})
    secret = {
        "metadata": {
            "name": f"cluster-{agent}",
            "labels": {
                "argocd.argoproj.io/secret-type": "cluster",
                "argocd-agent.argoproj-labs.io/agent-name": agent,
            },
        },
        "stringData": {"name": agent, "server": "https://proxy"},
    }
    try:
        await store.get(SECRETS, name=f"cluster-{agent}", namespace=HOME)
    except NotFoundError:
        await store.create(SECRETS, secret, namespace=HOME)


async def _persistently(deed: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await deed()
        except ApiError:
            await asyncio.sleep(0.3)
        else:
            return


def _content(item: Object) -> Any:
    spec = {key: part for key, part in item["spec"].items() if key != "destination"}
    return spec, item.get("status"), item.get("operation")


def _operation(item: Object) -> Object:
    return {"operation": item["operation"]} if "operation" in item else {}


def _specs(items: dict[str, Object]) -> dict[str, Any]:
    return {name: item["spec"] for name, item in items.items()}


def _differences(what: str, wanted: dict[str, Any], there: dict[str, Any]) -> list[str]:
    return [
        f"{what} {name}: {there.get(name)} instead of {wanted.get(name)}"
        for name in sorted({*wanted, *there})
        if wanted.get(name) != there.get(name)
    ]
