"""Where a standby stands, kept in its cluster: a restart goes on from there."""

from dataclasses import dataclass

from kube import queries
from kube.errors import AlreadyExistsError, NotFoundError
from kube.resources import CONFIG_MAPS
from kube.store import Object, PatchKind, Store

CURSOR = "tiphys-ha-cursor"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationCursor:
    """`whole`: nothing was left over that only a comparison finds, such as deletions that wait."""

    history: str = ""
    sequence: int = 0
    whole: bool = False
    synced_once: bool = False

    def data(self) -> dict[str, str]:
        return {
            "history": self.history,
            "sequence": str(self.sequence),
            "whole": str(self.whole).lower(),
            "syncedOnce": str(self.synced_once).lower(),
        }

    @classmethod
    def read(cls, config_map: Object | None) -> "ReplicationCursor":
        """What cannot be read is an empty one: everything is compared then."""
        data = (config_map or {}).get("data") or {}
        sequence = data.get("sequence", "")
        if not (isinstance(sequence, str) and sequence.isascii() and sequence.isdecimal()):
            return cls()
        return cls(
            history=data.get("history", ""),
            sequence=int(sequence),
            whole=data.get("whole") == "true",
            synced_once=data.get("syncedOnce") == "true",
        )


class CursorStore:
    """One writer: the principal that leads."""

    def __init__(self, store: Store, *, namespace: str) -> None:
        self._store = store
        self._namespace = namespace

    async def read(self) -> ReplicationCursor:
        held = await queries.find(self._store, CONFIG_MAPS, name=CURSOR, namespace=self._namespace)
        return ReplicationCursor.read(held)

    async def write(self, cursor: ReplicationCursor) -> None:
        data = {"data": cursor.data()}
        try:
            await self._patch(data)
        except NotFoundError:
            try:
                await self._store.create(
                    CONFIG_MAPS, {"metadata": {"name": CURSOR}, **data}, namespace=self._namespace
                )
            except AlreadyExistsError:
                await self._patch(data)

    async def _patch(self, data: Object) -> None:
        await self._store.patch(
            CONFIG_MAPS, data, name=CURSOR, namespace=self._namespace, kind=PatchKind.MERGE
        )
