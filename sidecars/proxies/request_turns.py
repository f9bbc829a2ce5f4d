"""Requests for live objects take turns, so that a crowd of readers does not keep Applications from staying in step."""

import asyncio
from collections.abc import Callable
from types import TracebackType

PAUSE_SECONDS = 0.01
"""So long nobody's turn comes where there is room for none; then one goes on all the same."""


class RequestTurns:
    """So many at a time as there is `room` for, in the order in which they came. Whoever takes longer than `seconds` gives
    its turn to the next and goes on without.
    """

    def __init__(self, room: Callable[[], int], *, seconds: float) -> None:
        self._room = room
        self._seconds = seconds
        # The oldest first, each with the moment at which it is given away.
        self._taken: dict[RequestTurn, float] = {}
        self._waiting: dict[RequestTurn, asyncio.Future[None]] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def taken(self) -> int:
        return len(self._taken)

    def turn(self) -> "RequestTurn":
        return RequestTurn(self)

    async def take(self, turn: "RequestTurn") -> None:
        loop = asyncio.get_running_loop()
        if not self._waiting and self._has_free():
            self._taken[turn] = loop.time() + self._seconds
            return
        called = self._waiting[turn] = loop.create_future()
        self._look_in_time(loop)
        try:
            await called
        except asyncio.CancelledError:
            self.give(turn)  # it may have been called in the same moment
            raise

    def give(self, turn: "RequestTurn") -> None:
        self._taken.pop(turn, None)
        self._waiting.pop(turn, None)
        if self._waiting:
            self._call_next(asyncio.get_running_loop())

    def _has_free(self) -> bool:
        return len(self._taken) < self._room()

    def _call_next(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._waiting and self._has_free():
            self._call(loop)
        self._look_in_time(loop)

    def _call(self, loop: asyncio.AbstractEventLoop) -> None:
        turn = next(iter(self._waiting))
        called = self._waiting.pop(turn)
        self._taken[turn] = loop.time() + self._seconds
        if not called.done():  # or its caller is about to leave, and gives it
            called.set_result(None)

    def _look_in_time(self, loop: asyncio.AbstractEventLoop) -> None:
        """One timer for all, and none where nobody waits."""
        if not self._waiting:
            return
        end = next(iter(self._taken.values()), loop.time() + PAUSE_SECONDS)
        if self._timer is not None:
            if self._timer.when() <= end:
                return
            self._timer.cancel()
        self._timer = loop.call_at(end, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        for turn in [turn for turn, end in self._taken.items() if end <= loop.time()]:
            del self._taken[turn]
        if self._waiting and not self._taken:
            self._call(loop)
        self._call_next(loop)


class RequestTurn:
    __slots__ = ("_turns",)

    def __init__(self, turns: RequestTurns) -> None:
        self._turns = turns

    async def __aenter__(self) -> None:
        await self._turns.take(self)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._turns.give(self)
