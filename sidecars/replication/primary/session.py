"""One stream to one replica: the log from its cursor on, and whatever a comparison finds that the log cannot bring."""

import asyncio
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import orjson

from argocd.agents.replication import replicated_copy
from kube.store import Object
from sidecars.delivery.comparison import ComparisonAnswer, ComparisonRound
from sidecars.replication import metrics
from sidecars.replication.kinds import KINDS, ObjectKey, ReplicatedKind
from sidecars.replication.messages import (
    CHUNK_BYTES,
    MOST_ABSENT,
    Absences,
    KindComparison,
    PrimaryMessage,
    PrimaryStream,
    PrimaryWord,
    ReplicaMessage,
    ReplicaStart,
    ReplicatedItem,
    ReplicaWord,
    RunningHash,
    SnapshotEnd,
    checksum,
    encode,
    encode_counts,
    encode_items,
)
from sidecars.replication.objects import ReplicatedObjects
from sidecars.replication.primary.log import ReplicationLog, TruncatedError
from sidecars.wire.errors import MalformedError
from tiphys import logs
from tiphys.errors import SurroundingsError

WINDOW_BYTES = 2 * CHUNK_BYTES
"""Under way to a replica at most: what it has not taken yet."""
COMPARE_SECONDS = 60.0
"""The longest that a silent difference lives."""
PROGRESS_SECONDS = 5.0
SILENCE_SECONDS = 30.0
"""A replica answers each word of progress: one that says nothing for six of them is gone."""
ANSWER_SECONDS = 120.0
"""For a question: the replica writes everything that came before it first."""
SNAPSHOT_SHARE = 16
"""A replica with less than one in so many of a kind gets all of it; else a comparison costs less."""

log = logs.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    window: int = WINDOW_BYTES
    chunk: int = CHUNK_BYTES
    compare_seconds: float = COMPARE_SECONDS


@dataclass(slots=True)
class _Findings:
    """Of one kind."""

    wrong: list[ObjectKey] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    asked: int = sys.maxsize
    """What had been sent when it was found: a later change of an object counts more."""

    def __len__(self) -> int:
        return len(self.wrong) + len(self.absent)


