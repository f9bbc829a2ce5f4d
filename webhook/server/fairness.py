"""Fairness between those who send reviews to one worker, told apart by address.

Bytes of bodies under way are bounded, and shared so that slow senders do not use up the room of others: where it is used
up the address that holds most loses its oldest body that is waited for, so that a newcomer whose body comes at once is
served; it is refused only where nobody else can go.

Judging is synchronous, so that a costly review makes all others of its worker wait. An address whose reviews have been
cheap is served as it comes. All others wait in a lane of their own, of which one goes at a time, the cheapest address
first, and after each the loop looks at what has come meanwhile. So one costly review at most is before an API server's,
however many strangers send some.
"""

import asyncio
import ipaddress
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self

BODY_BYTES = 24 * (1 << 20)
"""Three of the largest reviews and many ordinary ones; with what decoding takes a tenth of the pod's memory."""

UNCOUNTED_BYTES = 16 * 1024
"""A declared body of this size is not counted, and a usual review is smaller: as many as a worker has connections are
8 MiB, which are there besides the budget."""

CHEAP_SECONDS = 0.02
"""Of the processor: ten times what most reviews take."""
LONG_SECONDS = 0.005
"""After work of this length others may have come."""
HALF_LIFE_SECONDS = 30.0
"""In which a past cost counts for half: after a second's work an address waits behind others for minutes."""
ADDRESSES = 1024
LOOKS = 4
"""Turns of the loop from a packet on the wire to the review in it: a reading and three wakings."""

UNKNOWN = float("inf")


def address_of(peer: tuple[Any, ...] | None) -> str:
    """Who is counted as one: an IPv4 address, or the network of 64 bits that one machine has of IPv6."""
    host = str(peer[0]) if peer else ""
    if ":" not in host:
        return host
    address = ipaddress.IPv6Address(host.partition("%")[0])
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((address.packed[:8] + bytes(8), 64)))


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


class Turns:
    def __init__(
        self,
        *,
        processor: Callable[[], float] = time.thread_time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.processor = processor
        self._clock = clock
        self._costs: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._cheap: deque[asyncio.Future[None]] = deque()
        self._costly: dict[asyncio.Future[None], str] = {}
        self._given = False
        """To one of the costly ones, which has not worked yet."""
        self._looking = False

    def cost(self, address: str) -> float:
        """The most that one of its reviews has cost lately; nobody knows yet what a newcomer's will."""
        known = self._costs.get(address)
        if known is None:
            return UNKNOWN
        return float(known[0] * 0.5 ** ((self._clock() - known[1]) / HALF_LIFE_SECONDS))

    def must_wait(self, address: str) -> bool:
        if self._looking:
            return True
        return bool(self._costly or self._given) and self.cost(address) >= CHEAP_SECONDS

    async def wait(self, address: str) -> bool:
        """Whether a turn of the costly lane was given, of which `worked` wants to hear."""
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        given = self.cost(address) >= CHEAP_SECONDS
        if given:
            self._costly[mine] = address
        else:
            self._cheap.append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if self._costly.pop(mine, None) is None and given:
                self._go_on()  # it was its turn
            raise
        return given

    def worked(self, address: str, seconds: float, *, given: bool) -> None:
        """After work that did not wait."""
        costs = self._costs
        if address in costs:
            costs.move_to_end(address)
            if (
                seconds <= LONG_SECONDS and not given
            ):  # nearly every review: no cost that anybody is held back for
                return
        if address not in costs or seconds > self.cost(address):
            costs[address] = (seconds, self._clock())
            if len(costs) > ADDRESSES:
                costs.popitem(last=False)
        if seconds > LONG_SECONDS:
            self._given = False if given else self._given
            self._looking = True
            asyncio.get_running_loop().call_soon(self._look, LOOKS)
        elif given:
            self._go_on()

    def _look(self, times: int) -> None:
        while self._cheap:
            _wake(self._cheap.popleft())
        self._looking = times > 1
        if self._looking:
            asyncio.get_running_loop().call_soon(self._look, times - 1)
        elif not self._given:
            self._go_on()

    def _go_on(self) -> None:
        """With the next of the costly ones, if there is one."""
        self._given = bool(self._costly)
        if self._given:
            first = min(self._costly, key=lambda waiting: self.cost(self._costly[waiting]))
            del self._costly[first]
            _wake(first)


def _wake(waiting: "asyncio.Future[None]") -> None:
    if not waiting.done():
        waiting.set_result(None)
