"""Mirrors belong to their source: what somebody else changes is written back, what somebody deletes is made
again. A managed agent guards what its principal gave it, a principal what autonomous agents have told it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import orjson

from argocd.agents.copies import copied
from argocd.agents.messages import Drift, deletion_of_mirror, drift_of
from argocd.reading import text, value
from kube.store import Object
from sidecars.mirroring.kinds import SyncedKind
from sidecars.mirroring.workqueue import WorkQueue
from sidecars.mirroring.writer import MirrorWriter
from tiphys import logs

Key: TypeAlias = tuple[str, str, str]

GUARDED_BYTES = 16 << 20
"""Of one source's mirrors, as JSON: two thousand of 8 kB. What is beyond it comparison repairs."""

log = logs.get_logger()


def key_of(kind: SyncedKind, item: Object) -> Key:
    return kind.target.value, text(item, "metadata", "namespace"), text(item, "metadata", "name")


class _Expected:
    """What sources said last, charged to whoever said it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._copies: dict[Key, tuple[str, int, Object]] = {}
        self._used: dict[str, int] = {}

    def get(self, key: Key) -> Object | None:
        held = self._copies.get(key)
        return None if held is None else held[2]

    def __contains__(self, key: Key) -> bool:
        return key in self._copies

    def put(self, key: Key, copy: Object, *, source: str, size: int) -> None:
        self.drop(key)
        used = self._used.get(source, 0) + size
        if used <= self._limit:
            self._copies[key] = (source, size, copy)
            self._used[source] = used

    def drop(self, key: Key) -> None:
        source, size, _ = self._copies.pop(key, ("", 0, None))
        left = self._used.get(source, 0) - size
        if left > 0:
            self._used[source] = left
        else:
            self._used.pop(source, None)

    def drop_all(self, source: str) -> None:
        for key in [key for key, held in self._copies.items() if held[0] == source]:
            self.drop(key)

    def used(self, source: str) -> int:
        return self._used.get(source, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoneChange:
    """Somebody's hand on a mirror; `expected` is None where the mirror was deleted."""

    kind: SyncedKind
    mirror: Object
    expected: Object | None = None


