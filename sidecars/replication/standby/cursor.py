"""Where a standby stands, kept in its cluster: a restart goes on from there, and can be promoted from there."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from argocd import names
from kube import queries
from kube.errors import NotFoundError
from kube.resources import CONFIG_MAPS
from kube.store import Object, Store
from sidecars.replication.kinds import BY_NAME

MAX_DIGITS = 19
"""A sequence is a number of 64 bits."""
MAX_TEXT = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationCursor:
    """`whole`: nothing was left over that only a comparison finds, such as deletions that wait."""

    history: str = ""
    sequence: int = 0
    seen: int = 0
    """What the primary had told of by then."""
    whole: bool = False
    synced_once: bool = False
    equal: Mapping[str, bool] = field(default_factory=dict)
    """By kind, of the last comparison with a primary of this history."""
    compared_at: datetime | None = None

    def uncompared(self) -> "ReplicationCursor":
        return replace(self, equal={}, compared_at=None)

    def data(self) -> dict[str, str]:
        return {
            "history": self.history,
            "sequence": str(self.sequence),
            "seen": str(self.seen),
            "whole": str(self.whole).lower(),
            "syncedOnce": str(self.synced_once).lower(),
            "equal": json.dumps(dict(self.equal), sort_keys=True),
            "comparedAt": self.compared_at.isoformat() if self.compared_at else "",
        }

    @classmethod
    def read(cls, config_map: Object | None) -> "ReplicationCursor":
        """What cannot be read is an empty one: everything is compared then."""
        data = (config_map or {}).get("data") or {}
        sequence = _number(data.get("sequence"))
        if sequence is None:
            return cls()
        equal, compared_at = _equal(data.get("equal")), _moment(data.get("comparedAt"))
        known = bool(equal) and compared_at is not None
        return cls(
            history=data.get("history", ""),
            sequence=sequence,
            seen=max(sequence, _number(data.get("seen")) or 0),
            whole=data.get("whole") == "true",
            synced_once=data.get("syncedOnce") == "true",
            equal=equal if known else {},
            compared_at=compared_at if known else None,
        )


def _number(told: Any) -> int | None:
    is_one = isinstance(told, str) and told.isascii() and told.isdecimal() and len(told) <= MAX_DIGITS
    return int(told) if is_one else None


def _equal(told: Any) -> dict[str, bool]:
    try:
        found = json.loads(told) if isinstance(told, str) and len(told) <= MAX_TEXT else None
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {kind: equal for kind, equal in found.items() if kind in BY_NAME and isinstance(equal, bool)}


def _moment(told: Any) -> datetime | None:
    try:
        found = datetime.fromisoformat(told) if isinstance(told, str) else None
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None


class CursorStore:
    """One writer: the principal that leads."""

    def __init__(self, store: Store, *, namespace: str) -> None:
        self._store = store
        self._namespace = namespace

    async def read(self) -> ReplicationCursor:
        held = await queries.find(self._store, CONFIG_MAPS, name=names.HA_CURSOR, namespace=self._namespace)
        return ReplicationCursor.read(held)

    async def write(self, cursor: ReplicationCursor) -> None:
        metadata = {"name": names.HA_CURSOR, "namespace": self._namespace}
        body = {"metadata": metadata, "data": cursor.data()}
        try:
            await self._store.replace(CONFIG_MAPS, body)
        except NotFoundError:
            await self._store.create(CONFIG_MAPS, body, namespace=self._namespace)
