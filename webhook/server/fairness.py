"""Fairness between those who send reviews to one worker, told apart by address.

Bytes of bodies under way are bounded, and shared so that slow senders do not use up the room of others: where it is used
up the address that holds most loses its oldest body that is waited for, so that a newcomer whose body comes at once is
served; it is refused only where nobody else can go.

Judging is synchronous, so that a costly review makes all others of its worker wait. A review is served as it comes where
those of about its size that its address sent have been cheap: one tenant's large project holds up no small one that comes
through the same API server. All others wait in a lane of their own, of which one goes at a time: in turns of the address
that has used the lane least lately, and the first of those that have not used it yet, such as an API server's that has
just started. After each the loop looks at what has come meanwhile, and where another address waits in it the lane rests for
twice as long as it has worked. So one costly review at most is before an API server's cheap ones, however many strangers
send some, two thirds of the processor are left to all others, and the lane is shared evenly by those who come back again
and again. Whoever is alone with his costly reviews does not wait for himself.

A crowd of cheap ones would hold up others as well: five hundred of eight milliseconds are four seconds. After a few
milliseconds in one turn of the loop those that are left wait, and go in turns of the address that has worked least.
"""

import asyncio
import ipaddress
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Self

BODY_BYTES = 24 * (1 << 20)
"""Three of the largest reviews and many ordinary ones; with what decoding takes a tenth of the pod's memory."""

UNCOUNTED_BYTES = 16 * 1024
"""A declared body of this size is not counted, and a usual review is smaller: as many as a worker has connections are
8 MiB, which are there besides the budget."""

CHEAP_SECONDS = 0.01
"""Of the processor: five times what most reviews take."""
LONG_SECONDS = 0.005
"""After work of this length, of one review or of many in a row, others may have come; as much may be charged too much."""
SHORT_SECONDS = 0.0005
"""Nearly every review takes less, and is not counted in such a row: all of a worker's connections are a quarter second."""
HALF_LIFE_SECONDS = 30.0
"""In which a past cost counts for half: after a second's work an address waits behind others for minutes."""
REMEMBERED = 1024
"""Addresses, each with the sizes of what it sends."""
SIZE_BITS = 4
"""Bodies of up to 2, 32 and 512 KiB, and larger ones."""
LOOKS = 4
"""Turns of the loop from a packet on the wire to the review in it: a reading and three wakings."""

ASKING = 8
"""Decisions of one address that an API server is asked about at a time: all of a worker have 64 calls to it together."""

REST = 2
"""For each second that the costly lane has worked while several want it."""

UNKNOWN = float("inf")
NOTHING = (0.0, 0.0)
"""What an address has taken that has not come yet."""

Sent = tuple[str, int]
"""From where, and of about which size."""


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


class Body:
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

    def __exit__(self, *_: object) -> None:
        if self.size:
            self._budget.release(self)


class Shares:
    """So many at a time of each address; its others wait for these, and nobody else does."""

    def __init__(self, each: int = ASKING) -> None:
        self._each = each
        self._places: dict[str, asyncio.Semaphore] = {}
        self._under_way: Counter[str] = Counter()

    @asynccontextmanager
    async def share(self, address: str) -> AsyncIterator[None]:
        self._under_way[address] += 1
        try:
            async with self._places.setdefault(address, asyncio.Semaphore(self._each)):
                yield
        finally:
            self._under_way[address] -= 1
            if not self._under_way[address]:
                del self._under_way[address], self._places[address]


class WorkClock:
    """How much of the processor's time work has taken: other programs may have had it meanwhile.

    Short work has taken no more than the wall clock says. To ask for the processor's own time costs more than most
    rules, so that it is asked after long work, and before work only where it was not asked within LONG_SECONDS: long
    work may be charged so much too much, and never too little.

    What Python takes of it to look for garbage is `collected`: it takes longer than most reviews, and the garbage is mostly
    that of others.
    """

    def __init__(
        self,
        *,
        wall: Callable[[], float] = time.perf_counter,
        processor: Callable[[], float] = time.thread_time,
    ) -> None:
        self._wall = wall
        self._processor = processor
        self._asked = float("-inf")
        self._used = 0.0
        self._collecting = 0.0
        self.collected = 0.0
        """Seconds since the last work began."""

    def collector(self, phase: str, _: object) -> None:
        """For `gc.callbacks`."""
        now = self._processor()
        if phase == "start":
            self._collecting = now
        else:
            self.collected += now - self._collecting

    def begin(self) -> float:
        """The wall clock's time, for `since`."""
        now = self._wall()
        self.collected = 0.0
        if now - self._asked > LONG_SECONDS:
            self._asked, self._used = now, self._processor()
        return now

    def since(self, begin: float) -> float:
        seconds = self._wall() - begin
        return seconds if seconds <= LONG_SECONDS else min(seconds, self._processor() - self._used)


