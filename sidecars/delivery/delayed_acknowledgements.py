"""Acknowledgements of requests and answers, which nobody waits for: they travel with what is sent next."""

import asyncio
from collections.abc import Callable

from sidecars.wire.events import Event

# An answer takes some milliseconds, and a peer that has no acknowledgement sends again after seconds.
DELAY_SECONDS = 0.05


class DelayedAcknowledgements:
    """`acknowledge` sends one."""

    __slots__ = ("_acknowledge", "_timer", "_waiting")

    def __init__(self, acknowledge: Callable[[Event], None]) -> None:
        self._acknowledge = acknowledge
        self._waiting: list[Event] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, event: Event) -> None:
        self._waiting.append(event)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(DELAY_SECONDS, self.flush)

    def flush(self) -> None:
        """Before something else is sent: one message has room for all."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            waiting, self._waiting = self._waiting, []
            for event in waiting:
                self._acknowledge(event)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
