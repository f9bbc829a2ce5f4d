"""A standby that follows its primary: one stream after the other, and nothing of it writes once it has stopped."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from kube.errors import ApiError
from kube.store import Store
from sidecars.delivery.timing import Backoff, Timing
from sidecars.replication import metrics
from sidecars.replication.kinds import BY_NAME, CLUSTER, ObjectKey, kind_called
from sidecars.replication.messages import ReplicaStart, ReplicaStream
from sidecars.replication.objects import ReplicatedObjects
from sidecars.replication.standby.adoption import AdoptedCounts, CopyAdoption
from sidecars.replication.standby.apply import Applier, ApplySettings
from sidecars.replication.standby.cursor import CursorStore, ReplicationCursor
from sidecars.replication.standby.follower_progress import FollowerProgress
from sidecars.replication.standby.progress import Progress
from sidecars.replication.standby.session import Comparisons, FollowingSession, SessionSafeguards
from sidecars.replication.standby.surplus import Surplus
from sidecars.wire.errors import MalformedError
from tiphys import logs
from tiphys.errors import CallError, SurroundingsError

if TYPE_CHECKING:
    from sidecars.replication.standby.dead_letters import UnwrittenObject

RECONNECT = Backoff(base=0.5, ceiling=15.0)
GOOD_SECONDS = 30.0
"""A stream that lived so long was a good one: the next failure is a new one."""
CURSOR_SECONDS = 1.0
"""Between two writes of the cursor: an older one costs a restart a few entries more."""
NOT_COMPARED = "not connected to the primary: what is to be deleted is found by comparing anew"

log = logs.get_logger()


class FollowerController(Protocol):
    """Whoever decides what this principal is, told how following goes."""

    def syncing(self) -> None: ...

    def in_sync(self) -> None: ...

    def disconnected(self, reason: str) -> None: ...


class FollowedStream(ReplicaStream, Protocol):
    @property
    def history(self) -> str:
        """Of the primary's log, as it said at the beginning."""
        ...


Connect = Callable[[ReplicaStart], AbstractAsyncContextManager[FollowedStream]]
"""Raises SurroundingsError where there is no primary, or one that does not want us, and says why."""


