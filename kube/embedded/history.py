"""What the embedded store holds: objects, one count of revisions, and the changes that watches can resume from."""

import base64
import binascii
from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import orjson

from kube.embedded.watches import Record, RecordedChange, Selection, Watchers
from kube.errors import BadRequestError, GoneError, UnavailableError
from kube.requests import decode, encoded_to_keep
from kube.store import ListPage, Object, Resource, WatchEventKind

# Lists that are being paged through; each holds references only. Older ones are answered with 410, as after
# a compaction.
_MOST_SNAPSHOTS = 256
# The revision in a token that comes with a 410, as API servers write it: the rest of the list, as it is now.
_NEWEST = -1


@dataclass(slots=True)
class Collection:
    """All objects of one kind."""

    resource: Resource
    objects: dict[str, dict[str, Record]] = field(default_factory=dict)
    """By namespace (empty for kinds without one), then by name."""
    changes: deque[RecordedChange] = field(default_factory=deque)
    watchers: Watchers = field(default_factory=Watchers)
    floor: int = 0
    """No watch can resume from below this revision."""

    def find(self, namespace: str, name: str) -> Record | None:
        in_namespace = self.objects.get(namespace)
        return in_namespace.get(name) if in_namespace else None

    def records(self, namespace: str | None) -> list[Record]:
        """In the order of their keys, which is the order of a list."""
        if namespace is None:
            found = [record for records in self.objects.values() for record in records.values()]
        else:
            found = list(self.objects.get(namespace, {}).values())
        found.sort(key=lambda record: record.key)
        return found


class History:
    """Synchronous: whatever happens in one call is one step for everybody else."""

    def __init__(self, *, length: int) -> None:
        self.revision = 1
        self._length = length
        self._collections: dict[tuple[str, str], Collection] = {}
        self._snapshots: OrderedDict[tuple[str, str, str | None, int], list[Record]] = OrderedDict()

    def collection(self, resource: Resource) -> Collection:
        key = (resource.group, resource.plural)
        found = self._collections.get(key)
        if found is None:
            # Nothing can have been missed of a kind that never was, so its floor stays at the bottom.
            found = self._collections[key] = Collection(resource)
        return found

    def collections(self) -> list[tuple[Resource, Collection]]:
        return [(collection.resource, collection) for collection in self._collections.values()]

    def write(self, resource: Resource, body: Object) -> Record:
        """Stores the body under its namespace and name and gives it the next revision."""
        collection = self.collection(resource)
        record = self._record(body)
        objects = collection.objects.setdefault(record.namespace, {})
        previous = objects.get(record.name)
        objects[record.name] = record
        kind = WatchEventKind.ADDED if previous is None else WatchEventKind.MODIFIED
        self._publish(collection, RecordedChange(kind=kind, record=record, previous=previous))
        return record

    def remove(self, resource: Resource, body: Object) -> Record:
        """`body` is the last state, as watchers shall see it."""
        collection = self.collection(resource)
        record = self._record(body)
        objects = collection.objects[record.namespace]
        previous = objects.pop(record.name)
        if not objects:
            del collection.objects[record.namespace]
        self._publish(
            collection, RecordedChange(kind=WatchEventKind.DELETED, record=record, previous=previous)
        )
        return record

    def _record(self, body: Object) -> Record:
        metadata = body["metadata"]
        metadata["resourceVersion"] = str(self.revision + 1)
        raw = encoded_to_keep(body)  # may refuse: only then does the revision count
        self.revision += 1
        return Record(
            namespace=metadata.get("namespace", ""),
            name=metadata["name"],
            revision=self.revision,
            labels=metadata.get("labels") or {},
            raw=raw,
        )

    def _publish(self, collection: Collection, change: RecordedChange) -> None:
        if len(collection.changes) >= self._length:
            collection.floor = collection.changes.popleft().record.revision
        collection.changes.append(change)
        collection.watchers.notify(change)

    def compact(self) -> None:
        """Forgets every change so far, as etcd does every five minutes."""
        for collection in self._collections.values():
            collection.changes.clear()
            collection.floor = self.revision
        self._snapshots.clear()

    def since(self, resource: Resource, version: str) -> Iterator[RecordedChange]:
        """The changes after a version, or for no version one addition for each object there is."""
        collection = self.collection(resource)
        if version in {"", "0"}:
            for record in collection.records(None):
                yield RecordedChange(kind=WatchEventKind.ADDED, record=record, previous=None)
            return
        revision = self.parse_version(version)
        if revision < collection.floor:
            raise GoneError(f"too old resource version: {revision} ({collection.floor})")
        if revision > self.revision:
            raise UnavailableError(f"Too large resource version: {revision}, current: {self.revision}")
        newer: list[RecordedChange] = []
        for change in reversed(collection.changes):
            if change.record.revision <= revision:
                break
            newer.append(change)
        yield from reversed(newer)

    @staticmethod
    def parse_version(version: str) -> int:
        if not version.isascii() or not version.isdigit():
            raise BadRequestError(f"invalid resource version {version[:40]!r}")
        return int(version)

    def page(
        self, resource: Resource, *, selection: Selection, limit: int | None, continue_token: str
    ) -> ListPage:
        if not limit and not continue_token:
            records = self.collection(resource).records(selection.namespace)
            return self._page(records, self.revision, selection)
        revision, after = self._parse_token(continue_token) if continue_token else (_NEWEST, "")
        newest = revision == _NEWEST
        revision = self.revision if newest else revision
        key = (resource.group, resource.plural, selection.namespace, revision)
        snapshot = self._snapshots.get(key)
        if snapshot is None:
            if not newest:
                raise GoneError(
                    "The provided continue parameter is too old: start the list afresh",
                    status={"metadata": {"continue": self._token(_NEWEST, after)}},
                )
            snapshot = self.collection(resource).records(selection.namespace)
        chosen: list[Record] = []
        token = ""
        for record in snapshot:
            if record.key <= after or not selection.matches(record):
                continue
            if limit and len(chosen) == limit:
                token = self._token(revision, chosen[-1].key)
                self._keep(key, snapshot)
                break
            chosen.append(record)
        return ListPage([decode(record.raw) for record in chosen], str(revision), token)

    @staticmethod
    def _page(records: list[Record], revision: int, selection: Selection) -> ListPage:
        return ListPage(
            [decode(record.raw) for record in records if selection.matches(record)], str(revision)
        )

    def _keep(self, key: tuple[str, str, str | None, int], snapshot: list[Record]) -> None:
        self._snapshots[key] = snapshot
        self._snapshots.move_to_end(key)
        if len(self._snapshots) > _MOST_SNAPSHOTS:
            self._snapshots.popitem(last=False)

    @staticmethod
    def _token(revision: int, after: str) -> str:
        return base64.urlsafe_b64encode(orjson.dumps({"rv": revision, "start": after})).decode()

    @staticmethod
    def _parse_token(token: str) -> tuple[int, str]:
        try:
            content = orjson.loads(base64.urlsafe_b64decode(token))
            return int(content["rv"]), str(content["start"])
        except (binascii.Error, ValueError, KeyError, TypeError) as error:
            raise BadRequestError("continue key is not valid") from error
