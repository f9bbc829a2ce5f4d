"""Two hubs of a pair, each a principal with the real controller, election, log and copy: what is simulated is the network,
the API servers with their admission policy, and the moments at which processes die or stand still.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any, cast

import sidecars.wire  # noqa: F401  isort: skip

from argocd.agents.vocabulary import Mode
from certs.key_pair import Material
from kube.guarded import GuardedStore
from kube.leases import Election
from kube.resources import LEASES, NAMESPACES
from kube.store import Identity, Store
from sidecars.delivery.outbox import OutboxLimits
from sidecars.mirroring.link import Runtime
from sidecars.principal.principal import Principal
from sidecars.principal.principal import identity as principal_identity
from sidecars.principal.roles.active import ActivePrincipal
from sidecars.principal.roles.paired import PairedPrincipal, PairSurroundings
from sidecars.principal.settings import PrincipalSettings
from sidecars.principal.state import HubState
from sidecars.process.serving_gate import ServingGate
from sidecars.replication.control.controller import HaController
from sidecars.replication.control.safeguards import PairSafeguards
from sidecars.replication.control.settings import HaSettings, PreferredRole
from sidecars.replication.states import HaState
from sidecars.wire import capabilities
from sidecars.wire.auth.methods import certificate_method
from sidecars.wire.auth.tokens import Holder
from sidecars.wire.auth.trust import Trust
from sidecars.wire.capabilities import Capabilities
from sidecars.wire.events import Event
from sidecars.wire.server.sessions import AuthenticatedAgent, OpenStreams
from tests.sidecars.replication.hubs import ARGOCD
from tests.sidecars.wire import pki
from tests.simulation import simulated_grpc
from tests.simulation.network import Wire
from tests.simulation.replication_ends import hello
from tests.simulation.simulated_fence import PRINCIPAL, SimulatedFence
from tests.simulation.simulated_grpc import RpcRequest, SimulatedChannel
from tests.simulation.world import Lifeline, Process, World
from tiphys.errors import SurroundingsError, TiphysError

HUBS = ("one", "two")
AGENTS = ("agent-a", "agent-b")
LEASE = "tiphys-principal"
LIMITS = OutboxLimits(bytes=60_000, reserve_bytes=60_000, state_window=8, command_window=4)
FOR_EVER = timedelta(days=36_500)
AUTHORITY = pki.issue("authority", authority=True, ends=FOR_EVER)
CERTIFICATES = {
    hub: pki.issue(f"principal-{hub}", AUTHORITY, usage=(pki.CLIENT, pki.SERVER), ends=FOR_EVER)
    for hub in HUBS
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Safeguards:
    """All on; each is switched off once, to see that somebody notices."""

    pair: PairSafeguards = field(default_factory=PairSafeguards)
    fence: bool = True
    """The admission policy refuses writers on a standby."""
    epoch_memory: bool = True
    holding: bool = True
    lease: bool = True
    """Whoever lost it writes nothing."""
    parity: bool = True
    """The two claim different epochs."""
    restored: bool = True
    """An operation that an agent may have had from another principal is marked so."""


@dataclass(frozen=True, slots=True)
class AgentHello:
    name: str


class EventsOnly:
    """A stream of events: the words before it may come twice. Their marks can be `forgotten`."""

    def __init__(self, wire: Wire, *, forgotten: frozenset[str] = frozenset()) -> None:
        self._wire = wire
        self._forgotten = forgotten
        self.send, self.send_many, self.finish = wire.send, wire.send_many, wire.finish

    async def receive(self) -> Event | None:
        while True:
            said: Any = await self._wire.receive()
            if isinstance(said, Event):
                kept = {key: told for key, told in said.extensions.items() if key not in self._forgotten}
                return replace(said, extensions=kept) if self._forgotten else said
            if said is None:
                return None


def hub_of(place: str) -> str:
    """A hub has replicas, of which the Lease lets one work."""
    return place.split("/", maxsplit=1)[0]


def other(hub: str) -> str:
    return HUBS[1 - HUBS.index(hub)]


class LeadingHub:
    """One activation of a replica that holds the Lease."""

    def __init__(
        self, process: Process, pair: PairedPrincipal, active: ActivePrincipal, gate: ServingGate
    ) -> None:
        self.process = process
        self.pair = pair
        self.active = active
        self.gate = gate
        self.sessions = active._sessions
        self.announced = Capabilities()
        self.calls: set[asyncio.Task[Any]] = set()

    async def stop(self) -> None:
        """The listener's last deed."""
        for call in self.calls:
            call.cancel()
        if self.calls:
            await asyncio.wait(self.calls)

    @property
    def hub(self) -> str:
        return hub_of(self.process.name)

    @property
    def controller(self) -> HaController:
        return self.pair.controller

    @property
    def state(self) -> HaState:
        return self.controller.role.state

    async def told(self, work: Coroutine[Any, Any, Any]) -> Any:
        return await self.process.called(work, calls=self.calls)


