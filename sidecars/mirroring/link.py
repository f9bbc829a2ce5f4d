"""One peer of a sidecar: its queues, the stream between them, and the comparison with it."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from contextvars import Context
from dataclasses import dataclass, field, replace
from typing import Protocol

from argocd.agents.vocabulary import OBJECT_TARGETS
from sidecars.delivery import comparison
from sidecars.delivery.comparison import Comparer, ComparisonReport, Difference
from sidecars.delivery.comparison_turns import ComparisonTurns
from sidecars.delivery.delayed_acknowledgements import DelayedAcknowledgements
from sidecars.delivery.inbox import Inbox, InboxLimits
from sidecars.delivery.lanes import key_of
from sidecars.delivery.observers import InboxObserver, OutboxObserver
from sidecars.delivery.outbox import Outbox, OutboxLimits
from sidecars.delivery.outcomes import DeadLetter, DeadLetterReason
from sidecars.delivery.session import Ending, Queues, Stream
from sidecars.delivery.timing import Backoff, Budget, Timing
from sidecars.delivery.unsent import UnsentKeys
from sidecars.metrics.argocd_agent import Figures
from sidecars.metrics.links import COMPARED, DEAD_LETTERS, DIFFERENT, OVERFLOWS, PROPAGATION, RESENT
from sidecars.metrics.per_peer import FAILURE, RECEIVED, SENT, STREAM_LOST, SUCCESS, PerPeerMetrics, kind_of
from sidecars.mirroring.change_spans import NO_ROOM, SUPERSEDED, ChangeSpans
from sidecars.mirroring.inventories import Inventories
from sidecars.wire import capabilities
from sidecars.wire.events import Event, acknowledgement, carrying_trace, fresh_id
from tiphys import logs
from tiphys.errors import SurroundingsError
from tiphys.tracing import active as active_tracing

# Between comparisons that follow one another because there is no room, when the last one changed nothing: the
# other end cannot take what differs, or waits for something, and both ends may be in each other's way.
FRUITLESS = Backoff(base=0.5, ceiling=30.0)

# A change arrives, and is applied, within this where its peer is not far away or busy.
STATE_SECONDS = 0.1

log = logs.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """What all links of a process share; a simulation brings its own."""

    timing: Timing = field(default_factory=Timing)
    new_id: Callable[[], str] = fresh_id
    outbox: OutboxLimits = field(default_factory=OutboxLimits)
    inbox: InboxLimits = field(default_factory=InboxLimits)
    budget: Budget | None = None
    """Of what waits for peers; `arrived` of what came from them and waits to be applied."""
    arrived: Budget | None = None
    gate: asyncio.Semaphore | None = None


SendAttempt = Callable[[], bool]
"""Sends one thing, as it is then; False where there was no room."""


class LinkHandler(Protocol):
    """What an end of the link does about its peer."""

    async def handle(self, event: Event) -> None:
        """Applies what the peer tells. Returning means that it is durable; an exception is judged."""
        ...

    def interact(self, event: Event) -> bool:
        """A request or an answer of somebody who waits; returns at once. True for reads and their answers."""
        ...

    def unsendable(self, event: Event) -> None:
        """No transport takes our request or answer: whoever waits for it is told."""
        ...

    def done(self, event: Event) -> None:
        """Our event needs no more sending: acknowledged, superseded, or never to be sent."""
        ...

    def acknowledged(self, event: Event, seconds: float) -> None:
        """The peer has applied our event, `seconds` after we wanted to tell it."""
        return

    def applied(self, event: Event) -> None:
        """The peer's event has had its effect."""
        return

    def repair(self, scope: str, differences: list[Difference]) -> None:
        """Tells the peer again what it has otherwise."""
        ...

    def compared(self, report: ComparisonReport) -> None:
        """A comparison is finished."""
        ...

    def relieved(self) -> None:
        """After an overflow there is room again."""
        ...

    def everything(self) -> Iterable[SendAttempt]:
        """For a peer that does not compare, after an overflow: told as fast as it fits."""
        ...

    async def report_unapplied(self, letter: DeadLetter) -> None:
        """What the peer told and nobody can apply."""
        ...

    async def report_unsent(self, letter: DeadLetter) -> None:
        """What the peer can never be told."""
        ...


