"""The agent as one thing: caches, the principal's link, one stream after the other. Transport and store are given."""

import asyncio
from collections.abc import Iterable
from functools import partial

from argocd.agents.namespaces import as_told_to_peer
from argocd.agents.vocabulary import Message, Mode, Target
from kube.store import Object, Store
from sidecars.agent.applications import Applications, RefusedApplicationError, restored
from sidecars.agent.commands import Commands
from sidecars.agent.drift_reports import DriftReports
from sidecars.agent.incoming import AgentIncoming
from sidecars.agent.outgoing import AgentOutgoing
from sidecars.agent.resync import AgentResync
from sidecars.agent.settings import AgentSettings
from sidecars.agent.state import AgentState
from sidecars.delivery.comparison import ComparisonReport, Difference
from sidecars.delivery.interactive import is_read
from sidecars.delivery.outcomes import DeadLetter
from sidecars.delivery.session import Ending, Stream
from sidecars.metrics import argocd_agent
from sidecars.mirroring.drift import DriftGuard
from sidecars.mirroring.inventories import SPECS, STATUS
from sidecars.mirroring.kinds import APPLICATION, BY_TARGET, SyncedKind
from sidecars.mirroring.kube_events import EventReporter
from sidecars.mirroring.link import Link, LinkHandler, Runtime, SendAttempt
from sidecars.mirroring.resync_events import ResyncEvents
from sidecars.mirroring.workqueue import WorkQueue
from sidecars.mirroring.writer import HasToGoError, MirrorWriter
from sidecars.proxies.dispatcher import RequestDispatcher
from sidecars.wire import payloads
from sidecars.wire.events import AGENT_SOURCE, Event, heartbeat, message_event, object_event
from tiphys import logs
from tiphys.errors import SurroundingsError

SYNC_SECONDS = 120.0

log = logs.get_logger()


