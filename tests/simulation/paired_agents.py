"""Managed agents of a pair: they dial one name, which leads to the hub that the health checks call active, to an old one
where that is not noticed yet, and they remember the highest epoch that they have obeyed.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, cast

from argocd.agents.vocabulary import Mode
from kube.embedded import AdmissionOperation, AdmissionRequest, Admitted
from kube.resources import APPLICATIONS, NAMESPACES
from kube.store import Identity
from sidecars.agent.agent import Agent
from sidecars.agent.epochs import EpochMemory
from sidecars.agent.settings import AgentSettings
from sidecars.mirroring.kinds import RESTORED
from sidecars.mirroring.link import Runtime
from sidecars.wire import capabilities
from sidecars.wire.capabilities import Capabilities
from sidecars.wire.client.dialer import DialError
from tests.sidecars.replication.hubs import ARGOCD
from tests.simulation.application_controller import PREFIX, ApplicationController
from tests.simulation.paired_hubs import AGENTS, HUBS, LIMITS, AgentHello, EventsOnly, PairedHubs
from tests.simulation.replication_ends import hello
from tests.simulation.world import Lifeline, Process, World
from tiphys.errors import SurroundingsError

AGENT = Identity("agent")


class PairedAgents:
    def __init__(
        self,
        world: World,
        hubs: PairedHubs,
        *,
        remembers: bool,
        marked: bool,
        astray: float,
        deleted: Callable[[str, str], None],
    ) -> None:
        """`deleted` is told of every Application that an agent deletes, and whose it is. Unless `marked`, agents do not
        hear which operations they may have had before.
        """
        self._forgotten = frozenset(() if marked else (RESTORED,))
        self._world = world
        self._hubs = hubs
        self._remembers = remembers
        self._astray = astray
        self._deleted = deleted
        self._random = Random(world.random.random())
        self.controller = ApplicationController(world, namespace=ARGOCD)
        self.obeyed: dict[str, int] = dict.fromkeys(AGENTS, 0)
        self.connected: dict[str, str] = {}
        """To which hub each has a stream."""
        self.wrong: list[str] = []

    def begin(self) -> None:
        for agent in AGENTS:
            store = self._world.store(agent)
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ARGOCD}}
            store._history.write(NAMESPACES, store._pipeline.draft(NAMESPACES, body, namespace=None).body)
            store.hooks.admission = self._admission(agent)
            self._world.start(agent, self._run)
            self._world.start(f"{PREFIX}{agent}", self.controller.run)

    def _admission(self, agent: str) -> Any:
        async def admit(request: AdmissionRequest) -> Admitted:
            if (
                request.user == AGENT
                and request.resource == APPLICATIONS
                and request.operation is AdmissionOperation.DELETE
            ):
                self._deleted(agent, request.name)
            return Admitted()

        return admit

    def _hub(self) -> str:
        """As DNS has it: mostly right."""
        serving = [
            hub for hub in HUBS if (there := self._hubs.leading.get(hub)) is not None and there.gate.is_open
        ]
        chosen = self._random.choice(HUBS if not serving or self._random.random() < self._astray else serving)
        if chosen not in serving:
            self._world.count("agents led to a standby")
        return chosen

    async def _run(self, process: Process) -> None:
        name = process.name
        store: Any = Lifeline(process, self._world.store(name).as_user(AGENT))
        runtime = Runtime(timing=self._world.timing, new_id=self._world.new_id, outbox=LIMITS)
        settings = AgentSettings(mode=Mode.MANAGED, namespace=ARGOCD, compare_seconds=40.0)
        agent = Agent(store, settings=settings, runtime=runtime)
        memory = EpochMemory(store, namespace=ARGOCD)
        self.connected.pop(name, None)
        async with asyncio.TaskGroup() as group:
            group.create_task(agent.run(), name="agent")
            await agent.ready.wait()
            while True:
                try:
                    await self._serve(process, agent, memory)
                except SurroundingsError:
                    self._world.count("agents' streams ended")
                self.connected.pop(name, None)
                await asyncio.sleep(self._world.timing.random.uniform(0.1, 3.0))

    async def _serve(self, process: Process, agent: Agent, memory: EpochMemory) -> None:
        hub, name = self._hub(), process.name
        wire: Any = await process.connect(self._hubs.where(hub))
        try:
            await wire.send(AgentHello(name))
            announced = cast("Capabilities", await hello(wire, Capabilities))
            if self._remembers:
                try:
                    await memory.admit(announced)
                except DialError as error:
                    if error.hopeless:
                        self._world.count("lower epochs refused by agents")
                    raise
            if announced.epoch < self.obeyed[name]:
                self.wrong.append(f"{name} obeys epoch {announced.epoch} after {self.obeyed[name]}")
            self.obeyed[name] = max(self.obeyed[name], announced.epoch)
            self.connected[name] = hub
            stream: Any = EventsOnly(wire, forgotten=self._forgotten)
            await agent.serve(stream, name=name, principal_namespace=ARGOCD, extensions=capabilities.OURS)
        finally:
            if wire.alive:
                wire.finish()
