"""The primary of a pair: its log, and the replicas that read it."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import orjson

from kube.store import Object
from sidecars.delivery.timing import Timing
from sidecars.replication import metrics
from sidecars.replication.kinds import ObjectKey
from sidecars.replication.messages import PrimaryStream, ReplicaStart
from sidecars.replication.objects import ReplicatedObjects
from sidecars.replication.primary.log import LOG_BYTES, ReplicationLog
from sidecars.replication.primary.session import ReplicaSession, SessionLimits
from sidecars.wire.errors import MalformedError
from sidecars.wire.events import exact
from tiphys import logs
from tiphys.errors import CallError, SurroundingsError

MAX_REPLICAS = 10
REACHED_SECONDS = 0.05
"""Between two looks whether a replica has everything: an operator waits for it."""

log = logs.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStatus:
    """One replica as its primary sees it."""

    identity: str
    address: str
    connected: bool
    sent: int
    acknowledged: int
    lag_events: int
    lag_bytes: int
    lag_seconds: float
    digests_equal: Mapping[str, bool] = field(default_factory=dict)
    """By kind; empty before the first comparison."""
    compared_seconds: float | None = None
    """Since the last comparison."""
    held_deletions: Mapping[str, int] = field(default_factory=dict)
    principal: str = ""
    """The id that it gives itself; `identity` is its certificate's."""


class ReplicaRefusedError(CallError):
    """What the replica says of itself does not fit: it must not go on from there."""


@dataclass(slots=True)
class _Replica:
    identity: str
    address: str
    session: ReplicaSession
    principal: str
    task: "asyncio.Task[None] | None" = None


