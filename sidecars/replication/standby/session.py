"""One stream from a primary: what it says is checked, written and acknowledged."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import orjson

from argocd.agents.replication import copy_digest
from sidecars.delivery.comparison import ComparisonQuestion, answer
from sidecars.delivery.timing import Timing
from sidecars.replication import metrics
from sidecars.replication.kinds import BY_NAME, ObjectKey
from sidecars.replication.messages import (
    PrimaryMessage,
    PrimaryWord,
    ReplicaMessage,
    ReplicaStream,
    ReplicatedItem,
    ReplicaWord,
    RunningHash,
    decode_items,
    read_absences,
    read_counts,
    read_kind_comparison,
    read_snapshot_end,
)
from sidecars.replication.objects import ReplicatedObjects
from sidecars.replication.standby.apply import Applier
from sidecars.replication.standby.brakes import DeletionBrake
from sidecars.replication.standby.progress import Progress, Token
from sidecars.replication.standby.surplus import Surplus
from sidecars.wire.errors import MalformedError
from tiphys.errors import SurroundingsError

SILENCE_SECONDS = 30.0
"""A primary tells its progress every five seconds."""
SETTLE_SECONDS = 30.0
"""For what came before a question to be written; a comparison is not held up for ever by one object."""
TURNS_OF_A_WRITE = 2
"""Of the event loop, until what a message brought is on its way to the API server: its task, and that of the request's
body. Everything else comes after it.
"""
MOST_QUESTIONS = 64
"""Waiting for an answer: four of each kind."""


class GapError(SurroundingsError):
    """A message is missing, doubled or changed: the stream is of no use any more."""


@dataclass(slots=True)
class Comparisons:
    """What the last comparisons said, across streams."""

    equal: dict[str, bool] = field(default_factory=dict)
    at: datetime | None = None
    monotonic: float | None = None

    @property
    def is_equal(self) -> bool:
        return all(self.equal.get(kind) is True for kind in BY_NAME)

    def forget(self) -> None:
        self.equal.clear()
        self.at = self.monotonic = None


@dataclass(frozen=True, slots=True)
class SessionSafeguards:
    """All on; a test switches one off to see that it is needed."""

    checksums: bool = True
    numbers: bool = True
    brake: bool = True


class FollowingSession:
    """`run` ends by SurroundingsError or MalformedError when the stream does; then `close` it."""

    def __init__(
        self,
        stream: ReplicaStream,
        *,
        objects: ReplicatedObjects,
        applier: Applier,
        progress: Progress,
        comparisons: Comparisons,
        surplus: Surplus,
        notes_replaced: Callable[[], bool],
        timing: Timing,
        observe: Callable[[], None],
        safeguards: SessionSafeguards,
    ) -> None:
        self._stream = stream
        self._objects = objects
        self._applier = applier
        self.progress = progress
        self._comparisons = comparisons
        self._surplus = surplus
        self._notes_replaced = notes_replaced
        surplus.begin_stream()
        self.counts: Mapping[str, int] = {}
        """By kind: what the primary said it has, when the log was not enough."""
        self._timing = timing
        self._observe = observe
        self._safeguards = safeguards
        self.brake = DeletionBrake(progress=progress, delete=self._delete, enabled=safeguards.brake)
        self._number = 0
        self._transfer = RunningHash()
        self._questions: asyncio.Queue[ComparisonQuestion] = asyncio.Queue(maxsize=MOST_QUESTIONS)
        self._round = ""
        self._sending = asyncio.Lock()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._acknowledge(), name="acknowledgements")
            group.create_task(self._answer(), name="comparisons")
            while True:
                message = await self._receive()
                self._handle(message)
                for _ in range(TURNS_OF_A_WRITE):
                    await asyncio.sleep(0)
                self._observe()

    async def _receive(self) -> PrimaryMessage:
        try:
            async with asyncio.timeout(SILENCE_SECONDS):
                message = await self._stream.receive()
        except TimeoutError as error:
            raise SurroundingsError(f"the primary has said nothing for {SILENCE_SECONDS:.0f} s") from error
        if message is None:
            raise SurroundingsError("the primary has ended the stream")
        if self._safeguards.numbers and message.number != self._number + 1:
            metrics.GAPS.inc()
            raise GapError(f"message {message.number} came where {self._number + 1} was due")
        if self._safeguards.checksums and not message.is_whole:
            metrics.GAPS.inc()
            raise GapError(f"message {message.number} was changed on its way")
        self._number = message.number
        return message

    def _handle(self, message: PrimaryMessage) -> None:
        self.progress.saw(message.sequence)
        match message.word:
            case PrimaryWord.ENTRIES:
                self._put(message)
            case PrimaryWord.OBJECTS:
                for item in self._put(message):
                    self._transfer.add(item)
                    self._note_replaced(item)
            case PrimaryWord.BEHIND:
                self.counts = read_counts(message.payload)
                self.progress.arrive(len(message.payload), 0)
                self.progress.fall_behind(message.sequence)
            case PrimaryWord.SYNCED:
                self.progress.sync(message.sequence)
            case PrimaryWord.PROGRESS:
                self.progress.changed.set()  # an answer, so that the primary knows that we are here
            case _:
                self._handle_comparison(message)
        self.progress.complete(message.complete)

    def _handle_comparison(self, message: PrimaryMessage) -> None:
        match message.word:
            case PrimaryWord.COMPLETE:
                self._complete(message)
            case PrimaryWord.QUESTION:
                self._ask(message)
            case PrimaryWord.ABSENT:
                self._absent(message)
            case PrimaryWord.COMPARED:
                self._compared(message)

    def _put(self, message: PrimaryMessage) -> list[ReplicatedItem]:
        items = decode_items(message.payload)
        tokens = self.progress.arrive(len(message.payload), len(items))
        self.progress.saw(max((item.sequence for item in items), default=0))
        for item, token in zip(items, tokens, strict=True):
            held = self.brake.take(item.key)
            self._applier.put(item, *([token] if held is None else [held, token]))
        metrics.RECEIVED.inc(len(items))
        return items

    def _delete(self, key: ObjectKey, sequence: int, token: Token) -> None:
        self._surplus.deleted(key)
        self._applier.put(ReplicatedItem(key, sequence, None), token)

    def _note_replaced(self, item: ReplicatedItem) -> None:
        """Until all is equal: what differs was written here after the other one was promoted, or there."""
        here = self._objects.inventories[item.key.kind].get(item.key.text)
        if here is None or not self._notes_replaced():
            return
        if here != copy_digest(orjson.loads(item.body or b"{}")):
            self._surplus.replaced(item.key)

    def _complete(self, message: PrimaryMessage) -> None:
        completion = read_snapshot_end(message.payload)
        running, self._transfer = self._transfer, RunningHash()
        self.progress.arrive(len(message.payload), 0)
        if self._safeguards.checksums and (running.count, running.text) != (
            completion.count,
            completion.hash,
        ):
            metrics.SNAPSHOT_ERRORS.inc()
            raise GapError(
                f"{running.count} {completion.kind} came, {completion.count} were sent, or they were changed"
            )

    # Comparisons.

    def _ask(self, message: PrimaryMessage) -> None:
        question = ComparisonQuestion.read(message.payload)
        if question.scope not in BY_NAME or self._questions.full():
            raise MalformedError("a question about nothing, or too many at once")
        if question.round != self._round:
            self._round = question.round
            self._applier.begin_comparison(message.sequence)
        self.progress.arrive(len(message.payload), 0)
        self._questions.put_nowait(question)

    async def _answer(self) -> None:
        """Each as of everything that came before it."""
        while True:
            question = await self._questions.get()
            try:
                async with asyncio.timeout(SETTLE_SECONDS):
                    await self.progress.settled()
            except TimeoutError:
                pass  # the primary sends what is still missing once more, which does no harm
            await self._applier.seen()
            reply = answer(self._objects.inventories[question.scope], question)
            await self._send(ReplicaWord.ANSWER, payload=reply.payload())

    def _absent(self, message: PrimaryMessage) -> None:
        absences = read_absences(message.payload)
        tokens = self.progress.arrive(len(message.payload), len(absences.names))
        here = len(self._objects.inventories[absences.kind])
        self.brake.absent(absences, tokens, sequence=message.sequence, here=here)

    def _compared(self, message: PrimaryMessage) -> None:
        verdict = read_kind_comparison(message.payload)
        self.progress.arrive(len(message.payload), 0)
        self.brake.compared(verdict.kind)
        if verdict.equal:
            self._applier.found_equal(verdict.kind)
        self._comparisons.equal[verdict.kind] = verdict.equal
        self._comparisons.at = self._timing.now()
        self._comparisons.monotonic = self._timing.monotonic()
        metrics.EQUAL.labels(verdict.kind).set(verdict.equal)
        metrics.RECONCILIATIONS.inc()

    # Answers.

    async def _acknowledge(self) -> None:
        while True:
            await self.progress.changed.wait()
            self.progress.changed.clear()
            await self._send(ReplicaWord.ACKNOWLEDGED)
            self._observe()

    async def _send(self, word: ReplicaWord, *, payload: bytes = b"") -> None:
        async with self._sending:
            await self._stream.send(
                ReplicaMessage(
                    word=word,
                    acknowledged=self.progress.applied,
                    taken=self.progress.taken,
                    held=self.brake.held,
                    payload=payload,
                )
            )
