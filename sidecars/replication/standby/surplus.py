"""What a standby had and its primary does not: named before it is gone, for whoever wants it back."""

from collections.abc import Sequence
from dataclasses import dataclass

from sidecars.replication.kinds import ObjectKey
from tiphys import logs

KEPT = 200
"""Names in `tiphys ha status`; the count and the log tell the rest."""
LOGGED = 1000
"""Names in the log, of one stream: more than one comparison deletes without an operator's word, of 10 000."""

log = logs.get_logger()


@dataclass(frozen=True, slots=True)
class SurplusObject:
    kind: str
    namespace: str
    name: str
    what: str
    """What became of it here."""


class Surplus:
    """Across streams."""

    def __init__(self) -> None:
        self._kept: dict[SurplusObject, None] = {}
        self._logged = 0
        self.count = 0

    @property
    def kept(self) -> Sequence[SurplusObject]:
        return tuple(self._kept)

    def begin_stream(self) -> None:
        self._logged = 0

    def deleted(self, key: ObjectKey) -> None:
        self._note(key, "deleted")

    def replaced(self, key: ObjectKey) -> None:
        self._note(key, "replaced")

    def _note(self, key: ObjectKey, what: str) -> None:
        noted = SurplusObject(key.kind, key.namespace, key.name, what)
        if noted in self._kept:
            return  # a comparison names it again until it is gone
        self.count += 1
        self._kept[noted] = None
        if len(self._kept) > KEPT:
            del self._kept[next(iter(self._kept))]
        self._logged += 1
        if self._logged <= LOGGED:
            fields = {logs.KIND: key.kind, logs.NAMESPACE: key.namespace, logs.NAME: key.name}
            log.warning("the primary does not have it so", **fields, **{logs.OPERATION: what})
        elif self._logged == LOGGED + 1:
            log.warning("more that the primary does not have so: `tiphys ha status` has the count")