class _Observer(OutboxObserver, InboxObserver):
    def __init__(self, link: "Link") -> None:
        self._link = link

    def acknowledged(self, peer: str, event: Event, seconds: float) -> None:
        if event.target in OBJECT_TARGETS:
            PROPAGATION.labels(event.target, SENT).observe(seconds)
        self._link.unsent.got_through(event)
        self._ended(event)
        self._link.handler.acknowledged(event, seconds)

    def superseded(self, peer: str, event: Event) -> None:
        self._ended(event, error=SUPERSEDED)

    def _ended(self, event: Event, *, error: str = "") -> None:
        if self._link.spans is not None:
            self._link.spans.ended(event, error=error)
        self._link.handler.done(event)

    def abandoned(self, peer: str, event: Event, error: Exception) -> None:
        letter = DeadLetter(
            peer=peer,
            key=key_of(event),
            event=replace(event, payload=b""),  # it may be large, and its report may have to wait
            reason=DeadLetterReason.UNSENDABLE,
            error=error,
            attempts=1,
        )
        self.dead_letter(letter)
        self._link.unsent.report(letter)
        self._link.per_peer.abandoned(event)
        self._ended(event, error=DeadLetterReason.UNSENDABLE)

    def resent(self, peer: str, event: Event, attempt: int) -> None:
        RESENT.inc()
        self._link.per_peer.resent(event)

    def unsendable(self, peer: str, event: Event, error: Exception) -> None:
        self._link.handler.unsendable(event)

    def marked(self, peer: str, key: str) -> None:
        OVERFLOWS.inc()
        self._link.overflowed()

    def dead_letter(self, letter: DeadLetter) -> None:
        target = kind_of(letter.event)
        DEAD_LETTERS.labels(target, letter.reason).inc()
        self._link.figures.errors.labels(target).inc()

    def handled(self, peer: str, event: Event, seconds: float) -> None:
        self._link.figures.received.inc()
        if logs.debugs():
            fields = {logs.KIND: event.target, logs.OPERATION: event.type, logs.KEY: event.subject}
            log.debug("applied", **{logs.PEER: peer}, **fields)
        self._link.handler.applied(event)
        if event.target in OBJECT_TARGETS and event.sent_at is not None:
            passed = (self._link.timing.now() - event.sent_at).total_seconds()
            PROPAGATION.labels(event.target, RECEIVED).observe(max(0.0, passed))