class Follower:
    """`load`, then `start` and `stop` as often as need be."""

    def __init__(
        self,
        store: Store,
        objects: ReplicatedObjects,
        *,
        controller: FollowerController,
        connect: Connect,
        timing: Timing,
        applying: ApplySettings | None = None,
        safeguards: SessionSafeguards | None = None,
    ) -> None:
        self._store = store
        self._objects = objects
        self._controller = controller
        self._connect = connect
        self._timing = timing
        self._applying = applying or ApplySettings()
        self._safeguards = safeguards or SessionSafeguards()
        self._adoption = CopyAdoption(store, objects, timing=timing)
        self._cursors = CursorStore(store, namespace=objects.scope.namespace)
        self._cursor = ReplicationCursor()
        self._kept = ReplicationCursor()
        self._seen = 0
        self._unwritten: dict[ObjectKey, UnwrittenObject] = {}
        self._comparisons = Comparisons()
        self._surplus = Surplus()
        self._may_have_surplus = False
        self._counts: Mapping[str, int] = {}
        self._session: FollowingSession | None = None
        self._problem = "not started"
        self._was_in_sync: bool | None = None
        """What the controller was told last; None: that there is no stream."""
        self._was_equal = False
        self._lagging_since: float | None = None
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._crash: BaseException | None = None
        self._crashed = asyncio.Event()

    async def load(self) -> None:
        """Where the last process of this standby was."""
        self._cursor = self._kept = await self._cursors.read()
        self._seen = self._cursor.seen
        if self._cursor.compared_at is not None:
            age = max(0.0, (self._timing.now() - self._cursor.compared_at).total_seconds())
            self._comparisons.equal = dict(self._cursor.equal)
            self._comparisons.at = self._cursor.compared_at
            self._comparisons.monotonic = self._timing.monotonic() - age

    async def start(self, *, may_have_surplus: bool = False) -> None:
        """`may_have_surplus`: what is here and differs may be what this one wrote and its primary does not know."""
        self._may_have_surplus = may_have_surplus
        await self._adoption.stop()
        if self._task is None:
            self._stopping = asyncio.Event()
            self._task = asyncio.get_running_loop().create_task(self._follow(self._stopping), name="follower")
            self._task.add_done_callback(self._note_end)

    async def stop(self) -> None:
        """Every write under way is awaited; afterwards nothing of this writes."""
        await self._adoption.stop()
        task, self._task = self._task, None
        if task is None:
            return
        self._stopping.set()
        await asyncio.wait({task})
        self._problem = "stopped"
        self._was_in_sync = None  # the controller went its own way meanwhile, and is told anew

    async def ended(self) -> None:
        """For whoever runs it: raises what ended it although nobody stopped it, which is a mistake of ours."""
        await self._crashed.wait()
        assert self._crash is not None
        raise self._crash

    def _note_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._crash = error
            self._crashed.set()

    def accept_deletions(self, kind: str) -> int:
        """An operator's word; returns how many are deleted now."""
        name = kind_called(kind).name
        if self._session is None:
            raise CallError(NOT_COMPARED)
        return self._session.brake.accept(name)

    async def adopt(self) -> AdoptedCounts:
        """Until `stop` or `start`: an active one has no copies."""
        self._forget_comparisons()
        await self._save_cursor()
        return await self._adoption.begin()

    # Following.

    async def _follow(self, stopping: asyncio.Event) -> None:
        """`stopping` is its own: whoever starts another one does not keep it from ending."""
        attempts = 0
        while not stopping.is_set():
            began = self._timing.monotonic()
            metrics.RECONNECTS.inc()
            try:
                await _until(stopping, self._follow_once())
            except* (SurroundingsError, MalformedError) as group:
                self._lost(_first(group))
            if stopping.is_set():
                break
            attempts = 1 if self._timing.monotonic() - began > GOOD_SECONDS else attempts + 1
            pause = RECONNECT.delay(attempts, self._timing.random)
            await _until(stopping, asyncio.sleep(pause))

    async def _follow_once(self) -> None:
        start = ReplicaStart(
            history=self._cursor.history,
            sequence=self._cursor.sequence,
            whole=self._cursor.whole,
            counts=self._objects.counts(),
        )
        async with self._connect(start) as stream:
            resumes = stream.history == self._cursor.history
            progress = Progress(applied=self._cursor.sequence if resumes else 0, behind=not resumes)
            applier = Applier(
                self._store,
                self._objects,
                progress=progress,
                timing=self._timing,
                unwritten=self._unwritten,
                settings=self._applying,
            )
            session = self._session = FollowingSession(
                stream,
                objects=self._objects,
                applier=applier,
                progress=progress,
                comparisons=self._comparisons,
                surplus=self._surplus,
                notes_replaced=lambda: self._may_have_surplus,
                timing=self._timing,
                observe=lambda: self._observe(stream.history, progress),
                safeguards=self._safeguards,
            )
            if not resumes:
                self._seen = 0
                self._forget_comparisons()  # they were with what another one had
            self._problem = ""
            metrics.CONNECTED.set(1)
            log.info("following", history=stream.history, resumes=resumes)
            try:
                async with asyncio.TaskGroup() as group:
                    keeping = group.create_task(self._keep_cursor(), name="cursor")
                    try:
                        await session.run()
                    finally:
                        keeping.cancel()
            finally:
                await applier.close()
                self._observe(stream.history, progress)
                self._session = None
                metrics.CONNECTED.set(0)
                await self._save_cursor()

    def _observe(self, history: str, progress: Progress) -> None:
        self._seen = max(self._seen, progress.seen)
        session, compared = self._session, self._comparisons
        self._may_have_surplus = self._may_have_surplus and not compared.is_equal
        if session is not None and session.counts:
            self._counts = session.counts
        if history == self._cursor.history:
            self._cursor = replace(self._cursor, seen=self._seen)
        if progress.is_behind:
            if self._was_in_sync is not False:
                self._was_in_sync = False
                self._controller.syncing()
        else:
            held = session.brake.held if session is not None else {}
            self._cursor = ReplicationCursor(
                history=history,
                sequence=progress.applied,
                seen=self._seen,
                whole=not held and not self._unwritten,
                synced_once=True,
                equal=dict(compared.equal),
                compared_at=compared.at,
            )
            news = self._was_in_sync is not True or (compared.is_equal and not self._was_equal)
            if news and session is not None:
                self._was_in_sync = True
                self._controller.in_sync()
        self._was_equal = compared.is_equal
        self._measure(progress)

    def _measure(self, progress: Progress) -> None:
        now = self._timing.monotonic()
        if progress.applied >= progress.seen and not progress.is_behind:
            self._lagging_since = None
        elif self._lagging_since is None:
            self._lagging_since = now
        metrics.CLIENT_SEQUENCE.set(progress.applied)

    def measure(self) -> None:
        """For a scrape. One that follows nobody, since it serves, lacks nothing."""
        follows, since = self._task is not None, self._lagging_since
        lag = self._timing.monotonic() - since if follows and since is not None else 0.0
        metrics.CLIENT_LAG.set(lag)
        if follows:
            metrics.LAG_SECONDS.set(lag)
        metrics.CLIENT_AGENTS.set(len(self._objects.inventories[CLUSTER.name]))
        unwritten = Counter(key.kind for key in self._unwritten if follows)
        held = self._session.brake.held if self._session is not None else {}
        for name in BY_NAME:
            metrics.DEAD_LETTERS.labels(name).set(unwritten[name])
            metrics.HELD_DELETIONS.labels(name).set(held.get(name, 0))

    def _lost(self, error: BaseException) -> None:
        self._problem = str(error)[:500]
        self._was_in_sync = None
        self._controller.disconnected(self._problem)
        log.warning("not following", **{logs.REASON: self._problem})

    # The cursor.

    async def _keep_cursor(self) -> None:
        pause = CURSOR_SECONDS
        while True:
            await asyncio.sleep(pause)
            pause = max(CURSOR_SECONDS, await self._save_cursor())

    def _forget_comparisons(self) -> None:
        """They are of no use for a promotion any more."""
        self._comparisons.forget()
        self._cursor = self._cursor.uncompared()

    async def _save_cursor(self) -> float:
        """Returns how many seconds the API server wants to be left alone."""
        cursor = self._cursor
        if cursor == self._kept:
            return 0.0
        try:
            await self._cursors.write(cursor)
        except ApiError as error:
            log.warning("the cursor was not written", **{logs.ERROR: str(error)})
            return error.retry_after
        self._kept = cursor
        return 0.0

    # Figures.

    def progress(self) -> FollowerProgress:
        session = self._session
        progress = session.progress if session is not None else None
        compared = self._comparisons
        now = self._timing.monotonic()
        held = dict(session.brake.held) if session is not None else {}
        return FollowerProgress(
            history=self._cursor.history,
            seen=max(self._seen, progress.seen if progress is not None else 0),
            applied=progress.applied if progress is not None else self._cursor.sequence,
            synced_once=self._cursor.synced_once,
            connected=session is not None,
            digests_equal=dict(compared.equal),
            compared_at=compared.at,
            compared_seconds=None if compared.monotonic is None else now - compared.monotonic,
            held_deletions=held,
            dead_letters=list(self._unwritten.values()),
            left_over=self._cursor.synced_once and not (self._cursor.whole or held or self._unwritten),
            missing=self._missing(),
            expected=0 if self._cursor.synced_once else sum(self._counts.values()),
            may_have_surplus=self._may_have_surplus,
            surplus=self._surplus.kept,
            surplus_count=self._surplus.count,
            problem=self._problem,
        )

    def _missing(self) -> int:
        if not self._cursor.synced_once and self._counts:
            here = self._objects.counts()
            return sum(max(0, count - here[kind]) for kind, count in self._counts.items())
        return self._session.progress.pending if self._session is not None else -1


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _until(stopping: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Cancelled when we stop; what it is in the middle of writing is finished by `_follow_once` itself."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(work, name="following")
    stopped = loop.create_task(stopping.wait(), name="stopping")
    try:
        await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
    if not task.cancelled():
        task.result()
