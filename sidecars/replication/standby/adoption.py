"""What a promotion does with the copies: what their source had begun is begun here."""

from dataclasses import dataclass

from argocd.agents.replication import DELETING, has_run, is_marked, pending_operation, without_marks
from argocd.reading import mapping, text
from kube.errors import ConflictError, NotFoundError
from kube.store import Object, Store
from sidecars.mirroring.writer import MirrorWriter
from sidecars.replication.kinds import KINDS, ObjectKey, ReplicatedKind
from sidecars.replication.objects import ReplicatedObjects


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptedCounts:
    operations: int = 0
    deletions: int = 0


async def adopt(store: Store, objects: ReplicatedObjects) -> AdoptedCounts:
    """After the fence lets us write. Doing it twice does no more than once."""
    writer = MirrorWriter(store)
    operations = deletions = 0
    for kind in KINDS:
        for key, item in objects.items(kind):
            if not is_marked(item):
                continue
            # Marks go last: whoever is killed in between finds them again.
            if DELETING in mapping(item, "metadata", "annotations"):
                deletions += await _delete(store, kind, key, item)
            operations += await _adopt_operation(writer, kind, key, item)
    return AdoptedCounts(operations=operations, deletions=deletions)


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
