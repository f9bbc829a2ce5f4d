"""How far a standby has got: the sequence up to which everything is written, whatever order it was written in."""

import asyncio
from collections import OrderedDict, deque
from dataclasses import dataclass

MOST_MARKS = 1024
"""Points of the stream at which nothing was missing; while a write fails, fewer do."""


@dataclass(slots=True)
class _Arrival:
    """A message whose bytes are needed until the last of its items is."""

    size: int
    left: int


@dataclass(slots=True, eq=False)
class Token:
    """One thing that has to be done."""

    order: int
    arrival: _Arrival
    takes_room: bool = True
    """Its sender counts it as under way."""


class Progress:
    """Of one stream. `behind` from the start where the primary cannot go on from what was acknowledged before."""

    def __init__(self, *, applied: int, behind: bool) -> None:
        self.applied = applied
        self.seen = applied
        """The highest sequence that the primary has told of."""
        self.taken = 0
        self.changed = asyncio.Event()
        """There is something to tell the primary: what was written, how much room there is, what waits."""
        self._behind_at = 0 if behind else -1
        self._synced: int | None = None
        self._marks: deque[tuple[int, int]] = deque()
        """After which token, and the sequence that is complete then."""
        self._complete = applied
        self._pending: OrderedDict[int, Token] = OrderedDict()
        self._parked: OrderedDict[int, Token] = OrderedDict()
        self._orders = 0
        self._barriers: list[tuple[int, asyncio.Future[None]]] = []

    @property
    def is_behind(self) -> bool:
        return self._behind_at >= 0

    @property
    def pending(self) -> int:
        return len(self._pending)

    def saw(self, sequence: int) -> None:
        self.seen = max(self.seen, sequence)

    def arrive(self, size: int, items: int) -> list[Token]:
        """The tokens of a message's items; a message without any needs no room."""
        if not items:
            self.taken += size
            self.changed.set()
            return []
        arrival = _Arrival(size, items)
        tokens = [Token(self._orders + number, arrival) for number in range(1, items + 1)]
        self._pending.update((token.order, token) for token in tokens)
        self._orders += items
        return tokens

    def complete(self, sequence: int) -> None:
        """Nothing up to the sequence is missing once everything that has arrived is done."""
        if sequence > self._complete:
            self._complete = sequence
            if self._marks and (self._marks[-1][0] == self._orders or len(self._marks) == MOST_MARKS):
                self._marks.pop()
            self._marks.append((self._orders, sequence))
        self._advance()

    def release_room(self, token: Token) -> None:
        """It is still to be done, in room of our own."""
        if token.takes_room:
            token.takes_room = False
            token.arrival.left -= 1
            if not token.arrival.left:
                self.taken += token.arrival.size
                self.changed.set()

    def park(self, token: Token) -> None:
        """It waits for somebody's word: nothing counts as written meanwhile, but nobody waits for it."""
        if self._pending.pop(token.order, None) is not None:
            self._parked[token.order] = token
            self.release_room(token)
            self.changed.set()
            self._advance()

    def done(self, token: Token) -> None:
        parked = self._parked.pop(token.order, None)
        if parked is not None:
            self.changed.set()
        if parked is not None or self._pending.pop(token.order, None) is not None:
            self.release_room(token)
            self._advance()

    def is_first(self, token: Token) -> bool:
        """Whether everything that came before it is done, or waits for somebody's word."""
        return self._first() >= token.order

    def fall_behind(self, sequence: int) -> None:
        self._behind_at = max(self._behind_at, sequence)
        self._synced = None
        self.saw(sequence)

    def sync(self, sequence: int) -> None:
        """All that makes up for what the log could not bring, up to this sequence, has arrived."""
        if self.is_behind and sequence >= self._behind_at:
            self._synced = self._orders

    async def settled(self) -> None:
        """Returns when everything that has arrived so far is done; bound it."""
        if self._first() > self._orders:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._barriers.append((self._orders, future))
        await future

    def _first(self) -> int:
        return next(iter(self._pending), self._orders + 1)

    def _advance(self) -> None:
        before = self.applied, self.is_behind
        first = self._first()
        if self.is_behind and self._synced is not None and first > self._synced:
            self._behind_at, self._synced = -1, None
        first_of_all = min(first, next(iter(self._parked), first))
        while not self.is_behind and self._marks and first_of_all > self._marks[0][0]:
            self.applied = max(self.applied, self._marks.popleft()[1])
        for barrier in [each for each in self._barriers if first > each[0]]:
            self._barriers.remove(barrier)
            if not barrier[1].done():
                barrier[1].set_result(None)
        if (self.applied, self.is_behind) != before:
            self.changed.set()
