"""When, how often and how much: clocks, backoff and shared room in memory."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The clocks and the dice; a simulation brings its own. All peers of a process share one."""

    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = _utc_now
    random: Random = field(default_factory=Random)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Delays that grow by `factor` up to `ceiling`, each lengthened by up to `jitter` of itself."""

    base: float
    factor: float = 2.0
    ceiling: float = 120.0
    jitter: float = 0.5

    def delay(self, attempt: int, random: Random) -> float:
        """The wait after the given attempt; the first is 1."""
        # Beyond 64 doublings every ceiling is reached, and larger powers overflow a float.
        grown = self.base * self.factor ** min(attempt - 1, 64)
        return float(min(grown, self.ceiling) * (1 + self.jitter * random.random()))


class Budget:
    """Bytes that all the queues of a process share, so that many peers away at once cannot exhaust it.

    Each may hold its `share` in any case: those who are away must not hold up those who are there. Commands may
    use the `reserve` on top.
    """

    __slots__ = ("limit", "reserve", "share", "used")

    def __init__(self, *, limit: int, share: int = 64 << 10, reserve: int = 16 << 20) -> None:
        self.limit = limit
        self.share = share
        self.reserve = reserve
        self.used = 0

    def has_room(self, amount: int, *, held: int, command: bool = False) -> bool:
        """For `amount` more in a queue that holds so much already."""
        limit = self.limit + (self.reserve if command else 0)
        return self.used + amount <= limit or held + amount <= self.share
