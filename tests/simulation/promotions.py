"""A pair, its agents, its users and an operator who promotes, demotes, resumes, forces and switches over, rightly and
wrongly, while processes are killed or stand still, clusters refuse the record and the network parts.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from dataclasses import dataclass
from random import Random
from typing import Any

from argocd import names
from argocd.agents.replication import pending_operation, replicated_copy
from argocd.reading import value
from kube.embedded import Call
from kube.errors import ApiError, UnavailableError
from kube.resources import APPLICATIONS, SECRETS
from kube.store import Object
from sidecars.replication.record import HaRecord
from sidecars.replication.states import HaState
from tests.sidecars.replication.hubs import ARGOCD, application, cluster_secret
from tests.simulation.pair_checks import PairChecks
from tests.simulation.pair_operator import PairOperator
from tests.simulation.paired_agents import PairedAgents
from tests.simulation.paired_hubs import AGENTS, HUBS, USERS, PairedHubs, Safeguards, hub_of, other
from tests.simulation.virtual_time import OWNER
from tests.simulation.world import Process, World

STEPS = ("switchover", "promotion", "demoted", "stepped down", "token")

Key = tuple[str, str]
"""An Application's agent and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """Shares of what could be hit."""

    faults_seconds: float = 5.0
    """Between two faults of the storm."""
    looks_seconds: float = 6.0
    """Between two looks of the operator."""
    killed: float = 0.12
    """Steps of a change of role at which one of the two hubs, or both, are killed."""
    paused: float = 0.04
    """Records in whose writing a process stands still for longer than its Lease."""
    regions: float = 0.4
    """Storms in which all of a hub is away for half a minute."""
    parted: float = 0.25
    """Storms in which the hubs do not hear of each other for half a minute, and agents reach both."""
    replicas: tuple[int, ...] = (1, 2)
    forced: float = 0.08
    """Looks of an operator at which he forces a promotion without need."""
    flap_seconds: float = 20.0
    """Between two moments at which an agent has to dial anew."""
    astray: float = 0.1
    """Dials of an agent that DNS leads to either hub, whoever serves."""
    replayed: float = 0.1
    """Looks at which a token of an earlier switchover is shown once more."""


