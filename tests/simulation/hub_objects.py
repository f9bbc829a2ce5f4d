"""Objects of two hubs under replication: what users write, each time with a revision that nobody else uses."""

from base64 import b64decode, b64encode
from collections import defaultdict
from dataclasses import dataclass, field
from random import Random
from typing import Any

from argocd import names
from argocd.agents.replication import replicated_copy
from kube.embedded import AdmissionRequest
from kube.errors import NotFoundError
from kube.store import Object
from sidecars.replication.kinds import APPLICATION, APPLICATION_SET, BY_NAME, PROJECT, REPOSITORY, ObjectKey
from tests.sidecars.replication.hubs import ARGOCD
from tests.simulation.world import World

FINALIZER = names.RESOURCES_FINALIZER
NAMES = {APPLICATION: 60, PROJECT: 4, APPLICATION_SET: 3, REPOSITORY: 3}
MEDDLED = 50
"""Applications from this number on are meddled with on the standby,"""
POISONED = 56
"""and from this on sometimes invalid there."""


@dataclass(slots=True)
class History:
    """What a primary's log told, by sequence: the key, its last revision, and whether it is gone."""

    entries: list[tuple[ObjectKey, int, bool]] = field(default_factory=list)
    newest: dict[ObjectKey, int] = field(default_factory=dict)
    """The last revision of each."""
    last_gone: dict[ObjectKey, int] = field(default_factory=dict)
    """The sequence at which it was gone for the last time."""
    acknowledged: int = 0

    def note(self, key: ObjectKey, copy: Object | None, _former: Object | None) -> None:
        revision = self.newest.get(key, 0) if copy is None else revision_of(copy)
        self.newest[key] = revision
        self.entries.append((key, revision, copy is None))
        if copy is None:
            self.last_gone[key] = len(self.entries)


class HubObjects:
    def __init__(self, world: World, random: Random) -> None:
        self._world = world
        self._random = random
        self._revision = 0
        self.revisions: defaultdict[ObjectKey, set[int]] = defaultdict(set)
        """Those that users gave each object."""

    def some_key(self) -> ObjectKey:
        kind = self._random.choices(list(NAMES), weights=(10, 2, 1, 1))[0]
        namespace = "agent-a" if kind is APPLICATION else ARGOCD
        return ObjectKey(kind.name, namespace, f"x-{self._random.randrange(NAMES[kind])}")

    async def write(self, where: str, key: ObjectKey, *, poison: bool = True) -> None:
        self._revision += 1
        self.revisions[key].add(self._revision)
        store, resource = self._world.store(where), BY_NAME[key.kind].resource
        body = self._body(key, poison=poison and number_of(key) >= POISONED and self._random.random() < 0.3)
        try:
            there = await store.get(resource, name=key.name, namespace=key.namespace)
        except NotFoundError:
            await store.create(resource, body, namespace=key.namespace)
            return
        if there["metadata"].get("deletionTimestamp"):
            self._world.count("deletions finished")
            there["metadata"].pop("finalizers", None)
            await store.replace(resource, there)
            return
        await store.replace(resource, {**there, **{part: body[part] for part in body if part != "metadata"}})

    def _body(self, key: ObjectKey, *, poison: bool) -> Object:
        metadata: Object = {"name": key.name}
        content: Object = {"revision": self._revision, **({"poison": True} if poison else {})}
        if key.kind == REPOSITORY.name:
            metadata["labels"] = {names.SECRET_TYPE: names.SECRET_TYPE_REPOSITORY}
            return {"metadata": metadata, "data": {"revision": _encoded(self._revision)}}
        if key.kind == APPLICATION.name and self._random.random() < 0.3:
            metadata["finalizers"] = [FINALIZER]
        body: Object = {"metadata": metadata, "spec": content}
        if key.kind == APPLICATION.name and self._random.random() < 0.3:
            body["operation"] = {"sync": {"revision": str(self._revision)}}
        return body

    def collection(self, where: str, key: ObjectKey) -> Any:
        return self._world.store(where)._history.collection(BY_NAME[key.kind].resource)

    def keys(self, where: str) -> list[ObjectKey]:
        return [
            ObjectKey(kind.name, record.namespace, record.name)
            for kind in NAMES
            for record in self._world.store(where)._history.collection(kind.resource).records(None)
        ]

    def copies(self, where: str) -> dict[ObjectKey, Object]:
        return {
            ObjectKey(kind.name, record.namespace, record.name): replicated_copy(record.decoded())
            for kind in NAMES
            for record in self._world.store(where)._history.collection(kind.resource).records(None)
        }


def number_of(key: ObjectKey) -> int:
    return int(key.name.rpartition("-")[2]) if key.kind == APPLICATION.name else 0


def changes_nothing(request: AdmissionRequest) -> bool:
    """An update of a copy after which it is what it was."""
    return (
        request.old is not None
        and request.new is not None
        and replicated_copy(request.old) == replicated_copy(request.new)
        and request.old["metadata"].get("ownerReferences") == request.new["metadata"].get("ownerReferences")
    )


def is_poison(body: Object | None) -> bool:
    return bool(((body or {}).get("spec") or {}).get("poison"))


def revision_of(body: Object) -> int:
    if "spec" in body:
        return int(body["spec"]["revision"])
    return int(b64decode(body["data"]["revision"]))


def _encoded(number: int) -> str:
    return b64encode(str(number).encode()).decode()
