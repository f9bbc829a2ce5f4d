"""Mirrors belong to their source: what somebody else changes is written back, what somebody deletes is made
again. A managed agent guards what its principal gave it, a principal what autonomous agents have told it.
"""

from collections.abc import Callable
from typing import TypeAlias

from argocd.agents.acceptance import Drift, deletion_of_mirror, drift_of
from argocd.agents.copies import copied
from argocd.reading import text, value
from kube.store import Object
from sidecars.mirroring.kinds import SyncedKind
from sidecars.mirroring.workqueue import WorkQueue
from sidecars.mirroring.writer import MirrorWriter
from tiphys import logs

Key: TypeAlias = tuple[str, str, str]

log = logs.get_logger()


def key_of(kind: SyncedKind, item: Object) -> Key:
    return kind.target.value, text(item, "metadata", "namespace"), text(item, "metadata", "name")


class DriftGuard:
    """Remembers of each mirror what its source said last. `restored` completes what is made again by what was
    lost, where that is known.
    """

    def __init__(
        self,
        *,
        writer: MirrorWriter,
        workqueue: WorkQueue,
        restored: Callable[[SyncedKind, Object, Object], Object] = lambda _kind, copy, _lost: copy,
    ) -> None:
        self._writer = writer
        self._workqueue = workqueue
        self._restored = restored
        self._expected: dict[Key, Object] = {}
        self._announced: set[str] = set()

    def expect(self, kind: SyncedKind, copy: Object) -> None:
        """Before it is written, so that the watch cannot be faster."""
        self._expected[key_of(kind, copy)] = copy

    def begin(self, kind: SyncedKind, local: Object) -> None:
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
        self._expected.setdefault(key_of(kind, local), copy)

    def announce(self, local: Object) -> None:
        """Its source wants it gone."""
        self._announced.add(text(local, "metadata", "uid"))

    def expects(self, kind: SyncedKind, *, namespace: str, name: str) -> bool:
        return (kind.target.value, namespace, name) in self._expected

    def forget(self, kind: SyncedKind, *, namespace: str, name: str) -> None:
        self._expected.pop((kind.target.value, namespace, name), None)

    def forget_all(self, concerned: Callable[[Object], bool]) -> None:
        self._expected = {key: copy for key, copy in self._expected.items() if not concerned(copy)}

    def changed(self, kind: SyncedKind, local: Object) -> Drift:
        key = key_of(kind, local)
        expected = self._expected.get(key)
        drift = drift_of(local, expected=value(expected, kind.content), content=kind.content)
        if drift is Drift.REVERT and value(local, "metadata", "deletionTimestamp") is None:
            log.warning("a mirror was changed: written back", **_fields(kind, local))
            self._workqueue.put(key, lambda: self._repair(kind, key))
        return drift

    def gone(self, kind: SyncedKind, old: Object) -> Drift:
        uid = text(old, "metadata", "uid")
        announced = uid in self._announced
        self._announced.discard(uid)
        key = key_of(kind, old)
        if key not in self._expected:
            return Drift.REPORT if announced else Drift.NONE
        drift = deletion_of_mirror(announced=announced)
        if drift is Drift.RESTORE:
            log.warning("a mirror was deleted: made again", **_fields(kind, old))
            self._workqueue.put(key, lambda: self._repair(kind, key, lost=old))
        return drift

    async def _repair(self, kind: SyncedKind, key: Key, *, lost: Object | None = None) -> None:
        _, namespace, name = key

        def decide(local: Object | None) -> Object | None:
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
