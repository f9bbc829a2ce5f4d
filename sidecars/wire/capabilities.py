"""What two Tiphys ends can do beyond argocd-agent, announced in a call's metadata.

A peer that announces nothing is spoken to in plain argocd-agent.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

VERSION_PREFIX = "argocd-agent-"
"""Stands before a version that an end tells of itself."""
EXTENSIONS_KEY = "tiphys-extensions"
EPOCH_KEY = "tiphys-epoch"
PAIR_KEY = "tiphys-pair"
LIMIT_KEY = "tiphys-max-message-bytes"

BATCHES = "batches"
"""Takes several events in one message."""
RANGES = "ranges"
"""Answers hashes over ranges of keys."""
EPOCH = "epoch"
"""Knows the principal's term; the value is in its own key."""
REQUESTS = "requests"
"""Keeps a request's deadline, carries out one event id once, and lets go of what is withdrawn."""
READS = "reads"
"""Takes a read's answer for its acknowledgement, acknowledges no such answer, and asks again what a stream lost."""
DRIFT = "drift"
"""Takes an agent's word on which of its copies somebody changes again and again."""
GZIP = "gzip"
"""Likes its messages compressed."""

OURS = frozenset({BATCHES, RANGES, REQUESTS, READS, DRIFT})

# A dozen names; more is no announcement of ours.
MAX_LENGTH = 256
_MAX_NUMBER = 2**63 - 1
# Also the key of a ConfigMap.
_PAIR = re.compile(r"[-A-Za-z0-9]{1,64}")


@dataclass(frozen=True, slots=True)
class Capabilities:
    """`max_message_bytes` is what its sender takes in one message; 0 where it did not say."""

    extensions: frozenset[str] = frozenset()
    epoch: int = 0
    max_message_bytes: int = 0
    pair: str = ""
    """Of principals; an epoch counts within it."""

    @classmethod
    def of(cls, metadata: Mapping[str, Sequence[str]]) -> "Capabilities":
        """What a peer announced; what cannot be read counts as not announced."""
        names = "".join(metadata.get(EXTENSIONS_KEY, ())[:1])
        epoch, limit = _number(metadata, EPOCH_KEY), _number(metadata, LIMIT_KEY)
        if len(names) > MAX_LENGTH or epoch > _MAX_NUMBER or limit > _MAX_NUMBER:
            return cls()
        extensions = frozenset(filter(None, (name.strip() for name in names.split(","))))
        pair = "".join(metadata.get(PAIR_KEY, ())[:1])
        return cls(extensions, epoch, limit, pair if _PAIR.fullmatch(pair) else "")

    def metadata(self) -> list[tuple[str, str]]:
        if not self.extensions:
            return []
        pairs = [(EXTENSIONS_KEY, ",".join(sorted(self.extensions)))]
        if EPOCH in self.extensions:
            pairs += [(EPOCH_KEY, str(self.epoch)), (PAIR_KEY, self.pair)]
        if self.max_message_bytes:
            pairs.append((LIMIT_KEY, str(self.max_message_bytes)))
        return pairs

    def common(self, other: "Capabilities") -> frozenset[str]:
        return self.extensions & other.extensions


def _number(metadata: Mapping[str, Sequence[str]], key: str) -> int:
    number = "".join(metadata.get(key, ())[:1])
    return int(number) if number.isascii() and number.isdecimal() and len(number) <= MAX_LENGTH else 0


def grouped(metadata: Iterable[tuple[str, str | bytes]] | None) -> dict[str, list[str]]:
    """A call's metadata by key. Binary values are none of ours."""
    values: dict[str, list[str]] = {}
    for key, value in metadata or ():
        if isinstance(value, str):
            values.setdefault(key, []).append(value)
    return values