class Agent(LinkHandler):
    """`run` belongs into a task group; `serve` is called for every stream to the principal."""

    def __init__(self, store: Store, *, settings: AgentSettings, runtime: Runtime | None = None) -> None:
        self.settings = settings
        self._runtime = runtime or Runtime()
        timing, new_id = self._runtime.timing, self._runtime.new_id
        self.agent_state = AgentState(store, settings=settings, timing=timing)
        writer = MirrorWriter(store)
        self._reporter = EventReporter(store, now=timing.now)
        self._workqueue = WorkQueue(timing=timing)
        drift_reports = DriftReports(
            agent_state=self.agent_state,
            timing=timing,
            new_id=new_id,
            link=lambda: self.link,
        )
        self._guard = DriftGuard(
            writer=writer,
            workqueue=self._workqueue,
            restored=self._restored,
            undone=drift_reports.undone,
        )
        self._outgoing = AgentOutgoing(
            settings=settings, agent_state=self.agent_state, guard=self._guard, tell=self._tell
        )
        self._incoming = AgentIncoming(
            settings=settings,
            agent_state=self.agent_state,
            guard=self._guard,
            writer=writer,
            applications=Applications(
                settings=settings,
                agent_state=self.agent_state,
                guard=self._guard,
                writer=writer,
                report_gone=partial(self._tell, Message.DELETE, APPLICATION),
                given=self._outgoing.given,
            ),
            commands=Commands(
                settings=settings,
                agent_state=self.agent_state,
                guard=self._guard,
                writer=writer,
                tell_state=(
                    self._outgoing.tell_status
                    if settings.mode is Mode.MANAGED
                    else partial(self._tell, Message.SPEC_UPDATE, APPLICATION)
                ),
            ),
        )
        self._resync = AgentResync(
            settings=settings,
            agent_state=self.agent_state,
            events=ResyncEvents(source=AGENT_SOURCE, new_id=new_id),
            tell=self._tell,
            clock=timing.monotonic,
        )
        self.link = Link(
            peer="principal",
            handler=self,
            inventories=self.agent_state.inventories(),
            figures=argocd_agent.AGENT,
            runtime=self._runtime,
            source=AGENT_SOURCE,
        )
        self.timing = timing
        self.dispatcher = RequestDispatcher(
            self.link.post, timing=timing, gives_way=lambda: self.link.moves_state, new_id=new_id
        )
        self.ready = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled."""
        self._outgoing.begin()
        try:
            async with asyncio.TaskGroup() as group:
                for cache in self.agent_state.caches.values():
                    group.create_task(cache.run(), name="cache")
                group.create_task(self._workqueue.run(), name="workqueue")
                async with asyncio.timeout(SYNC_SECONDS):
                    await self.agent_state.synced()
                self._outgoing.start()
                self.ready.set()
                log.info("ready", **{logs.KIND: self.settings.mode.value})
                group.create_task(self._compare_now_and_then(), name="comparisons")
                if self.settings.heartbeat_seconds:
                    group.create_task(self._beat(), name="heartbeat")
        except TimeoutError as error:
            raise SurroundingsError(
                f"the API server gave no complete lists within {SYNC_SECONDS:.0f} s"
            ) from error
        finally:
            await self.dispatcher.close()
            await self.link.close()

    async def serve(
        self, stream: Stream, *, name: str, principal_namespace: str, extensions: frozenset[str]
    ) -> Ending:
        """One stream to its end; `name` is how the principal knows us."""
        await self.ready.wait()
        self.agent_state.name = name
        self.agent_state.principal_namespace = principal_namespace
        self.link.extensions = extensions
        log.info("connected", **{logs.AGENT: name})
        self._resync.greet(self.link)
        return await self.link.serve(stream)

    async def _compare_now_and_then(self) -> None:
        scope = STATUS if self.settings.mode is Mode.MANAGED else SPECS
        while True:
            share = self._runtime.timing.random.uniform(0.75, 1.25)
            await asyncio.sleep(self.settings.compare_seconds * share)
            if self.link.connected and self.link.compares:
                self.link.compare(scope)
            elif self.link.connected:
                await self._resync.ask_now_and_then(self.link)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self.settings.heartbeat_seconds)
            if self.link.connected:
                self.link.send(heartbeat(new_id=self._runtime.new_id))

    # What the link asks.

    async def handle(self, event: Event) -> None:
        if event.target == Target.RESOURCE_RESYNC:
            self._resync.resync(self.link, event)
        elif event.target in BY_TARGET:
            try:
                await self._incoming.apply(event)
            except HasToGoError as error:
                self.agent_state.when_gone(error.there, partial(self.link.inbox.hurry, event))
                raise
            self._observe_propagation(event)
        else:
            log.debug("nothing to do", **{logs.KIND: event.type})

    def interact(self, event: Event) -> bool:
        self.dispatcher.receive(event)
        return is_read(event)

    def unsendable(self, event: Event) -> None:
        self.dispatcher.unsendable(event)

    def _observe_propagation(self, event: Event) -> None:
        if event.sent_at is not None:
            seconds = (self._runtime.timing.now() - event.sent_at).total_seconds()
            argocd_agent.PROPAGATION.labels(event.target).observe(max(0.0, seconds))

    def done(self, event: Event) -> None:
        if event.type == Message.REQUEST_RESOURCE_RESYNC:
            self._resync.question_heard()

    def repair(self, scope: str, differences: list[Difference]) -> None:
        self._resync.repair(scope, differences)

    def compared(self, report: ComparisonReport) -> None:
        """Nothing waits for it here."""

    def relieved(self) -> None:
        """Nothing was held back."""

    def everything(self) -> Iterable[SendAttempt]:
        return self._resync.everything(self.link)

    async def report_unapplied(self, letter: DeadLetter) -> None:
        """The principal shows what went wrong with an Application of its own; the rest is told here."""
        kind = BY_TARGET.get(letter.event.target)
        if kind is None or self.settings.mode is not Mode.MANAGED:
            return
        if kind is not APPLICATION:
            name = letter.event.subject.rpartition("/")[2]
            await self._reporter.report(letter, kind, namespace=self.settings.namespace, name=name)
            return
        namespace, _, name = letter.event.subject.partition("/")
        self._tell_error(name=name, namespace=namespace, message=_shown(letter))

    async def report_unsent(self, letter: DeadLetter) -> None:
        """The principal is told of an Application of its own: that fits. Of what is ours it knows nothing."""
        kind = BY_TARGET.get(letter.event.target)
        if kind is None:
            return
        namespace, _, name = letter.event.subject.partition("/")
        if self.settings.mode is not Mode.MANAGED:
            await self._reporter.report(letter, kind, namespace=namespace, name=name)
            return
        copy = self.agent_state.get(kind, name=name, namespace=namespace)
        if kind is APPLICATION and copy is not None:
            peer = as_told_to_peer(copy, peer_namespace=self.agent_state.principal_namespace)
            words = f"{letter.event.type.rpartition('.')[2]} could not be sent: {letter.message}"
            self._tell_error(name=name, namespace=peer, message=words)

    # What is told.

    def _tell(self, message: Message, kind: SyncedKind, item: Object) -> bool:
        event = object_event(message, target=kind.target, obj=item, source=AGENT_SOURCE)
        if logs.debugs():
            fields = {logs.OPERATION: message.word, logs.KIND: kind.target.value, logs.KEY: event.subject}
            log.debug("told", **fields)
        self._resync.told(message, kind, item)
        return self.link.send(event)

    def _tell_error(self, *, name: str, namespace: str, message: str) -> None:
        told = payloads.ErrorData(resource_name=name, resource_namespace=namespace, message=message)
        event = message_event(
            Message.ERROR,
            target=Target.APPLICATION,
            payload=payloads.write(told),
            source=AGENT_SOURCE,
            new_id=self._runtime.new_id,
        )
        self.link.send(event)

    def _restored(self, kind: SyncedKind, copy: Object, lost: Object) -> Object:
        return restored(copy, lost, self.settings.on_recreate) if kind is APPLICATION else copy


def _shown(letter: DeadLetter) -> str:
    words = letter.message
    if isinstance(letter.error, RefusedApplicationError):
        return words
    return f"{letter.event.type.rpartition('.')[2]} could not be applied: {words}"
