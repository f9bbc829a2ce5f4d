"""What a promotion does with the copies: what their source had begun is begun here."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from argocd.agents.replication import DELETING, has_run, is_marked, pending_operation, without_marks
from argocd.reading import mapping, text
from kube.errors import ConflictError, NotFoundError
from kube.store import Object, Store
from sidecars.delivery.timing import Backoff, Timing
from sidecars.mirroring.writer import MirrorWriter
from sidecars.replication.kinds import KINDS, ObjectKey, ReplicatedKind
from sidecars.replication.objects import ReplicatedObjects
from sidecars.replication.standby.dead_letters import reason_of
from tiphys import logs

RETRY = Backoff(base=1.0, ceiling=60.0)
ATTEMPTS = 20
"""A quarter of an hour; what is left then is tried when this principal starts again."""
WRITE_SECONDS = 5.0
"""For one object."""
WAIT_SECONDS = 10.0
"""Agents wait for so much of it; the rest is done while they are served."""
LOGGED = 20
"""Names in the log; the count tells the rest."""

log = logs.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptedCounts:
    operations: int = 0
    deletions: int = 0


class CopyAdoption:
    """One object's trouble is not that of the others, and keeps nobody from being served: it is tried again."""

    def __init__(self, store: Store, objects: ReplicatedObjects, *, timing: Timing) -> None:
        self._store = store
        self._objects = objects
        self._timing = timing
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> AdoptedCounts:
        """After the fence lets us write. Doing it twice does no more than once."""
        await self.stop()
        self._stopping = asyncio.Event()
        counts, failed = await self._attempt(until=self._timing.monotonic() + WAIT_SECONDS)
        if failed:
            _tell("what the primary had begun is begun later", failed)
            self._task = asyncio.get_running_loop().create_task(self._go_on(), name="adoption")
        return counts

    async def stop(self) -> None:
        """Nothing of this writes once it returns."""
        self._stopping.set()
        if self._task is not None:
            await asyncio.wait({self._task})
            self._task = None

    async def _go_on(self) -> None:
        failed: dict[ObjectKey, Exception] = {}
        for attempt in range(1, ATTEMPTS):
            with suppress(TimeoutError):
                async with asyncio.timeout(RETRY.delay(attempt, self._timing.random)):
                    await self._stopping.wait()
            if self._stopping.is_set():
                return
            _, failed = await self._attempt(until=None)
            if not failed:
                log.info("everything that the primary had begun is begun here")
                return
        _tell("what the primary had begun is not begun here", failed)

    async def _attempt(self, *, until: float | None) -> tuple[AdoptedCounts, dict[ObjectKey, Exception]]:
        writer = MirrorWriter(self._store)
        operations = deletions = 0
        failed: dict[ObjectKey, Exception] = {}
        for kind in KINDS:
            for key, item in self._objects.items(kind):
                if self._stopping.is_set():
                    break
                if not is_marked(item):
                    continue
                if until is not None and self._timing.monotonic() > until:
                    failed[key] = TimeoutError("its turn has not come yet")
                    continue
                try:
                    async with asyncio.timeout(WRITE_SECONDS):
                        # Marks go last: whoever is killed in between finds them again.
                        if DELETING in mapping(item, "metadata", "annotations"):
                            deletions += await _delete(self._store, kind, key, item)
                        operations += await _adopt_operation(writer, kind, key, item)
                except Exception as error:  # noqa: BLE001 - whatever it is, the others go on
                    failed[key] = error
        return AdoptedCounts(operations=operations, deletions=deletions), failed


def _tell(event: str, failed: Mapping[ObjectKey, Exception]) -> None:
    for key, error in list(failed.items())[:LOGGED]:
        fields = {logs.KIND: key.kind, logs.NAMESPACE: key.namespace, logs.NAME: key.name}
        log.warning(event, **fields, **{logs.ERROR: reason_of(key, error), logs.COUNT: len(failed)})


async def _adopt_operation(writer: MirrorWriter, kind: ReplicatedKind, key: ObjectKey, item: Object) -> bool:
    given = False

    def decide(there: Object | None) -> Object | None:
        nonlocal given
        given = False
        if there is None or not is_marked(there):
            return None
        operation = pending_operation(there)
        wanted = without_marks(there)
        if operation is not None and "operation" not in there and not has_run(there, operation):
            given = True
            wanted["operation"] = operation
        return wanted

    await writer.settle(kind.resource, name=key.name, namespace=key.namespace, cached=item, decide=decide)
    return given


async def _delete(store: Store, kind: ReplicatedKind, key: ObjectKey, item: Object) -> bool:
    """As its owner did on the other side: finalizers do their work, on agents too."""
    try:
        await store.delete(
            kind.resource, name=key.name, namespace=key.namespace, uid=text(item, "metadata", "uid")
        )
    except (NotFoundError, ConflictError):
        return False
    return True