class PairedHubs:
    """Starts them, and knows who works where."""

    def __init__(
        self,
        world: World,
        *,
        replicas: int,
        safeguards: Safeguards,
        served: Callable[[str, int], None],
    ) -> None:
        """`served` is told of every epoch under which a hub begins to serve."""
        self._world = world
        self._safeguards = safeguards
        self._served = served
        self.leading: dict[str, LeadingHub] = {}
        self.have_led: dict[int, LeadingHub] = {}
        """By process, also of those that were paused and have lost the Lease meanwhile."""
        self.identities: dict[int, str] = {}
        """Of lives of processes, by id: under which each campaigns for the Lease."""
        self.fences = {
            hub: SimulatedFence(world, hub, denies=safeguards.fence, forgets_parity=not safeguards.parity)
            for hub in HUBS
        }
        self.places = tuple(
            hub if not number else f"{hub}/{number}" for hub in HUBS for number in range(replicas)
        )

    def begin(self) -> None:
        for hub in HUBS:
            store = self._world.store(hub)
            for namespace in (ARGOCD, *AGENTS):
                body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
                store._history.write(NAMESPACES, store._pipeline.draft(NAMESPACES, body, namespace=None).body)
            self.fences[hub].install()
        for place in self.places:
            self._world.start(place, self._replica)

    def where(self, hub: str) -> str:
        """The replica that its Service leads to."""
        there = self.leading.get(hub)
        return hub if there is None else there.process.name

    def lease_holder(self, hub: str) -> str:
        lease = self._world.store(hub)._history.collection(LEASES).find(ARGOCD, LEASE)
        return "" if lease is None else str(lease.decoded()["spec"].get("holderIdentity") or "")

    async def _replica(self, process: Process) -> None:
        """A container that is started again whenever it ends by an error of its surroundings."""
        while True:
            try:
                await self._elected(process)
            except* TiphysError as group:
                self._world.note(f"{process.name} ends: {group.exceptions[0]!r}")
                self._world.count("processes ended by an error")
            await asyncio.sleep(1.0)

    async def _elected(self, process: Process) -> None:
        face = self._world.store(hub_of(process.name)).as_user(PRINCIPAL)
        store = cast("Store", Lifeline(process, face))
        identity = self.identities[id(process)] = self._world.new_id()
        election = Election(
            store,
            name=LEASE,
            namespace=ARGOCD,
            identity=identity,
            clock=self._world.loop.time,
            wall_clock=self._world.loop.now,
            random=self._world.timing.random,
        )

        def may_write() -> str:
            return "" if election.is_leading or not self._safeguards.lease else "the Lease is lost"

        await election.run(partial(self._work, process, GuardedStore(store, may_write), election))

    async def _work(self, process: Process, store: Store, election: Election) -> None:
        world, hub = self._world, hub_of(process.name)
        runtime = Runtime(timing=world.timing, new_id=world.new_id, outbox=LIMITS)
        settings = PrincipalSettings(namespace=ARGOCD, allowed_namespaces=AGENTS, compare_seconds=40.0)
        uid = await principal_identity(store, namespace=ARGOCD, new_id=world.new_id)
        hub_state = HubState(store, settings=settings, timing=world.timing)
        gate = ServingGate(HaState.RECOVERING.value)
        pair = PairedPrincipal(
            HaSettings(
                preferred_role=PreferredRole.PRIMARY if hub == HUBS[0] else PreferredRole.REPLICA,
                peer_address=f"{other(hub)}:8443",
                allowed_clients=frozenset(f"principal-{each}" for each in HUBS),
                admin_port=None,
            ),
            PairSurroundings(
                store=store,
                hub_state=hub_state,
                principal=uid,
                gate=gate,
                timing=world.timing,
                new_id=world.new_id,
                material=Material(pair=CERTIFICATES[hub].pair(), roots=AUTHORITY.pem),
                trust=Trust(
                    AUTHORITY.pem, now=lambda: AUTHORITY.certificate.not_valid_before_utc + FOR_EVER / 2
                ),
                method=certificate_method("subject:CN=([^,]+)"),
                handed_over=lambda: election.was_handed_over,
                safeguards=self._safeguards.pair,
            ),
        )

        async def dial() -> Wire:
            return await process.connect(self.where(other(hub)))

        assert pair._peer is not None
        pair._peer._channel = SimulatedChannel(dial, CERTIFICATES[hub].pem)

        def principal(promoted: bool) -> Principal:  # noqa: FBT001 - as the process has it
            return Principal(
                store,
                settings=settings,
                principal_uid=uid,
                runtime=runtime,
                hub_state=hub_state,
                promoted=promoted and self._safeguards.holding,
            )

        def announce(epoch: int, name: str) -> None:
            there.announced = Capabilities(capabilities.OURS | {capabilities.EPOCH}, epoch, 0, name)
            if election.is_leading:
                self._served(hub, epoch)

        active = ActivePrincipal(principal, sessions=OpenStreams(now=world.loop.now), announce=announce)
        there = self.leading[hub] = LeadingHub(process, pair, active, gate)
        self.have_led[id(process)] = there
        pair.attach(active)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(hub_state.run(), name="caches")
                group.create_task(active.run(), name="principal")
                await hub_state.synced()
                process.listen(partial(self._accept, there))
                group.create_task(pair.run(), name="pair")
        finally:
            if self.leading.get(hub) is there:
                del self.leading[hub]
            await there.stop()

    async def _accept(self, there: LeadingHub, wire: Wire) -> None:
        call = asyncio.ensure_future(self._answer(there, wire))
        there.calls.add(call)
        call.add_done_callback(there.calls.discard)
        try:
            await asyncio.wait({call})
        finally:
            call.cancel()
        if not call.cancelled():
            call.result()

    async def _answer(self, there: LeadingHub, wire: Wire) -> None:
        first = await hello(wire, object)
        if self.leading.get(there.hub) is not there:
            raise SurroundingsError("it does not lead any more")
        if isinstance(first, RpcRequest):
            await simulated_grpc.serve(there.pair.services, first, wire)
        elif isinstance(first, AgentHello):
            await self._serve_agent(there, first.name, wire)

    async def _serve_agent(self, there: LeadingHub, agent: str, wire: Wire) -> None:
        """As the listener does: refused by the gate, told of the epoch, cut when it has to be."""
        if (refusal := there.gate.refusal("Subscribe")) is not None:
            raise SurroundingsError(refusal)
        peer = AuthenticatedAgent(
            holder=Holder(agent, Mode.MANAGED), announced=Capabilities(capabilities.OURS)
        )
        with there.sessions.opened(peer, max_age=86_400) as session:
            await cast("Any", wire).send(there.announced)
            stream: Any = EventsOnly(wire)
            serving = there.active.serve(agent, Mode.MANAGED, stream, extensions=capabilities.OURS)
            work: asyncio.Future[Any] = asyncio.ensure_future(serving)
            cut: asyncio.Future[Any] = session.cut_because
            try:
                await asyncio.wait({work, cut}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                work.cancel()
                await asyncio.wait({work})
            if not work.cancelled():
                work.result()


async def lines(steps: AsyncIterator[str], heard: Callable[[str], None]) -> None:
    async for line in steps:
        heard(line)


USERS = Identity("users")