class Link:
    def __init__(
        self,
        *,
        peer: str,
        handler: LinkHandler,
        inventories: Inventories,
        figures: Figures,
        runtime: Runtime,
        source: str = "",
        turns: ComparisonTurns | None = None,
    ) -> None:
        """`turns` bound how often the peer may have us compare."""
        self.handler = handler
        self._inventories = inventories
        self.figures = figures
        self.timing = runtime.timing
        self.per_peer = PerPeerMetrics()
        self.unsent = UnsentKeys(handler.report_unsent)
        tracing = active_tracing()
        self.spans = None if tracing is None else ChangeSpans(tracing, peer)
        self._connected_at = 0.0
        self.state_sent_at = -STATE_SECONDS
        self._source = source
        self._repairing: asyncio.Task[None] | None = None
        self._overflowed_again = self._telling = False
        self._differed = self._fruitless = 0
        self._delayed = DelayedAcknowledgements(self._acknowledge)
        self._scopes: tuple[str, ...] = ()
        self.extensions: frozenset[str] = frozenset()
        observer = _Observer(self)
        self.outbox = Outbox(
            peer=peer,
            limits=runtime.outbox,
            budget=runtime.budget,
            observer=observer,
            timing=runtime.timing,
            incarnation=runtime.new_id(),
        )
        self.inbox = Inbox(
            peer=peer,
            handle=self._handle,
            acknowledge=self._acknowledge,
            report=handler.report_unapplied,
            limits=runtime.inbox,
            gate=runtime.gate,
            budget=runtime.arrived,
            observer=observer,
            timing=runtime.timing,
        )
        self.peer = Queues(outbox=self.outbox, inbox=self.inbox, interact=self._interact)
        self.comparer = Comparer(
            inventories=inventories,
            send=self.outbox.add,
            found=self._differ,
            finished=self._finished,
            source=source,
            new_id=runtime.new_id,
            turns=turns,
        )

    @property
    def connected(self) -> bool:
        return self.peer.connected

    @property
    def connected_seconds(self) -> float:
        return self.timing.monotonic() - self._connected_at if self.connected else 0.0

    @property
    def compares(self) -> bool:
        """The peer is one of ours."""
        return capabilities.RANGES in self.extensions

    @property
    def keeps_deadlines(self) -> bool:
        """The peer carries out a request once, in its time, unless it is withdrawn."""
        return capabilities.REQUESTS in self.extensions

    @property
    def moves_state(self) -> bool:
        """Something that keeps both ends in step is being applied here or, most likely, still on its way to there."""
        return self.inbox.is_busy or self.timing.monotonic() - self.state_sent_at < STATE_SECONDS

    @property
    def repeats_reads(self) -> bool:
        """Neither reads nor their answers are acknowledged: the peer asks, or is asked, again."""
        return capabilities.READS in self.extensions

    def post(self, event: Event, *, seconds: float, once: bool, answers_read: bool = False) -> bool:
        """A request or an answer, before all state; False where there is no room. Who does not keep deadlines is
        sent nothing twice.
        """
        self.figures.sent.inc()
        self._delayed.flush()
        keeps = self.keeps_deadlines
        once = once or not keeps or (answers_read and self.repeats_reads)
        return self.outbox.interactive.add(carrying_trace(event), seconds=seconds, once=once, told=keeps)

    def send(self, event: Event, *, provides: str = "", needs: str = "") -> bool:
        """What needs a name leaves when what provides it has arrived."""
        self.figures.sent.inc()
        self.state_sent_at = self.timing.monotonic()
        event = carrying_trace(event)
        if self.spans is not None:
            event = self.spans.begun(event)
        taken = self.outbox.add(event, provides=provides, needs=needs)
        self.per_peer.sent(event, taken=taken)
        if self.spans is not None and not taken:
            self.spans.ended(event, error=NO_ROOM)
        return taken

    def compare(self, *scopes: str) -> None:
        """Of these scopes this end is the source."""
        self._scopes = scopes
        for scope in scopes:
            self.comparer.start(scope)

    def compare_in_turn(self, scope: str) -> None:
        """Because the peer came."""
        self._scopes = (scope,)
        self.comparer.start_in_turn(scope)

    async def serve(self, stream: Stream) -> Ending:
        self._connected_at = self.timing.monotonic()
        try:
            return await self.peer.serve(stream, batches=capabilities.BATCHES in self.extensions)
        except SurroundingsError:
            self.per_peer.send_errors[STREAM_LOST] += 1
            raise

    def overflowed(self) -> None:
        """When what did fit has been delivered, a comparison finds the rest; one under way may be past it."""
        self._overflowed_again = self._overflowed_again or not self._telling
        if self._repairing is None:
            loop = asyncio.get_running_loop()
            # A context of its own: what it sends does not follow from the event that had no room.
            self._repairing = loop.create_task(
                self._repair(), name=f"repairs {self.outbox.peer}", context=Context()
            )
            self._repairing.add_done_callback(self._repaired)

    async def close(self) -> None:
        if self._repairing is not None:
            self._repairing.cancel()
            await asyncio.gather(self._repairing, return_exceptions=True)
        if self.spans is not None:
            self.spans.close()
        self.comparer.close()
        self._delayed.close()
        await self.unsent.close()
        await self.peer.close()

    async def _repair(self) -> None:
        await self.outbox.settled()
        if self._fruitless:
            await asyncio.sleep(FRUITLESS.delay(self._fruitless, self.timing.random))
        self._overflowed_again = False
        self.outbox.take_marks()
        self.comparer.want_unanswered()
        self.handler.relieved()
        if self.compares:
            self.compare(*self._scopes)
            return
        for tell in list(self.handler.everything()):
            while not self._told(tell):
                await self.outbox.settled()
                self.outbox.take_marks()

    def _told(self, tell: SendAttempt) -> bool:
        """What finds no room here is told as soon as there is some, and needs no other repair."""
        self._telling = True
        try:
            return tell()
        finally:
            self._telling = False

    def _repaired(self, task: asyncio.Task[None]) -> None:
        self._repairing = None
        if not task.cancelled() and task.exception() is not None:
            log.error("repair failed", **{logs.PEER: self.outbox.peer}, exc_info=task.exception())
            return
        if not self.compares:
            self._fruitless = self._fruitless + 1 if self._overflowed_again else 0
        if self._overflowed_again and not task.cancelled():
            self.overflowed()

    def _acknowledge(self, event: Event) -> None:
        self.outbox.add(acknowledgement(event, source=self._source))

    def _interact(self, event: Event) -> None:
        """Acknowledged before it is done: the answer says how that went, and a deadline is all the patience it has."""
        self.figures.received.inc()
        if not (self.handler.interact(event) and self.repeats_reads):
            self._delayed.add(event)

    async def _handle(self, event: Event) -> None:
        if event.target == comparison.TARGET:
            self.comparer.handle(event)
            return
        status, began = FAILURE, self.timing.monotonic()
        try:
            with nullcontext() if self.spans is None else self.spans.applying(event):
                await self.handler.handle(event)
            status = SUCCESS
        finally:
            self.per_peer.applied(event, self.timing.monotonic() - began, status=status)

    def _differ(self, scope: str, differences: list[Difference]) -> None:
        DIFFERENT.inc(len(differences))
        log.info(
            "the other end has something else: sent again",
            **{logs.PEER: self.outbox.peer, logs.COUNT: len(differences), logs.KIND: scope},
        )
        if self._fruitless:  # or the same ones would find room each time
            self.timing.random.shuffle(differences)
        self.handler.repair(scope, differences)

    def _finished(self, report: ComparisonReport) -> None:
        COMPARED.inc(report.compared)
        in_vain = not report.complete or report.differences >= self._differed > 0
        self._fruitless = self._fruitless + 1 if in_vain else 0
        self._differed = report.differences
        self._inventories.release()
        self.handler.compared(report)