class Turns:
    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._costs: OrderedDict[Sent, tuple[float, float]] = OrderedDict()
        """The most that one of these reviews has taken lately."""
        self._used: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """What an address has taken of the lane lately, all in all."""
        self._crowd: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """The same of what was worked since the first of those waited that wait now, in the lane or not."""
        self._cheap: dict[asyncio.Future[None], Sent] = {}
        self._costly: dict[asyncio.Future[None], str] = {}
        self._given = False
        """To one of the costly ones, which has not worked yet; or nobody may have a turn, because the lane rests."""
        self._known_next = False
        """Those who have used the lane and newcomers take turns."""
        self._looking = False
        self._looks = 0
        """How many are left until the costly lane goes on."""
        self._long = ("", 0.0)
        """Who has worked before them, and for how long."""
        self._in_a_row = 0.0
        """Seconds of work in this turn of the loop."""

    @staticmethod
    def sent(address: str, size: int) -> Sent:
        return address, size.bit_length() // SIZE_BITS

    def cost(self, sent: Sent) -> float:
        """Nobody knows yet what a newcomer's will."""
        known = self._costs.get(sent)
        return UNKNOWN if known is None else self._faded(known)

    def must_wait(self, sent: Sent) -> bool:
        if self._looking:
            return True
        return bool(self._costly or self._given) and self.cost(sent) >= CHEAP_SECONDS

    async def wait(self, sent: Sent) -> bool:
        """Whether a turn of the costly lane was given, of which `worked` wants to hear."""
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        given = self.cost(sent) >= CHEAP_SECONDS
        if given:
            self._costly[mine] = sent[0]
        else:
            self._cheap[mine] = sent
        try:
            await mine
        except asyncio.CancelledError:
            self._cheap.pop(mine, None)
            if self._costly.pop(mine, None) is None and given:
                self._go_on()  # it was its turn
            raise
        return given

    def worked(self, sent: Sent, seconds: float, *, given: bool, collected: float) -> None:
        """After work that did not wait. Of the seconds so many went to others' garbage, for which nobody is held to be costly:
        an API server's small reviews would wait in the costly lane for what strangers have left behind.
        """
        costs = self._costs
        in_long_row = self._is_long_row(seconds)
        if sent in costs:
            costs.move_to_end(sent)
            # Nearly every review: it has no cost that anybody is held back for, and nobody waits.
            if not (given or in_long_row or self._looking):
                return
        cost = seconds - collected
        if sent not in costs or cost > self.cost(sent):
            costs[sent] = (cost, self._clock())
            if len(costs) > REMEMBERED:
                costs.popitem(last=False)
        address, _ = sent
        if given or seconds > LONG_SECONDS:
            self._use(self._used, address, seconds)
        if in_long_row or self._looking:
            self._use(self._crowd, address, seconds)
        if in_long_row:
            self._look_around(address, seconds, given=given)
        elif given:
            self._go_on()

    def _is_long_row(self, seconds: float) -> bool:
        if seconds > SHORT_SECONDS:
            if not self._in_a_row:
                asyncio.get_running_loop().call_soon(self._end_row)
            self._in_a_row += seconds
        return self._in_a_row > LONG_SECONDS

    def _end_row(self) -> None:
        self._in_a_row = 0.0

    def _use(self, of: OrderedDict[str, tuple[float, float]], address: str, seconds: float) -> None:
        of[address] = (self._faded(of.get(address, NOTHING)) + seconds, self._clock())
        of.move_to_end(address)
        if len(of) > REMEMBERED:
            of.popitem(last=False)

    def _faded(self, known: tuple[float, float]) -> float:
        seconds, when = known
        return float(seconds * 0.5 ** ((self._clock() - when) / HALF_LIFE_SECONDS))

    def _look_around(self, address: str, seconds: float, *, given: bool) -> None:
        if given:
            self._given = False
        if given or not self._looks:  # the costly lane goes on, however large the crowd is
            self._looks, self._long = LOOKS, (address, seconds)
        if not self._looking:
            self._looking = True
            asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        """In each turn of the loop, until nobody waits."""
        self._wake_cheap()
        if self._looks:
            self._looks -= 1
            if not self._looks and not self._given:
                self._let_costly_rest(*self._long)
        self._looking = bool(self._looks or self._cheap)
        if self._looking:
            asyncio.get_running_loop().call_soon(self._look)
        else:
            self._crowd.clear()

    def _wake_cheap(self) -> None:
        """As many as will work for a few milliseconds together: of those that have worked least the cheapest."""

        def rank(waiting: "asyncio.Future[None]") -> tuple[float, float]:
            sent = self._cheap[waiting]
            return self._crowd.get(sent[0], NOTHING)[0], self.cost(sent)

        expected = 0.0
        for waiting in sorted(self._cheap, key=rank):
            expected += self.cost(self._cheap.pop(waiting))
            _wake(waiting)
            if expected > LONG_SECONDS:
                return

    def _let_costly_rest(self, address: str, seconds: float) -> None:
        self._given = any(other != address for other in self._costly.values())
        if self._given:
            asyncio.get_running_loop().call_later(REST * seconds, self._go_on)
        else:
            self._go_on()

    def _go_on(self) -> None:
        """With the next of the costly ones, if there is one."""
        self._given = bool(self._costly)
        if self._given:
            first = self._next()
            del self._costly[first]
            _wake(first)

    def _next(self) -> "asyncio.Future[None]":
        """Whoever has no end of addresses must not keep back those that are known, nor the known ones a newcomer."""
        known = {each: used for each, address in self._costly.items() if (used := self._used.get(address))}
        newcomer = next((waiting for waiting in self._costly if waiting not in known), None)
        if newcomer is not None:
            self._known_next = not self._known_next
            if self._known_next or not known:
                return newcomer
        return min(known, key=lambda waiting: self._faded(known[waiting]))


def _wake(waiting: "asyncio.Future[None]") -> None:
    if not waiting.done():
        waiting.set_result(None)