class DriftGuard:
    """Remembers of each mirror what its source said last, of each source up to `limit` bytes. `restored` completes
    what is made again by what was lost, where that is known.
    """

    def __init__(
        self,
        *,
        writer: MirrorWriter,
        workqueue: WorkQueue,
        restored: Callable[[SyncedKind, Object, Object], Object] = lambda _kind, copy, _lost: copy,
        limit: int | None = None,
        undone: Callable[[UndoneChange], None] = lambda _change: None,
    ) -> None:
        """`undone` hears of each change that is written back."""
        self._undone = undone
        self._writer = writer
        self._workqueue = workqueue
        self._restored = restored
        self._limit = limit
        self._expected = _Expected(limit or 0)
        self._writing: dict[Key, int] = {}
        self._unjudged: dict[Key, Callable[[], object]] = {}
        """By what is being written: what the watch showed meanwhile."""
        self._announced: set[str] = set()

    def expect(self, kind: SyncedKind, copy: Object) -> None:
        """Before it is written, so that the watch cannot be faster: an agent believes its one principal."""
        self._remember(key_of(kind, copy), copy, "")

    @contextmanager
    def writing(self, kind: SyncedKind, copy: Object, *, source: str) -> Iterator[None]:
        """What `source` says counts once it is written: it may be refused, or somebody else may be first. The watch
        may be faster than the answer, so what it shows is judged afterwards.
        """
        key = key_of(kind, copy)
        self._writing[key] = self._writing.get(key, 0) + 1
        try:
            yield
            self._remember(key, copy, source)
        finally:
            self._writing[key] -= 1
            if not self._writing[key]:
                del self._writing[key]
                if (judge := self._unjudged.pop(key, None)) is not None:
                    judge()

    def _remember(self, key: Key, copy: Object, source: str) -> None:
        size = 0 if self._limit is None else len(orjson.dumps(copy))
        self._expected.put(key, copy, source=source, size=size)

    def held_bytes(self, source: str) -> int:
        """Of what is remembered of its word."""
        return self._expected.used(source)

    def begin(self, kind: SyncedKind, local: Object, *, source: str = "") -> None:
        """A mirror that was here before us: nobody knows better than itself what its source said.

        One that is being deleted already may have been announced to the process before this one; what was
        not comes back by comparison.
        """
        if value(local, "metadata", "deletionTimestamp") is not None:
            self.announce(local)
            return
        copy = copied(local, namespace=text(local, "metadata", "namespace"))
        copy.pop("status", None)
        copy.pop("operation", None)
        key = key_of(kind, local)
        if key not in self._expected:
            self._remember(key, copy, source)

    def announce(self, local: Object) -> None:
        """Its source wants it gone."""
        self._announced.add(text(local, "metadata", "uid"))

    def expects(self, kind: SyncedKind, *, namespace: str, name: str) -> bool:
        return (kind.target.value, namespace, name) in self._expected

    def forget(self, kind: SyncedKind, *, namespace: str, name: str) -> None:
        self._expected.drop((kind.target.value, namespace, name))

    def forget_all(self, source: str) -> None:
        self._expected.drop_all(source)

    def changed(self, kind: SyncedKind, local: Object) -> Drift:
        key = key_of(kind, local)
        if key in self._writing:
            self._unjudged[key] = partial(self.changed, kind, local)
            return Drift.NONE
        expected = self._expected.get(key)
        drift = drift_of(local, expected=value(expected, kind.content), content=kind.content)
        if drift is Drift.REVERT and value(local, "metadata", "deletionTimestamp") is None:
            log.warning("a mirror was changed: written back", **_fields(kind, local))
            self._workqueue.put(key, lambda: self._repair(kind, key))
            self._undone(UndoneChange(kind=kind, mirror=local, expected=expected))
        return drift

    def gone(self, kind: SyncedKind, old: Object) -> Drift:
        uid = text(old, "metadata", "uid")
        announced = uid in self._announced
        self._announced.discard(uid)
        key = key_of(kind, old)
        if key in self._writing and not announced:
            self._unjudged[key] = partial(self.gone, kind, old)
            return Drift.NONE
        if key not in self._expected:
            return Drift.REPORT if announced else Drift.NONE
        drift = deletion_of_mirror(announced=announced)
        if drift is Drift.RESTORE:
            log.warning("a mirror was deleted: made again", **_fields(kind, old))
            self._workqueue.put(key, lambda: self._repair(kind, key, lost=old))
            self._undone(UndoneChange(kind=kind, mirror=old))
        return drift

    async def _repair(self, kind: SyncedKind, key: Key, *, lost: Object | None = None) -> None:
        _, namespace, name = key

        def decide(local: Object | None) -> Object | None:
            if key in self._writing:  # what is expected is not known before that is done
                again = partial(self._repair, kind, key, lost=lost)
                self._unjudged.setdefault(key, partial(self._workqueue.put, key, again))
                return None
            expected = self._expected.get(key)
            if expected is None:  # withdrawn meanwhile
                return None
            if local is None:
                return self._restored(kind, expected, lost) if lost is not None else expected
            if value(local, "metadata", "deletionTimestamp") is not None:
                return None  # it comes back when it is gone
            if drift_of(local, expected=value(expected, kind.content), content=kind.content) is Drift.NONE:
                return None
            return {**local, kind.content: expected[kind.content]}

        local = await self._writer.get(kind.resource, name=name, namespace=namespace)
        await self._writer.settle(kind.resource, name=name, namespace=namespace, cached=local, decide=decide)


def _fields(kind: SyncedKind, item: Object) -> dict[str, str]:
    return {
        logs.KIND: kind.resource.kind,
        logs.NAMESPACE: text(item, "metadata", "namespace"),
        logs.NAME: text(item, "metadata", "name"),
    }
