"""Bytes of bodies under way in one worker: bounded, and shared so that slow senders do not use up the room of others.

Where the room is used up the address that holds most loses its oldest body that is waited for, so that a newcomer
whose body comes at once is served; it is refused only where nobody else can go.
"""

import asyncio
from collections import Counter
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

BODY_BYTES = 24 * (1 << 20)
"""Three of the largest reviews and many ordinary ones; with what decoding takes a tenth of the pod's memory."""


class BodiesFullError(Exception):
    """No room: the caller may come again."""


class BodyBudget:
    def __init__(self, limit: int = BODY_BYTES) -> None:
        self._limit = limit
        self._used = 0
        self._of_address: Counter[str] = Counter()
        self._bodies: dict[Body, None] = {}

    def body(self, address: str) -> "Body":
        return Body(self, address)

    def charge(self, body: "Body", size: int) -> None:
        if body.evicted:
            raise BodiesFullError
        self._bodies[body] = None
        self._used += size
        self._of_address[body.address] += size
        body.size += size
        while self._used > self._limit:
            self._evict(but=body)

    def release(self, body: "Body") -> None:
        if body not in self._bodies:
            return
        del self._bodies[body]
        self._used -= body.size
        self._of_address[body.address] -= body.size
        if not self._of_address[body.address]:
            del self._of_address[body.address]
        body.size = 0

    def _evict(self, *, but: "Body") -> None:
        ((most, _),) = self._of_address.most_common(1)
        for oldest in self._bodies:
            if oldest.address == most and oldest is not but and oldest.waiting is not None:
                oldest.evicted = True
                oldest.waiting.reschedule(asyncio.get_running_loop().time())
                self.release(oldest)
                return
        self.release(but)
        raise BodiesFullError


class Body(AbstractContextManager["Body"]):
    """One body while it is under way; what it was charged is given back at the end."""

    __slots__ = ("_budget", "address", "evicted", "size", "waiting")

    def __init__(self, budget: BodyBudget, address: str) -> None:
        self._budget = budget
        self.address = address
        self.size = 0
        self.evicted = False
        self.waiting: asyncio.Timeout | None = None
        """What its reader waits in: ended at once where the room is needed."""

    def charge(self, size: int) -> None:
        self._budget.charge(self, size)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.size:
            self._budget.release(self)
