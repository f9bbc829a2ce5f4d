"""What a replica of argocd-agent may still have although it is gone: told until it acknowledges that.

It deletes by namespace and name, so no more is kept of an object: not what is in a Secret.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from argocd.agents.identity import source_uid
from argocd.reading import text
from kube.store import Object
from sidecars.replication import metrics
from sidecars.replication.kinds import ObjectKey
from tiphys import logs

MOST_DELETIONS = 10_000
DELETION_BYTES = 4 << 20
"""Of one replica that is away: twice what 10 000 of usual names take, the agents' included."""

log = logs.get_logger()


@dataclass(slots=True)
class GoDeletion:
    item: dict[str, Any]
    """As much of the last stored object as a deletion needs."""
    agents: tuple[str, ...]
    """Who had it: an event for each."""
    number: int = 0
    """Under which the replica was told so last; 0 before."""
    size: int = 0


class UnacknowledgedDeletions:
    """Of one replica. `overflowed` is set when one had to be forgotten: it must ask what it has then."""

    def __init__(self, replica: str) -> None:
        self._replica = replica
        self._deletions: OrderedDict[ObjectKey, GoDeletion] = OrderedDict()
        self._bytes = 0
        self.overflowed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._deletions)

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._deletions

    def __iter__(self) -> Iterator[ObjectKey]:
        """Of those that there are now."""
        return iter(tuple(self._deletions))

    def get(self, key: ObjectKey) -> GoDeletion | None:
        return self._deletions.get(key)

    def add(self, key: ObjectKey, former: Object, agents: Sequence[str]) -> None:
        self.discard(key)
        item = _what_a_deletion_needs(former)
        size = len(orjson.dumps(item)) + sum(map(len, agents))
        self._deletions[key] = GoDeletion(item, tuple(agents), size=size)
        self._bytes += size
        while len(self._deletions) > MOST_DELETIONS or self._bytes > DELETION_BYTES:
            self._forget_oldest()

    def discard(self, key: ObjectKey) -> None:
        deletion = self._deletions.pop(key, None)
        if deletion is not None:
            self._bytes -= deletion.size

    def begin(self) -> None:
        """A stream: its first word acknowledges a snapshot, which tells of nothing that is gone."""
        self.overflowed.clear()
        for deletion in self._deletions.values():
            deletion.number = 0

    def acknowledge(self, number: int) -> list[ObjectKey]:
        """Those of which the replica knows by now."""
        known = [key for key, deletion in self._deletions.items() if 0 < deletion.number <= number]
        for key in known:
            self.discard(key)
        return known

    def _forget_oldest(self) -> None:
        key = next(iter(self._deletions))
        self.discard(key)
        metrics.GO_FORGOTTEN.inc()
        if not self.overflowed.is_set():
            self.overflowed.set()
            log.warning(
                "deletions that a Go replica has not acknowledged are forgotten",
                **{
                    logs.PEER: self._replica,
                    logs.REASON: "too many: it asks about those that it remembers itself, after a restart about none",
                    "first": f"{key.kind} {key.text}",
                },
            )


def _what_a_deletion_needs(former: Object) -> dict[str, Any]:
    metadata = {key: text(former, "metadata", key) for key in ("name", "namespace", "resourceVersion")}
    return {
        "apiVersion": former.get("apiVersion", ""),
        "kind": former.get("kind", ""),
        "metadata": {**metadata, "uid": source_uid(former)},
    }
