"""How often a peer may have us list what we have: a few times at once, then one in a while.

A comparison costs its asker 200 bytes and us a look at every object, on the one thread that serves all peers.
"""

from collections.abc import Callable

TURNS = 4
TURN_SECONDS = 15.0
"""Four a minute: an agent that restarts, or was away, needs one."""


class ComparisonTurns:
    __slots__ = ("_clock", "_left", "_limit", "_since", "seconds")

    def __init__(
        self, clock: Callable[[], float], *, limit: int = TURNS, seconds: float = TURN_SECONDS
    ) -> None:
        self._clock = clock
        self._limit = limit
        self.seconds = seconds
        self._left = float(limit)
        self._since = clock()

    def take(self) -> bool:
        self._refill()
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def _refill(self) -> None:
        now = self._clock()
        self._left = min(float(self._limit), self._left + (now - self._since) / self.seconds)
        self._since = now
