"""Writes of a standby: one at a time for each object, the newest winning, a failing one retried while others go on."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from argocd.agents.replication import copy_digest, local_copy, replicated_copy
from argocd.reading import sequence, text, value
from kube.errors import ApiError, BadRequestError, InvalidError, NotFoundError
from kube.store import Object, Store
from sidecars.delivery.outcomes import DeliveryVerdict, judge
from sidecars.delivery.timing import Backoff, Timing
from sidecars.mirroring.writer import MirrorWriter, WriteBusyError
from sidecars.replication import metrics
from sidecars.replication.kinds import APPLICATION_SET, BY_NAME, ObjectKey, ReplicatedKind, is_of
from sidecars.replication.messages import ReplicatedItem
from sidecars.replication.objects import ReplicatedObjects
from sidecars.replication.standby.dead_letters import UnwrittenObject, is_secret, reason_of
from sidecars.replication.standby.progress import Progress, Token
from tiphys import logs
from tiphys.errors import ObjectError

WORKERS = 16
"""Writes under way: an API server answers one within milliseconds, and more do not make it faster."""
WRITE_SECONDS = 30.0
RETRY = Backoff(base=0.2, ceiling=30.0)
RETRIED_BYTES = 16 << 20
"""Of objects whose write failed and that are kept to be tried again; beyond that the primary waits."""
SEEN_SECONDS = 10.0
"""Until our own writes are back by the watch."""
OVERHEAD_BYTES = 256
"""Of something to be written besides its object."""

log = logs.get_logger()


@dataclass(slots=True)
class _Work:
    item: ReplicatedItem
    tokens: list[Token]
    attempts: int = 0

    @property
    def size(self) -> int:
        return OVERHEAD_BYTES + len(self.item.body or b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplySettings:
    """The last three are safeguards; a test switches one off to see that it is needed."""

    workers: int = WORKERS
    retried_bytes: int = RETRIED_BYTES
    may_create_namespace: Callable[[str], bool] = lambda _namespace: False
    keeps_order: bool = True
    acknowledges_after_write: bool = True
    skips_equal: bool = True
    """What is here already is not written again."""


class Applier:
    """Of one stream; `close` waits for every write under way."""

    def __init__(
        self,
        store: Store,
        objects: ReplicatedObjects,
        *,
        progress: Progress,
        timing: Timing,
        unwritten: dict[ObjectKey, UnwrittenObject],
        settings: ApplySettings,
    ) -> None:
        self._store = store
        self._writer = MirrorWriter(store)
        self._objects = objects
        self._progress = progress
        self._timing = timing
        self._unwritten = unwritten
        self._settings = settings
        self._compared: dict[ObjectKey, UnwrittenObject] = {}
        """Dead letters when the comparison under way began."""
        self._seen: dict[ObjectKey, int] = {}
        self._waiting: dict[ObjectKey, _Work] = {}
        self._busy: set[ObjectKey] = set()
        self._ready: deque[ObjectKey] = deque()
        self._retried_bytes = 0
        self._timers: dict[ObjectKey, asyncio.TimerHandle] = {}
        self._rest: asyncio.TimerHandle | None = None
        """While it is set the API server is left alone."""
        self._written: dict[ReplicatedKind, str] = {}
        self._deleted: dict[ObjectKey, str] = {}
        self._owners: dict[str, str] = {}
        self._closing = False
        self._echo = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._unlisten = objects.listen(self._noticed)

    async def close(self) -> None:
        """Nothing is written any more once this returns."""
        self._closing = True
        self._unlisten()
        for timer in (*self._timers.values(), *([self._rest] if self._rest is not None else ())):
            timer.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def begin_comparison(self, sequence: int) -> None:
        """Nothing that is older than this comes any more: no need to remember what was newer."""
        self._compared = dict(self._unwritten)
        self._seen = {key: seen for key, seen in self._seen.items() if seen > sequence}

    def found_equal(self, kind: str) -> None:
        """What had not been written when the comparison began is not wanted any more."""
        for key, letter in self._compared.items():
            if key.kind == kind and self._unwritten.get(key) is letter:
                del self._unwritten[key]

    # What is to be written.

    def put(self, item: ReplicatedItem, *tokens: Token) -> None:
        key = item.key
        if self._settings.keeps_order and item.sequence < self._seen.get(key, 0):
            for token in tokens:  # what is newer has come before
                self._progress.done(token)
            return
        self._seen[key] = max(item.sequence, self._seen.get(key, 0))
        waiting = self._waiting.get(key)
        work = self._waiting[key] = _Work(item, [*(waiting.tokens if waiting else ()), *tokens])
        if not self._settings.acknowledges_after_write:
            self._finish(work)
        if waiting is not None:
            self._forget_retry(waiting)
        if key not in self._busy and (waiting is None or waiting.attempts):
            self._offer(key)

    def _offer(self, key: ObjectKey) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        self._ready.append(key)
        self._pump()

    def _pump(self) -> None:
        """As many writes under way as may be."""
        while self._ready and self._may_write:
            key = self._ready.popleft()
            work = self._waiting.pop(key, None)
            if work is None:
                continue
            self._forget_retry(work)
            self._busy.add(key)
            task = asyncio.get_running_loop().create_task(self._work(work), name=f"write {key.text}")
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    @property
    def _may_write(self) -> bool:
        return self._rest is None and len(self._tasks) < self._settings.workers and not self._closing

    def _leave_alone(self, seconds: float) -> None:
        """Whoever turned one away for so long would turn the next one away, too."""
        loop = asyncio.get_running_loop()
        if self._rest is not None:
            seconds = max(seconds, self._rest.when() - loop.time())
            self._rest.cancel()
        self._rest = loop.call_later(seconds, self._go_on)

    def _go_on(self) -> None:
        self._rest = None
        self._pump()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._pump()

    async def _work(self, work: _Work) -> None:
        key = work.item.key
        try:
            async with asyncio.timeout(WRITE_SECONDS):
                await self._write(work)
        except Exception as error:  # noqa: BLE001 - one object's trouble is not that of the others
            self._failed(work, error)
        else:
            self._unwritten.pop(key, None)
            self._finish(work)
        finally:
            self._busy.discard(key)
        if key in self._waiting and not self._waiting[key].attempts:
            self._offer(key)

    def _finish(self, work: _Work) -> None:
        for token in work.tokens:
            self._progress.done(token)
        metrics.PROCESSED.inc()
        metrics.REPLICATED.inc()

    def _failed(self, work: _Work, error: Exception) -> None:
        key, verdict = work.item.key, judge(error)
        if isinstance(error, ApiError) and error.retry_after > 0:
            self._leave_alone(error.retry_after)
        operation = "delete" if work.item.body is None else "upsert"
        metrics.REPLICATION_ERRORS.inc()
        metrics.ERRORS.inc()
        metrics.OPERATION_ERRORS.labels(key.kind, operation).inc()
        if verdict is not DeliveryVerdict.RETRY:
            self._give_up(work, error, crashed=verdict is DeliveryVerdict.CRASH)
            return
        if key in self._waiting:  # a newer one came meanwhile and answers for both
            self._waiting[key].tokens[:0] = work.tokens
            return
        work.attempts += 1
        if work.attempts == 1:
            log.warning("a write is tried again", **_fields(key), **{logs.ERROR: reason_of(key, error)})
        self._keep(work)
        delay = RETRY.delay(work.attempts, self._timing.random)
        self._timers[key] = asyncio.get_running_loop().call_later(delay, self._offer, key)

    def _keep(self, work: _Work) -> None:
        self._waiting[work.item.key] = work
        if self._retried_bytes + work.size <= self._settings.retried_bytes:
            for token in work.tokens:
                self._progress.release_room(token)
        self._retried_bytes += work.size

    def _forget_retry(self, work: _Work) -> None:
        if work.attempts:
            self._retried_bytes -= work.size

    def _give_up(self, work: _Work, error: Exception, *, crashed: bool) -> None:
        key = work.item.key
        invalid = isinstance(error, InvalidError | BadRequestError) and work.item.body is not None
        digest = copy_digest(orjson.loads(work.item.body or b"")) if invalid else b""
        reason = reason_of(key, error)
        self._unwritten[key] = UnwrittenObject(
            kind=key.kind, namespace=key.namespace, name=key.name, reason=reason, digest=digest
        )
        # A traceback ends with the error's words, which may be those of a Secret.
        told = error if crashed and not is_secret(key) else None
        log.error("dead letter", exc_info=told, **_fields(key), **{logs.REASON: reason})
        metrics.DROPPED.inc()
        if self._progress.is_behind:
            metrics.SNAPSHOT_APPLY_ERRORS.inc()
        self._finish(work)

    # Writing.

    async def _write(self, work: _Work) -> None:
        item = work.item
        kind = BY_NAME[item.key.kind]
        if item.body is None:
            await self._remove(kind, work)
            return
        copy: Object = orjson.loads(item.body)
        if problem := self._objects.scope.problem(item.key, copy):
            raise ObjectError(problem)
        self._refuse_again(item.key, copy)
        wanted, ownerless = local_copy(copy, uid_of_owner=self._uid_of_owner)
        if any(self._is_coming(owner) for owner in ownerless):
            raise WriteBusyError("its ApplicationSet is being written")
        cached = self._objects.get(item.key)
        try:
            stored = await self._settle(kind, item.key, copy, wanted, cached)
        except NotFoundError as error:
            namespace = item.key.namespace
            if not self._settings.may_create_namespace(namespace):
                raise ObjectError(
                    f"namespace {namespace} is not there: create it on the standby too"
                ) from error
            await self._writer.create_namespace(namespace)
            stored = await self._settle(kind, item.key, copy, wanted, cached)
        if kind.status and stored is not None and copy.get("status") != stored.get("status"):
            stored = await self._store.replace(
                kind.resource, {**stored, "status": copy.get("status") or {}}, subresource="status"
            )
        self._note_written(kind, item.key, stored)

    async def _settle(
        self, kind: ReplicatedKind, key: ObjectKey, copy: Object, wanted: Object, cached: Object | None
    ) -> Object | None:
        leaving: list[Object] = []

        def decide(there: Object | None) -> Object | None:
            leaving.clear()
            if there is None:
                return {**wanted, "apiVersion": kind.resource.api_version, "kind": kind.resource.kind}
            if not is_of(kind, there):
                raise ObjectError("another object has its name: rename or delete that")
            here, told = (copy_digest(_without_status(kind, each)) for each in (replicated_copy(there), copy))
            equal = here == told and _owners(there) == _owners(wanted)
            if equal and self._settings.skips_equal:
                return None
            if value(there, "metadata", "deletionTimestamp") is not None:
                leaving.append(there)
                return None
            return _replaced(there, wanted)

        stored = await self._writer.settle(
            kind.resource, name=key.name, namespace=key.namespace, cached=cached, decide=decide
        )
        if leaving:
            await self._writer.delete_at_once(kind.resource, leaving[0])
            raise WriteBusyError(f"{kind} {key.text} is being deleted here and is made anew")
        return stored

    async def _remove(self, kind: ReplicatedKind, work: _Work) -> None:
        key = work.item.key
        if problem := self._objects.scope.problem(key, None):
            raise ObjectError(problem)
        # Its Applications are told of first, or a garbage collector would take those that stay.
        if kind is APPLICATION_SET and not self._progress.is_first(work.tokens[0]):
            raise WriteBusyError("what came before is still being written")
        there = await self._writer.get(kind.resource, name=key.name, namespace=key.namespace)
        if there is None:
            return
        if not (is_of(kind, there) and self._objects.scope.admits(kind, there)):
            raise ObjectError("another object has its name, which is none of the primary's")
        await self._writer.delete_at_once(kind.resource, there)
        if self._objects.get(key) is not None:
            self._deleted[key] = text(there, "metadata", "uid")

    def _refuse_again(self, key: ObjectKey, copy: Object) -> None:
        """What the API server found invalid stays so until it is another object."""
        refused = self._unwritten.get(key)
        if refused is not None and refused.digest and refused.digest == copy_digest(copy):
            raise ObjectError(refused.reason)

    def _note_written(self, kind: ReplicatedKind, key: ObjectKey, stored: Object | None) -> None:
        version = text(stored, "metadata", "resourceVersion")
        if version:
            self._written[kind] = version
        if kind is APPLICATION_SET:
            self._owners[key.name] = text(stored, "metadata", "uid")

    def _uid_of_owner(self, name: str) -> str:
        """Of an ApplicationSet here, as the watch shows it or as we have just written it."""
        return self._objects.uid_of_application_set(name) or self._owners.get(name, "")

    def _is_coming(self, application_set: str) -> bool:
        key = ObjectKey(APPLICATION_SET.name, self._objects.scope.namespace, application_set)
        return key in self._waiting or key in self._busy

    # What the watch brings back.

    def _noticed(self, key: ObjectKey, copy: Object | None, _former: Object | None) -> None:
        if key.kind == APPLICATION_SET.name:
            self._owners.pop(key.name, None)  # the watch knows it now, or that it is gone
        if copy is None:
            self._deleted.pop(key, None)
        self._echo.set()

    async def seen(self) -> None:
        """Returns when our own writes are back by the watch, or have been waited for long enough."""
        try:
            async with asyncio.timeout(SEEN_SECONDS):
                for kind, version in list(self._written.items()):
                    await self._objects.reached(kind, version)
                while self._deleted:
                    self._echo.clear()
                    await self._echo.wait()
        except TimeoutError:
            self._deleted.clear()


def _replaced(there: Object, wanted: Object) -> Object:
    metadata = {**wanted["metadata"], "uid": there["metadata"]["uid"]}
    return {**wanted, "apiVersion": there["apiVersion"], "kind": there["kind"], "metadata": metadata}


def _without_status(kind: ReplicatedKind, copy: Object) -> Object:
    return {key: part for key, part in copy.items() if key != "status"} if kind.status else copy


def _owners(item: Mapping[str, Any]) -> list[str]:
    return [
        text(owner, "uid")
        for owner in sequence(item, "metadata", "ownerReferences")
        if text(owner, "kind") == APPLICATION_SET.resource.kind
    ]


def _fields(key: ObjectKey) -> dict[str, str]:
    return {logs.KIND: key.kind, logs.NAMESPACE: key.namespace, logs.NAME: key.name}
