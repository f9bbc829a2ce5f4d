"""What two Tiphys ends can do beyond argocd-agent, announced in a call's metadata.

A peer that announces nothing is spoken to in plain argocd-agent.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

EXTENSIONS_KEY = "tiphys-extensions"
EPOCH_KEY = "tiphys-epoch"

BATCHES = "batches"
"""Takes several events in one message."""
RANGES = "ranges"
"""Answers hashes over ranges of keys."""
EPOCH = "epoch"
"""Knows the principal's term; the value is in its own key."""
GZIP = "gzip"
"""Likes its messages compressed."""

# A dozen names; more is no announcement of ours.
MAX_LENGTH = 256
_MAX_EPOCH = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Announcement:
    extensions: frozenset[str] = frozenset()
    epoch: int = 0

    @classmethod
    def of(cls, metadata: Mapping[str, Sequence[str]]) -> "Announcement":
        """What a peer announced; what cannot be read counts as not announced."""
        names = "".join(metadata.get(EXTENSIONS_KEY, ())[:1])
        number = "".join(metadata.get(EPOCH_KEY, ())[:1])
        epoch = int(number) if number.isascii() and number.isdecimal() and len(number) <= MAX_LENGTH else 0
        if len(names) > MAX_LENGTH or epoch > _MAX_EPOCH:
            return cls()
        return cls(frozenset(filter(None, (name.strip() for name in names.split(",")))), epoch)

    def metadata(self) -> list[tuple[str, str]]:
        if not self.extensions:
            return []
        pairs = [(EXTENSIONS_KEY, ",".join(sorted(self.extensions)))]
        return [*pairs, (EPOCH_KEY, str(self.epoch))] if EPOCH in self.extensions else pairs

    def common(self, other: "Announcement") -> frozenset[str]:
        return self.extensions & other.extensions


def grouped(metadata: Iterable[tuple[str, str | bytes]] | None) -> dict[str, list[str]]:
    """A call's metadata by key. Binary values are none of ours."""
    values: dict[str, list[str]] = {}
    for key, value in metadata or ():
        if isinstance(value, str):
            values.setdefault(key, []).append(value)
    return values
