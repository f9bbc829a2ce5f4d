"""Writes of a mirror: what is there is compared with what is wanted, and nobody else's change is lost."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from argocd.reading import text, value
from kube import queries
from kube.errors import AlreadyExistsError, ConflictError, NotFoundError
from kube.resources import NAMESPACES
from kube.store import Object, Resource, Store, version_number
from tiphys.errors import SurroundingsError

ATTEMPTS = 5
"""Against whoever writes the same object at the same time; afterwards the event is tried again later."""

Decide = Callable[[Object | None], Object | None]
"""Given what is there, what shall be there; None where nothing need be written."""


class WriteBusyError(SurroundingsError):
    """Somebody else writes all the time, or the object has still to go."""


class HasToGoError(WriteBusyError):
    """What is `there` is being deleted, and something else takes its place."""

    def __init__(self, message: str, there: Object) -> None:
        super().__init__(message)
        self.there = there


RECENT = 512
"""Objects that were written and may not have come back by the watch yet: milliseconds' worth."""


class MirrorWriter:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._recent: OrderedDict[tuple[str, str, str], Object] = OrderedDict()

    async def get(self, resource: Resource, *, name: str, namespace: str) -> Object | None:
        return await queries.find(self._store, resource, name=name, namespace=namespace)

    async def settle(
        self, resource: Resource, *, name: str, namespace: str, cached: Object | None, decide: Decide
    ) -> Object | None:
        """`cached` may be old: it saves a question where something is to be written, and the API server notices
        the rest. That nothing need be written is believed of a fresh object only.
        """
        place = (resource.plural, namespace, name)
        local, fresh = self._newest(place, cached), False
        for _ in range(ATTEMPTS):
            wanted = decide(local)
            if wanted is None or wanted == local:
                if fresh:
                    return local
                local, fresh = await self.get(resource, name=name, namespace=namespace), True
                continue
            try:
                if local is None:
                    stored = await self._store.create(resource, wanted, namespace=namespace)
                else:
                    stored = await self._store.replace(resource, _based_on(local, wanted))
                return self._note(place, stored)
            except (ConflictError, AlreadyExistsError):
                pass
            except NotFoundError:
                if local is None:  # the namespace is what is missing
                    raise
            local, fresh = await self.get(resource, name=name, namespace=namespace), True
        raise WriteBusyError(f"{resource.kind} {namespace}/{name} is written by somebody else all the time")

    def _newest(self, place: tuple[str, str, str], cached: Object | None) -> Object | None:
        written = self._recent.get(place)
        if written is None:
            return cached
        if cached is not None and version_of(cached) >= version_of(written):
            del self._recent[place]
            return cached
        return written

    def _note(self, place: tuple[str, str, str], stored: Object) -> Object:
        self._recent[place] = stored
        self._recent.move_to_end(place)
        if len(self._recent) > RECENT:
            self._recent.popitem(last=False)
        return stored

    async def create_namespace(self, name: str, *, labels: Mapping[str, str] | None = None) -> None:
        try:
            await self._store.create(NAMESPACES, {"metadata": {"name": name, "labels": dict(labels or {})}})
        except AlreadyExistsError:
            return

    async def delete(self, resource: Resource, local: Object, *, propagation: str) -> None:
        """This one and no later one of its name."""
        try:
            await self._store.delete(
                resource,
                name=text(local, "metadata", "name"),
                namespace=text(local, "metadata", "namespace"),
                propagation=propagation,
                uid=text(local, "metadata", "uid"),
            )
        except (NotFoundError, ConflictError):
            return  # gone, or another one by now

    async def delete_at_once(self, resource: Resource, local: Object) -> None:
        """Without its finalizers, whose work is done elsewhere."""
        name, namespace = text(local, "metadata", "name"), text(local, "metadata", "namespace")
        uid = text(local, "metadata", "uid")

        def decide(there: Object | None) -> Object | None:
            if there is None or text(there, "metadata", "uid") != uid:
                return None
            metadata = {key: part for key, part in there["metadata"].items() if key != "finalizers"}
            return {**there, "metadata": metadata}

        if value(local, "metadata", "finalizers"):
            await self.settle(resource, name=name, namespace=namespace, cached=local, decide=decide)
        await self.delete(resource, local, propagation="Background")


def version_of(item: Mapping[str, Any]) -> int:
    return version_number(text(item, "metadata", "resourceVersion"))


def _based_on(local: Object, wanted: Object) -> Object:
    version = local["metadata"]["resourceVersion"]
    return {**wanted, "metadata": {**wanted["metadata"], "resourceVersion": version}}