class ReplicationSource:
    """Feeds the log while started; `serve` is called for each stream of a replica."""

    def __init__(
        self,
        objects: ReplicatedObjects,
        *,
        timing: Timing,
        log_bytes: int = LOG_BYTES,
        limits: SessionLimits | None = None,
    ) -> None:
        self._objects = objects
        self._timing = timing
        self._log_bytes = log_bytes
        self._limits = limits or SessionLimits()
        self._log: ReplicationLog | None = None
        self._history = ""
        self._unlisten: Callable[[], None] | None = None
        self._replicas: dict[str, _Replica] = {}
        self._joined = asyncio.Event()

    # The life of it.

    async def start(self, *, epoch: int, history: str) -> None:
        """`history` is a new one each time: numbers begin anew."""
        if self._log is not None:
            await self.stop()
        self._history = history
        self._log = ReplicationLog(limit=self._log_bytes, clock=self._timing.monotonic)
        self._unlisten = self._objects.listen(self._append)
        log.info("replicas are served", epoch=epoch, history=history)

    async def stop(self) -> None:
        """Streams of replicas end; the log is forgotten."""
        if self._unlisten is not None:
            self._unlisten()
            self._unlisten = None
        tasks = [replica.task for replica in self._replicas.values() if replica.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._replicas.clear()
        self._log = None

    def _append(self, key: ObjectKey, copy: Object | None, _former: Object | None) -> None:
        assert self._log is not None
        self._log.append(key, None if copy is None else exact(orjson.dumps(copy)))
        metrics.QUEUED.inc()

    # Replicas.

    async def serve(
        self, identity: str, address: str, stream: PrimaryStream, start: ReplicaStart, *, principal: str = ""
    ) -> None:
        """One stream, to its end; a second one of the same replica ends the first."""
        replication_log = self._log
        if replication_log is None:
            raise SurroundingsError("nothing is replicated from here now")
        resumes = self.resumes(start)
        await self._end_former(identity)
        if len(self._replicas) >= MAX_REPLICAS:
            raise SurroundingsError(f"{MAX_REPLICAS} replicas are connected, which is the most")
        session = ReplicaSession(
            stream,
            replication_log=replication_log,
            objects=self._objects,
            start=start,
            resumes=resumes,
            clock=self._timing.monotonic,
            limits=self._limits,
        )
        (metrics.RESUMES if resumes else metrics.RESYNCS).inc()
        replica = self._replicas[identity] = _Replica(identity, address, session, principal)
        replica.task = asyncio.get_running_loop().create_task(_ran(session), name=f"replica {identity}")
        replica.task.add_done_callback(_fetch)
        self._joined.set()
        log.info("replica connected", **{logs.PEER: identity, "resumes": resumes})
        try:
            await asyncio.wait({replica.task})
            if not replica.task.cancelled() and (error := replica.task.exception()) is not None:
                raise error
            if replica.task.cancelled():
                raise SurroundingsError("replication ends here")
        finally:
            replica.task.cancel()
            if self._replicas.get(identity) is replica:
                del self._replicas[identity]
            log.info("replica disconnected", **{logs.PEER: identity})

    async def _end_former(self, identity: str) -> None:
        former = self._replicas.pop(identity, None)
        if former is not None and former.task is not None:
            former.task.cancel()
            await self._ended(former)

    async def _ended(self, replica: _Replica) -> None:
        if replica.task is not None:
            await asyncio.wait({replica.task})

    def resumes(self, start: ReplicaStart) -> bool:
        """Whether the log has all that a replica lacks; raises ReplicaRefusedError where it has more than we."""
        replication_log = self._log
        if replication_log is None or start.history != self._history:
            return False
        if start.sequence > replication_log.last:
            raise ReplicaRefusedError(
                f"the replica says it has sequence {start.sequence} of history {self._history},"
                f" which has got to {replication_log.last}"
            )
        return start.sequence >= replication_log.floor

    # Figures.

    def current_log(self) -> ReplicationLog | None:
        return self._log

    @property
    def last_sequence(self) -> int:
        return self._log.last if self._log is not None else 0

    @property
    def log_size(self) -> tuple[int, int]:
        """Entries and bytes."""
        return (len(self._log), self._log.bytes) if self._log is not None else (0, 0)

    def digests(self) -> Mapping[str, str]:
        return self._objects.digests()

    def measure(self) -> None:
        """For a scrape."""
        statuses = self.replicas()
        metrics.REPLICAS.set(len(statuses))
        metrics.LAST_SEQUENCE.set(self.last_sequence)
        entries, size = self.log_size
        metrics.LOG_ENTRIES.set(entries)
        metrics.LOG_BYTES.set(size)
        if self._log is not None:
            metrics.LAG_SECONDS.set(max((status.lag_seconds for status in statuses), default=0.0))
        for gauge in (metrics.REPLICA_LAG_EVENTS, metrics.REPLICA_LAG_BYTES, metrics.REPLICA_LAG_SECONDS):
            gauge.clear()
        metrics.REPLICA_EQUAL.clear()
        for status in statuses:
            metrics.REPLICA_LAG_EVENTS.labels(status.identity).set(status.lag_events)
            metrics.REPLICA_LAG_BYTES.labels(status.identity).set(status.lag_bytes)
            metrics.REPLICA_LAG_SECONDS.labels(status.identity).set(status.lag_seconds)
            for kind, equal in status.digests_equal.items():
                metrics.REPLICA_EQUAL.labels(status.identity, kind).set(equal)

    def replicas(self) -> list[ReplicaStatus]:
        return [self._status(replica) for replica in self._replicas.values()]

    def _status(self, replica: _Replica) -> ReplicaStatus:
        session, now = replica.session, self._timing.monotonic()
        assert self._log is not None
        oldest = self._log.oldest_after(session.acknowledged)
        return ReplicaStatus(
            identity=replica.identity,
            address=replica.address,
            connected=True,
            sent=session.sent,
            acknowledged=session.acknowledged,
            lag_events=self._log.last - session.acknowledged,
            lag_bytes=self._log.bytes_after(session.acknowledged),
            lag_seconds=max(0.0, now - oldest) if oldest is not None else 0.0,
            digests_equal=dict(session.equal),
            compared_seconds=None if session.compared_at is None else now - session.compared_at,
            held_deletions=dict(session.held),
            principal=replica.principal,
        )

    async def reached(self, identity: str) -> None:
        """Returns when the replica has acknowledged what is last now and a comparison after that was equal; bound it.

        What others write meanwhile is not waited for: where somebody always writes, nothing would be the last.
        """
        sequence = self.last_sequence
        while True:
            replica = self._replicas.get(identity)
            if replica is None:
                self._joined.clear()
                await self._joined.wait()
                continue
            session = replica.session
            try:
                await session.caught_up(sequence)
                await session.compare()
            except SurroundingsError:
                await self._ended(replica)
                continue
            if all(session.equal.values()):
                return


def _fetch(task: asyncio.Task[None]) -> None:
    """Whoever waited for it may be gone, and asyncio would complain."""
    if not task.cancelled():
        task.exception()


async def _ran(session: ReplicaSession) -> None:
    """The session's own error instead of a group of them."""
    try:
        await session.run()
    except* (SurroundingsError, MalformedError) as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise SurroundingsError(str(error)) from None