class ReplicaSession:
    """`run` returns when the replica has left and raises SurroundingsError when the stream is lost."""

    def __init__(
        self,
        stream: PrimaryStream,
        *,
        replication_log: ReplicationLog,
        objects: ReplicatedObjects,
        start: ReplicaStart,
        resumes: bool,
        clock: Callable[[], float],
        limits: SessionLimits,
    ) -> None:
        self._stream = stream
        self._log = replication_log
        self._objects = objects
        self._start = start
        self._clock = clock
        self._limits = limits
        self.sent = start.sequence if resumes else replication_log.last
        """The sequence up to which everything was sent, or is found by comparing."""
        self.acknowledged = start.sequence if resumes else 0
        self.held: dict[str, int] = {}
        self.equal: dict[str, bool] = {}
        self.compared_at: float | None = None
        self.is_behind = not resumes
        """The log alone is not enough."""
        self._is_syncing = not resumes
        self._complete = self.acknowledged
        self._incomplete_until = 0
        """The log has left something out that a later entry replaces, which comes up to here."""
        self._resync = asyncio.Event()
        if self.is_behind or not start.whole:
            self._resync.set()
        self._number = 0
        self._turn = asyncio.Lock()
        """To wait for room: in the order in which they came."""
        self._sending = asyncio.Lock()
        self._sent_bytes = 0
        self._taken = 0
        self._room = asyncio.Event()
        self._comparing = asyncio.Lock()
        self._acknowledgement = asyncio.Event()
        self._rounds = 0
        self._answers: asyncio.Queue[ComparisonAnswer] = asyncio.Queue(maxsize=64)
        self._heard = clock()

    async def run(self) -> None:
        if self.is_behind:
            await self._tell_behind()
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(work, name=name)
                for name, work in (
                    ("log", self._send_log()),
                    ("sync", self._keep_in_sync()),
                    ("progress", self._tell_progress()),
                )
            ]
            await self._receive()
            for task in tasks:
                task.cancel()

    # What the replica says.

    async def _receive(self) -> None:
        while (message := await self._stream.receive()) is not None:
            self._heard = self._clock()
            self._note(message)
            if message.word is ReplicaWord.ANSWER:
                if self._answers.full():
                    raise MalformedError("more answers than questions")
                self._answers.put_nowait(ComparisonAnswer.read(message.payload))

    def _note(self, message: ReplicaMessage) -> None:
        if message.acknowledged > self.sent or message.taken > self._sent_bytes:
            raise MalformedError(f"{message.acknowledged} is acknowledged, {self.sent} was sent")
        self.acknowledged = max(self.acknowledged, message.acknowledged)
        self._taken = max(self._taken, message.taken)
        self.held = dict(message.held)
        self._room.set()
        self._acknowledgement.set()

    # What it is told.

    async def _send(
        self, word: PrimaryWord, *, sequence: int | None = None, up_to: int = 0, payload: bytes = b""
    ) -> int:
        """Returns the sequence up to which everything has been sent, which is also the message's unless told."""
        if not payload:  # needs no room: a word of progress must not wait for a replica that cannot write
            return await self._send_now(word, sequence=sequence, up_to=up_to)
        async with self._turn:
            await self._wait_for_room(len(payload))
            return await self._send_now(word, sequence=sequence, up_to=up_to, payload=payload)

    async def _send_now(
        self, word: PrimaryWord, *, sequence: int | None, up_to: int, payload: bytes = b""
    ) -> int:
        async with self._sending:
            self.sent = max(self.sent, up_to)
            self._number += 1
            self._sent_bytes += len(payload)
            sent = self.sent
            await self._stream.send(
                PrimaryMessage(
                    word=word,
                    number=self._number,
                    sequence=sent if sequence is None else sequence,
                    complete=self._completed(),
                    payload=payload,
                    checksum=checksum(payload),
                )
            )
        metrics.SENT_BYTES.inc(len(payload))
        return sent

    async def _tell_behind(self) -> None:
        counts = encode_counts(self._objects.counts())
        await self._send(PrimaryWord.BEHIND, sequence=self.sent, payload=counts)

    def _completed(self) -> int:
        if not self._is_syncing and self.sent >= self._incomplete_until:
            self._complete = self.sent
        return self._complete

    async def _wait_for_room(self, size: int) -> None:
        while (under_way := self._sent_bytes - self._taken) and under_way + size > self._limits.window:
            self._room.clear()
            await self._room.wait()

    async def _tell_progress(self) -> None:
        while True:
            await asyncio.sleep(PROGRESS_SECONDS)
            if self._clock() - self._heard > SILENCE_SECONDS:
                raise SurroundingsError(f"the replica has said nothing for {SILENCE_SECONDS:.0f} s")
            await self._send(PrimaryWord.PROGRESS, sequence=self._log.last)

    async def _send_log(self) -> None:
        while True:
            await self._log.grown(self.sent)
            await self._wait_for_room(1)  # what waits is compacted meanwhile
            try:
                entries = self._log.after(self.sent, limit=self._limits.chunk)
            except TruncatedError as error:
                metrics.OVERFLOWS.inc()
                log.warning("a replica is behind the log and is compared", **{logs.REASON: str(error)})
                self.sent = self._log.last
                self.is_behind = self._is_syncing = True
                await self._tell_behind()
                self._resync.set()
                continue
            last = entries[-1].sequence
            if last - self.sent > len(entries):
                self._incomplete_until = self._log.last
            items = [ReplicatedItem(entry.key, entry.sequence, entry.body) for entry in entries]
            await self._send(PrimaryWord.ENTRIES, up_to=last, payload=encode_items(items))
            metrics.FORWARDED.inc(len(entries))

    # Comparing.

    async def _keep_in_sync(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._limits.compare_seconds):
                    await self._resync.wait()
            except TimeoutError:
                await self.compare()
                continue
            self._resync.clear()
            await self._synchronise()

    async def _synchronise(self) -> None:
        """Until the replica has everything up to what had been sent when this began."""
        sequence, behind = self.sent, self.is_behind
        self.is_behind = False
        if behind:
            async with self._comparing:
                await self._send_snapshots()
        await self.compare()
        self._is_syncing = self.is_behind  # or it fell behind once more
        await self._send(PrimaryWord.SYNCED, sequence=sequence)

    async def _send_snapshots(self) -> None:
        """Of the kinds of which the replica has next to nothing."""
        for kind in KINDS:
            there = self._start.counts.get(kind.name, 0)
            if there * SNAPSHOT_SHARE < len(self._objects.inventories[kind.name]):
                metrics.SNAPSHOTS.inc()
                await self._send_objects(kind, self._objects.items(kind))
        self._start = ReplicaStart(counts=self._objects.counts())

    async def compare(self) -> None:
        """All kinds; what differs is repaired, and those kinds are compared once more."""
        async with self._comparing:
            kinds = list(KINDS)
            for _ in range(2):
                metrics.COMPARISONS.inc()
                found = await self._find_differences(kinds)
                for kind in kinds:
                    await self._repair(kind, found[kind.name])
                kinds = [kind for kind in kinds if found[kind.name]]
                if not kinds:
                    break
            self.compared_at = self._clock()

    async def caught_up(self, sequence: int) -> None:
        """Returns when the replica has acknowledged `sequence`; bound it."""
        while self.acknowledged < sequence:
            self._acknowledgement.clear()
            await self._acknowledgement.wait()

    async def _repair(self, kind: ReplicatedKind, findings: _Findings) -> None:
        present = ((key, item) for key in findings.wrong if (item := self._objects.get(key)) is not None)
        if findings.wrong:
            await self._send_objects(kind, present)
        for start in range(0, len(findings.absent), MOST_ABSENT):
            absences = Absences(
                kind=kind.name,
                total=len(findings.absent),
                present=len(self._objects.inventories[kind.name]),
                names=findings.absent[start : start + MOST_ABSENT],
            )
            await self._send(PrimaryWord.ABSENT, sequence=findings.asked, payload=encode(absences))
        self.equal[kind.name] = not findings
        verdict = KindComparison(
            kind=kind.name,
            equal=not findings,
            repaired=len(findings),
            mark=self._objects.inventories[kind.name].mark().hex(),
        )
        await self._send(PrimaryWord.COMPARED, sequence=self._log.last, payload=encode(verdict))

    async def _find_differences(self, kinds: list[ReplicatedKind]) -> dict[str, _Findings]:
        """Without what the log is about to bring anyway."""
        found = {kind.name: _Findings() for kind in kinds}
        self._rounds += 1
        rounds = {
            kind.name: ComparisonRound(
                self._objects.inventories[kind.name], scope=kind.name, name=str(self._rounds)
            )
            for kind in kinds
        }
        sent: dict[tuple[str, int], int] = {}
        while not all(each.done for each in rounds.values()):
            for scope, each in rounds.items():
                for question in each.ask():
                    sent[scope, question.number] = await self._send(
                        PrimaryWord.QUESTION, payload=question.payload()
                    )
            answer = await self._next_answer()
            asked = sent.pop((answer.scope, answer.number), None)
            if asked is None or answer.round != str(self._rounds):
                continue
            for difference in rounds[answer.scope].receive(answer):
                key = ObjectKey(answer.scope, *_parted(difference.key))
                if (newer := self._log.sequence_of(key)) > asked:
                    self._incomplete_until = max(self._incomplete_until, newer)
                    continue
                findings = found[answer.scope]
                findings.asked = min(findings.asked, asked)
                if difference.mine is None:
                    findings.absent.append(difference.key)
                else:
                    findings.wrong.append(key)
        return found

    async def _next_answer(self) -> ComparisonAnswer:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._answers.get()
        except TimeoutError as error:
            raise SurroundingsError(
                f"the replica has not answered a comparison for {ANSWER_SECONDS:.0f} s"
            ) from error

    async def _send_objects(self, kind: ReplicatedKind, items: Iterable[tuple[ObjectKey, Object]]) -> None:
        """As they are now, whatever happens to them meanwhile: the log tells of that."""
        sequence = self._log.last
        running = RunningHash()
        # The objects are never changed, only replaced: this holds on to them, not to their encoding.
        for chunk in _chunks(list(items), sequence=sequence, limit=self._limits.chunk, running=running):
            metrics.SNAPSHOT_OBJECTS.inc(len(chunk))
            await self._send(PrimaryWord.OBJECTS, sequence=sequence, payload=encode_items(chunk))
        completion = SnapshotEnd(kind=kind.name, count=running.count, hash=running.text)
        await self._send(PrimaryWord.COMPLETE, sequence=sequence, payload=encode(completion))


def _chunks(
    items: list[tuple[ObjectKey, Object]], *, sequence: int, limit: int, running: RunningHash
) -> Iterator[list[ReplicatedItem]]:
    chunk: list[ReplicatedItem] = []
    size = 0
    for key, item in items:
        body = orjson.dumps(replicated_copy(item))
        if chunk and size + len(body) > limit:
            yield chunk
            chunk, size = [], 0
        replicated = ReplicatedItem(key, sequence, body)
        running.add(replicated)
        chunk.append(replicated)
        size += len(body)
    if chunk:
        yield chunk


def _parted(text: str) -> tuple[str, str]:
    namespace, _, name = text.partition("/")
    return namespace, name