class Promotions:
    name = "promotions"
    stores = (*HUBS, *AGENTS)
    mischief = True
    """Whether the operator promotes and demotes without need."""
    fate = Fate()

    def __init__(
        self, world: World, *, safeguards: Safeguards | None = None, fate: Fate | None = None
    ) -> None:
        safeguards = safeguards or Safeguards()
        self.fate = fate or self.fate
        self.faults_seconds = self.fate.faults_seconds
        self._world = world
        self._random = Random(world.random.random())
        self._checks = PairChecks(world)
        self._hubs = PairedHubs(
            world,
            replicas=self._random.choice(self.fate.replicas),
            safeguards=safeguards,
            served=self._checks.served,
        )
        self._checks.attach(self._hubs)
        self._agents = PairedAgents(
            world,
            self._hubs,
            remembers=safeguards.epoch_memory,
            marked=safeguards.restored,
            astray=self.fate.astray,
            deleted=self._checks.agent_deleted,
        )
        self._operator = PairOperator(
            world,
            self._hubs,
            self._checks,
            applications=self.applications,
            careful=not self.mischief,
            forced=self.fate.forced,
        )
        self.places = (*self._hubs.places, *AGENTS)
        self.pairs = (
            *((one, two) for one in self._hubs.places for two in self._hubs.places if one < two),
            *((place, agent) for place in self._hubs.places for agent in AGENTS),
        )
        self._hands: set[asyncio.Task[None]] = set()
        self._is_storm = True
        for hub in HUBS:
            fence = self._hubs.fences[hub]
            fence.on_record = self._killing(fence.on_record)
            fence.on_call = self._pausing(fence.on_call)
        self._revision = 0
        self._accepted: dict[Key, set[int | None]] = {}
        """What may be there: the last revision that was taken, and those whose answer was lost since; None: gone."""
        self._given: dict[str, Key] = {}
        """Operations that a hub has taken for certain."""

    def begin(self) -> None:
        self._hubs.begin()
        store = self._world.store(HUBS[0])
        for agent in AGENTS:
            draft = store._pipeline.draft(SECRETS, cluster_secret(agent), namespace=ARGOCD)
            store._history.write(SECRETS, draft.body)
        self._agents.begin()

    # What happens.

    async def work(self, seconds: float) -> None:
        end = self._world.loop.time() + seconds
        async with asyncio.TaskGroup() as group:
            group.create_task(self._until(end, self._use, pause=0.7))
            group.create_task(self._until(end, self._operate, pause=self.fate.looks_seconds))
            group.create_task(self._until(end, self._pause, pause=40.0))
            group.create_task(self._until(end, self._refuse_record, pause=40.0))
            group.create_task(self._until(end, self._flap, pause=self.fate.flap_seconds))
            group.create_task(self._lose_region())
            group.create_task(self._part_hubs())

        self._is_storm = False
        if self._hands:
            await asyncio.wait(self._hands)

    def _killing(self, checked: Any) -> Any:
        """At a step of a change of role that was just recorded, or soon after it."""

        def recorded(old: HaRecord | None, new: HaRecord) -> None:
            checked(old, new)
            step = new.audit[-1].what if new.audit else ""
            if (
                any(word in step for word in STEPS)
                and self._is_storm
                and self._random.random() < self.fate.killed
            ):
                self._world.count(f"killed at: {step}")
                for hub in self._random.choice(((HUBS[0],), (HUBS[1],), HUBS)):
                    delay = self._random.choice((0.0, 0.005, 0.05, 0.5))
                    self._restart(self._hubs.where(hub), delay, self._random.choice((0.0, 2.0)))

        return recorded

    def _pausing(self, checked: Any) -> Any:
        """With a write of the record on its way: another replica may have the Lease when it arrives."""

        def called(call: Call) -> None:
            checked(call)
            process = OWNER.get()
            if not (call.name == names.HA_RECORD and self._is_storm and isinstance(process, Process)):
                return
            if self._random.random() < self.fate.paused:
                self._world.count("paused in a write of the record")
                self._soon(self._world.pause(process.name, 25.0))

        return called

    def _restart(self, place: str, delay: float, seconds: float) -> None:
        async def restart() -> None:
            await asyncio.sleep(delay)
            await self._world.restart(place, seconds)

        self._soon(restart())

    def _soon(self, deed: Coroutine[Any, Any, None]) -> None:
        task = self._world.loop.create_task(deed, name="fate", context=Context())
        self._hands.add(task)
        task.add_done_callback(self._hands.discard)

    async def _lose_region(self) -> None:
        """Sometimes all of a hub is away for so long that the other one is promoted."""
        await asyncio.sleep(self._random.uniform(12, 22))
        hub = self._random.choice(HUBS)
        if self._random.random() < self.fate.regions:
            self._world.count("regions lost")
            for place in self._hubs.places:
                if hub_of(place) == hub:
                    self._restart(place, 0.0, 30.0)

    async def _part_hubs(self) -> None:
        await asyncio.sleep(self._random.uniform(5, 20))
        if self._random.random() < self.fate.parted:
            self._world.count("hubs parted")
            between = [(one, two) for one in self._hubs.places for two in self._hubs.places if one < two]
            for pair in between:
                self._world.network.part(*pair)
            await asyncio.sleep(30.0)
            for pair in between:
                self._world.network.reunite(*pair)

    async def _until(self, end: float, deed: Callable[[], Awaitable[None]], *, pause: float) -> None:
        while self._world.loop.time() < end:
            await asyncio.sleep(self._random.expovariate(1 / pause))
            await deed()

    async def _operate(self) -> None:
        await self._operator.look(mischief=self.mischief)

    async def _flap(self) -> None:
        """DNS changes its mind."""
        self._world.network.cut(self._random.choice(AGENTS))

    async def _pause(self) -> None:
        """Often longer than a Lease lasts."""
        await self._world.pause(
            self._random.choice(self._hubs.places), self._random.choice((3.0, 12.0, 25.0))
        )

    async def _refuse_record(self) -> None:
        fence = self._hubs.fences[self._random.choice(HUBS)]
        fence.refuses_record = True
        await asyncio.sleep(self._random.uniform(1, 15))
        fence.refuses_record = False

    # Users.

    async def _use(self) -> None:
        serving = [
            hub for hub in HUBS if (there := self._hubs.leading.get(hub)) is not None and there.gate.is_open
        ]
        hub = self._random.choice(serving or HUBS)
        if self._random.random() < 0.1:
            hub = other(hub)
        deed = self._random.choices((self._create, self._update, self._delete, self._sync), (4, 4, 1, 3))[0]
        try:
            await deed(hub)
        except ApiError:
            self._world.count("users' calls failed")

    async def _attempt(self, key: Key, revision: int | None, write: Awaitable[Any]) -> None:
        try:
            await write
        except UnavailableError as error:
            if error.outcome_unknown:
                self._accepted.setdefault(key, {None}).add(revision)
            raise
        self._accepted[key] = {revision}
        self._world.count("users' writes")

    async def _create(self, hub: str) -> None:
        """Under a name that nobody had before."""
        self._revision += 1
        key = (self._random.choice(AGENTS), f"app-{self._revision}")
        body = application(key[1], revision=str(self._revision))
        store = self._world.store(hub).as_user(USERS)
        await self._attempt(key, self._revision, store.create(APPLICATIONS, body, namespace=key[0]))

    async def _update(self, hub: str) -> None:
        there = self._some(hub)
        if there is None:
            return
        self._revision += 1
        source = {**there["spec"]["source"], "targetRevision": str(self._revision)}
        changed = {**there, "spec": {**there["spec"], "source": source}}
        store = self._world.store(hub).as_user(USERS)
        await self._attempt(_key(there), self._revision, store.replace(APPLICATIONS, changed))

    async def _delete(self, hub: str) -> None:
        there = self._some(hub)
        if there is None or there.get("operation") or _key(there) in self._given.values():
            return
        key = _key(there)
        self._checks.deletable.add(key)
        store = self._world.store(hub).as_user(USERS)
        await self._attempt(key, None, store.delete(APPLICATIONS, name=key[1], namespace=key[0]))

    async def _sync(self, hub: str) -> None:
        there = self._some(hub)
        if there is None or there.get("operation") is not None or _key(there) in self._checks.deletable:
            return
        identity = self._world.new_id()
        operation = {"sync": {"revision": identity}, "info": [{"name": "id", "value": identity}]}
        await self._world.store(hub).as_user(USERS).replace(APPLICATIONS, {**there, "operation": operation})
        if (pending := pending_operation(there)) is not None:  # not adopted yet, and replaced now
            self._given.pop(pending["sync"]["revision"], None)
            self._world.count("pending operations replaced")
        self._given[identity] = _key(there)
        self._world.note(f"{_key(there)} is given {identity} on {hub}")

    def _some(self, hub: str) -> Object | None:
        found = self.applications(hub)
        return found[self._random.choice(sorted(found))] if found else None

    def applications(self, where: str) -> dict[Key, Object]:
        """On a hub by agent and name; on an agent under its own name."""
        records = self._world.store(where)._history.collection(APPLICATIONS).records(None)
        return {
            (where if where in AGENTS else record.namespace, record.name): record.decoded()
            for record in records
        }

    # What must hold in the end.

    async def unfinished(self) -> list[str]:
        for fence in self._hubs.fences.values():
            fence.refuses_record = False
        await self._operator.heal()
        states = {hub: there.state for hub, there in self._hubs.leading.items()}
        if sorted(states.values()) != [HaState.ACTIVE, HaState.REPLICATING]:
            return [f"{hub} is {states.get(hub)}: {self._operator.reason(hub)}" for hub in HUBS]
        active = next(hub for hub in states if states[hub] is HaState.ACTIVE)
        problems = self._differences(active)
        problems += [
            f"{agent} is on {self._agents.connected.get(agent)}, not on {active}"
            for agent in AGENTS
            if self._agents.connected.get(agent) != active
        ]
        return problems

    def _differences(self, active: str) -> list[str]:
        wanted = self.applications(active)
        copies = {key: replicated_copy(item) for key, item in wanted.items()}
        there = {key: replicated_copy(item) for key, item in self.applications(other(active)).items()}
        problems = _told(f"copy on {other(active)}", copies, there)
        for agent in AGENTS:
            specs = {key: _content(item) for key, item in wanted.items() if key[0] == agent}
            found = {key: _content(item) for key, item in self.applications(agent).items()}
            problems += _told(f"application of {agent}", specs, found)
        return problems

    def violations(self) -> list[str]:
        """Operations may run twice where a promotion came between an agent and its word of the first time."""
        return [*self._checks.wrong, *self._agents.wrong]


def _key(item: Object) -> Key:
    return item["metadata"]["namespace"], item["metadata"]["name"]


def _content(item: Object) -> Any:
    spec = {part: held for part, held in item["spec"].items() if part != "destination"}
    return spec, value(item, "status"), item.get("operation")


def revision_of(item: Object) -> int:
    return int(item["spec"]["source"]["targetRevision"])


def _told(what: str, wanted: dict[Key, Any], there: dict[Key, Any]) -> list[str]:
    return [
        f"{what} {'/'.join(key)}: {there.get(key)} instead of {wanted.get(key)}"
        for key in sorted({*wanted, *there})
        if wanted.get(key) != there.get(key)
    ]
