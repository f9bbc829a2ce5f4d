"""Deletions that a comparison asks for: many at once wait for an operator, and an empty primary gets none.

What a primary says is gone is not braked: only absence is, which a restored or half-read cluster shows too.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sidecars.replication.kinds import BY_NAME, ObjectKey
from sidecars.replication.messages import Absences
from sidecars.replication.standby.progress import Progress, Token
from tiphys import logs

FEW = 20
SHARE = 10
"""At most so many, or one in ten of what is here."""

log = logs.get_logger()

Delete = Callable[[ObjectKey, int, Token], None]


@dataclass(slots=True)
class _Held:
    """Of one kind: what waits, and which of it the comparison under way has named again."""

    tokens: dict[ObjectKey, Token] = field(default_factory=dict)
    sequence: int = 0
    """Of the comparison that found them: whatever is newer counts more."""
    named: set[ObjectKey] = field(default_factory=set)


class DeletionBrake:
    def __init__(self, *, progress: Progress, delete: Delete, enabled: bool = True) -> None:
        self._progress = progress
        self._delete = delete
        self._enabled = enabled
        self._held: dict[str, _Held] = {name: _Held() for name in BY_NAME}

    @property
    def held(self) -> Mapping[str, int]:
        return {kind: len(held.tokens) for kind, held in self._held.items() if held.tokens}

    def absent(self, absences: Absences, tokens: list[Token], *, sequence: int, here: int) -> None:
        """`here`: how many of the kind this standby has."""
        held = self._held[absences.kind]
        held.sequence = sequence
        kind = BY_NAME[absences.kind]
        keys = [ObjectKey.of(kind, name) for name in absences.names]
        holds = self._enabled and (absences.present == 0 or absences.total > max(FEW, here // SHARE))
        for key, token in zip(keys, tokens, strict=True):
            held.named.add(key)
            standing = held.tokens.pop(key, token)
            if standing is not token:
                self._progress.done(token)  # the one that came before stands for both
            if holds:
                held.tokens[key] = standing
                self._progress.park(standing)
            else:
                self._delete(key, sequence, standing)
        if holds:
            log.warning(
                "deletions wait for `tiphys ha accept-deletions`",
                **{
                    logs.KIND: absences.kind,
                    logs.COUNT: absences.total,
                    logs.REASON: "the primary has none of the kind" if not absences.present else "too many",
                },
            )

    def compared(self, kind: str) -> None:
        """A comparison of the kind is complete: what it did not name is no longer to be deleted."""
        held = self._held[kind]
        for key in [key for key in held.tokens if key not in held.named]:
            self._progress.done(held.tokens.pop(key))
        held.named.clear()

    def take(self, key: ObjectKey) -> Token | None:
        """The primary told of the object itself, and whoever writes that does what had to be done here."""
        return self._held[key.kind].tokens.pop(key, None)

    def accept(self, kind: str) -> int:
        held = self._held[kind]
        accepted, held.tokens = held.tokens, {}
        for key, token in accepted.items():
            self._delete(key, held.sequence, token)
        return len(accepted)
