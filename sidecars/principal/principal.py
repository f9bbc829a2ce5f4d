"""The principal as one thing: caches, agents, streams. Transport and store are given."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

from argocd import names
from argocd.agents.vocabulary import Mode
from argocd.reading import text
from kube import queries
from kube.errors import AlreadyExistsError
from kube.resources import CONFIG_MAPS
from kube.store import Object, Store
from sidecars.delivery.comparison_turns import ComparisonTurns
from sidecars.delivery.session import Ending, Stream
from sidecars.metrics import argocd_agent
from sidecars.mirroring.drift import GUARDED_BYTES, DriftGuard
from sidecars.mirroring.inventories import SPECS
from sidecars.mirroring.kinds import SyncedKind
from sidecars.mirroring.link import Link, Runtime
from sidecars.mirroring.resync_events import ROUND_INTERVALS, ResyncEvents
from sidecars.mirroring.workqueue import WorkQueue
from sidecars.mirroring.writer import MirrorWriter
from sidecars.principal.agents import KnownAgent, KnownAgents
from sidecars.principal.fleet_page.record import FleetRecord
from sidecars.principal.incoming import PrincipalIncoming
from sidecars.principal.link_handler import PrincipalLinkHandler
from sidecars.principal.outgoing import PrincipalOutgoing, Sender
from sidecars.principal.resync import PrincipalResync
from sidecars.principal.roles.held import HeldObjects
from sidecars.principal.settings import PrincipalSettings
from sidecars.principal.state import HubState
from sidecars.principal.stream_turns import StreamTurns
from sidecars.proxies.requests import Requests
from tiphys import logs
from tiphys.errors import SurroundingsError

IDENTITY = "argocd-agent-principal-identity"
IDENTITY_KEY = "principal-uid"
# Until an agent has written the identity of a new principal to all it has, and its own caches know it.
SETTLING_SECONDS = 30.0

log = logs.get_logger()


async def identity(store: Store, *, namespace: str, new_id: Callable[[], str]) -> str:
    """The uid under which agents know this principal, made at the first start and kept."""
    body: Object = {"metadata": {"name": IDENTITY}, "data": {IDENTITY_KEY: new_id()}}
    held = await queries.find(store, CONFIG_MAPS, name=IDENTITY, namespace=namespace)
    if held is None:
        try:
            held = await store.create(CONFIG_MAPS, body, namespace=namespace)
        except AlreadyExistsError:
            held = await store.get(CONFIG_MAPS, name=IDENTITY, namespace=namespace)
    uid = (held.get("data") or {}).get(IDENTITY_KEY)
    if not uid:
        raise SurroundingsError(
            f"ConfigMap {namespace}/{IDENTITY} has no {IDENTITY_KEY}: delete it or add one"
        )
    return str(uid)


class Principal:
    """`run` belongs into a task group; `serve` is called for every stream of an authenticated agent."""

    def __init__(
        self,
        store: Store,
        *,
        settings: PrincipalSettings,
        principal_uid: str,
        runtime: Runtime | None = None,
        cut: Callable[[str, str], None] = lambda _agent, _reason: None,
        hub_state: HubState | None = None,
        requests: Requests | None = None,
        promoted: bool = False,
        heard_of: Callable[[str], None] = lambda _principal: None,
    ) -> None:
        """`cut` ends the streams of an agent that is no longer one of ours. A `hub_state` is its owner's, who runs its
        caches: they are warm when a standby is promoted. One that was `promoted` may lack what its agents have.
        `heard_of` is told which principals agents name.
        """
        self.settings = settings
        self._runtime = runtime or Runtime()
        self._cut = cut
        timing = self._runtime.timing
        self._runs_caches = hub_state is None
        self.hub_state = hub_state or HubState(store, settings=settings, timing=timing)
        self.record = FleetRecord(self.hub_state, timing=timing, incarnation=self._runtime.new_id())
        self.known_agents = KnownAgents(
            self.hub_state.agents, make_link=self._make_link, clock=timing.monotonic
        )
        self.requests = requests or Requests(self.link_of)
        writer = MirrorWriter(store)
        self._workqueue = WorkQueue(timing=timing)
        self.guard = DriftGuard(
            writer=writer, workqueue=self._workqueue, limit=GUARDED_BYTES, undone=self.record.undone
        )
        sender = Sender(self.known_agents, principal_uid=principal_uid, namespace=settings.namespace)
        self.held = HeldObjects(holding=promoted)
        self._promoted = promoted
        self._met: dict[str, float] = {}
        self._outgoing = PrincipalOutgoing(
            self.hub_state,
            self.known_agents,
            sender=sender,
            guard=self.guard,
            writer=writer,
            workqueue=self._workqueue,
        )
        self._resync = PrincipalResync(
            self.hub_state,
            sender=sender,
            guard=self.guard,
            events=ResyncEvents(source="", new_id=self._runtime.new_id),
            held=self.held,
        )
        self._incoming = PrincipalIncoming(
            store,
            hub_state=self.hub_state,
            guard=self.guard,
            writer=writer,
            now=timing.now,
            sender=sender,
            heard_of=heard_of,
        )
        self._turns = StreamTurns(timing.monotonic)
        self.ready = asyncio.Event()
        self._closing: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until cancelled."""
        subscriptions = [
            *self._outgoing.begin(),
            *self.record.begin(),
            self.hub_state.clusters.subscribe(self._cluster_changed),
            self.hub_state.modes.subscribe(lambda _old, _new: self._modes_changed()),
            *(
                cache.subscribe(partial(self._saw_go, kind))
                for kind, cache in self.hub_state.told_to_agents.items()
            ),
        ]
        try:
            async with asyncio.TaskGroup() as group:
                if self._runs_caches:
                    group.create_task(self.hub_state.run(), name="caches")
                group.create_task(self._workqueue.run(), name="workqueue")
                await self.hub_state.synced()
                self.ready.set()
                log.info("ready for agents", **{logs.NAMESPACE: self.settings.namespace})
                group.create_task(self._compare_now_and_then(), name="comparisons")
        finally:
            self.requests.close()
            for unsubscribe in subscriptions:
                unsubscribe()
            await asyncio.gather(*(agent.link.close() for agent in self.known_agents), return_exceptions=True)
            for agent in self.known_agents:
                self.known_agents.drop(agent.name)

    async def drain(self) -> None:
        """Nothing more is taken from agents, and what was taken is written and acknowledged; the caller bounds it."""
        links = [agent.link for agent in self.known_agents]
        for link in links:
            link.inbox.stop_intake()
        await asyncio.gather(*(link.inbox.settled() for link in links))

    def _saw_go(self, kind: SyncedKind, old: Object | None, new: Object | None) -> None:
        if new is None:
            name, namespace = text(old, "metadata", "name"), text(old, "metadata", "namespace")
            self.held.saw_go(kind=kind.resource.kind, namespace=namespace, name=name)

    def release(self, agent: str) -> int:
        """What was held back is left to the comparison now: of one agent, or of all of them."""
        count = self.held.release(agent)
        for known in self.known_agents:
            if agent in {"", known.name}:
                self._compare_again(known)
        return count

    def met(self) -> Sequence[str]:
        """Agents that have come, and had the time to show what they have; none before all that are known have."""
        now = self._runtime.timing.monotonic()
        known = [str(name) for name in self.hub_state.clusters.terms("agent")]
        have = all(now - self._met.get(name, now) >= 2 * SETTLING_SECONDS for name in known)
        return known if have else ()

    def _compare_again(self, agent: KnownAgent) -> None:
        if not agent.link.connected or self.known_agents.get(agent.name) is not agent:
            return
        if not agent.link.compares:
            self._resync.ask_now_and_then(agent)
        elif agent.mode is Mode.MANAGED:
            agent.link.compare(SPECS)

    async def serve(
        self,
        name: str,
        mode: Mode,
        stream: Stream,
        *,
        extensions: frozenset[str],
        certificate_end: datetime | None = None,
    ) -> Ending:
        """One stream of an agent, to its end; a second one of the same agent ends the first."""
        await self.ready.wait()
        async with self._turns.turn(name):
            return await self._serve(name, mode, stream, extensions, certificate_end)

    async def _serve(
        self,
        name: str,
        mode: Mode,
        stream: Stream,
        extensions: frozenset[str],
        certificate_end: datetime | None,
    ) -> Ending:
        agent, former = self.known_agents.join(name, mode)
        if former is not None:
            log.warning("the agent comes in another mode", **{logs.AGENT: name, logs.KIND: mode.value})
            await former.link.close()
        agent.link.extensions = extensions
        log.info("agent connected", **{logs.AGENT: name, logs.KIND: mode.value})
        argocd_agent.AGENT_CONNECTIONS.labels(name).inc()
        argocd_agent.CONNECTED_AGENTS.inc()
        connection = self.record.connected(name, certificate_end=certificate_end, extensions=extensions)
        why = "the stream broke"
        self._met.setdefault(name, self._runtime.timing.monotonic())
        # An agent of argocd-agent's undoes a new principal's first change, and no second one might come.
        again = (
            asyncio.get_running_loop().call_later(SETTLING_SECONDS, self._compare_again, agent)
            if self._promoted
            else None
        )
        try:
            self._resync.greet(agent)
            asyncio.get_running_loop().call_soon(
                self.requests.arrived, name
            )  # when the stream is in its place
            ending = await agent.link.serve(stream)
            why = ending.value
        finally:
            argocd_agent.CONNECTED_AGENTS.dec()
            if again is not None:
                again.cancel()
            self.requests.disconnected(name)
            self.record.disconnected(name, connection, why)
        log.info("agent disconnected", **{logs.AGENT: name, logs.REASON: ending.value})
        return ending

    async def _compare_now_and_then(self) -> None:
        passes = 0
        while True:
            passes += 1
            share = self._runtime.timing.random.uniform(0.75, 1.25)
            agents = list(self.known_agents)
            pause = self.settings.compare_seconds * share / max(1, len(agents))
            for agent in agents:
                await asyncio.sleep(pause)  # one after the other, not all at once
                if not agent.link.connected:
                    continue
                if agent.link.compares and agent.mode is Mode.MANAGED:
                    agent.link.compare(SPECS)
                elif not agent.link.compares and passes % ROUND_INTERVALS == 0:
                    self._resync.ask_now_and_then(agent)
            if not agents:
                await asyncio.sleep(pause)

    # Agents come and go with their cluster Secrets.

    def _cluster_changed(self, old: Object | None, new: Object | None) -> None:
        for name in {_agent(old), _agent(new)} - {""}:
            if not self.hub_state.clusters.find("agent", name):
                self._drop(name)
            else:
                self._hold_to_its_mode(name)

    def _modes_changed(self) -> None:
        for agent in self.known_agents:
            self._hold_to_its_mode(agent.name)

    def _hold_to_its_mode(self, name: str) -> None:
        """It comes back in the one that it has now, or is told so."""
        agent, mode = self.known_agents.get(name), self.hub_state.mode_of(name)
        if agent is not None and mode is not None and agent.mode is not mode:
            self._cut(name, f"the agent is {mode.value} now")

    def _drop(self, name: str) -> None:
        agent = self.known_agents.drop(name)
        self.hub_state.homes.pop(name, None)
        self.hub_state.versions.pop(name, None)
        self.record.forget(name)
        if agent is None:
            return
        reason = "the agent's cluster Secret is gone"
        log.warning("agent dropped", **{logs.AGENT: name, logs.REASON: reason})
        self.guard.forget_all(name)
        self._cut(name, reason)
        closing = asyncio.get_running_loop().create_task(agent.link.close(), name=f"closes {name}")
        self._closing.add(closing)
        closing.add_done_callback(self._closed)

    def _closed(self, closing: asyncio.Task[None]) -> None:
        self._closing.discard(closing)
        if not closing.cancelled() and closing.exception() is not None:
            log.error("an agent was not dropped cleanly", exc_info=closing.exception())

    def link_of(self, name: str) -> Link | None:
        agent = self.known_agents.get(name)
        return None if agent is None else agent.link

    def _make_link(self, agent: KnownAgent) -> Link:
        return Link(
            peer=agent.name,
            handler=PrincipalLinkHandler(
                agent,
                incoming=self._incoming,
                resync=self._resync,
                requests=self.requests,
                record=self.record,
            ),
            inventories=self.hub_state.inventories(agent.name, agent.mode),
            figures=argocd_agent.PRINCIPAL,
            runtime=self._runtime,
            turns=ComparisonTurns(self._runtime.timing.monotonic),
        )


def _agent(secret: Object | None) -> str:
    return text(secret, "metadata", "labels", names.AGENT_NAME)
