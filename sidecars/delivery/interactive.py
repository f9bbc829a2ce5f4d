"""Requests and answers of somebody who waits: they overtake state and are worth nothing after their deadline."""

from collections.abc import Callable
from dataclasses import dataclass

from argocd.agents.vocabulary import Target
from sidecars.delivery.timing import Budget
from sidecars.wire.events import Event

DEADLINE = "tiphysdeadline"
"""The attribute that says how many milliseconds were left when the event was sent: clocks differ, spans do not."""

RUN = 16
"""So many leave in a row where something else waits: a crowd of readers must not keep state from leaving at all."""

_DIGITS = 9  # a week and more; nobody waits that long


def seconds_left(event: Event) -> float | None:
    """Since it was sent; None where the peer does not say."""
    told = event.extensions.get(DEADLINE, "")
    if not (told.isascii() and told.isdecimal()) or len(told) > _DIGITS:
        return None
    return int(told) / 1000


def is_read(request: Event) -> bool:
    """Of an object or a list, which may be asked for twice: nothing remembers the first time."""
    return request.type == "GET" and request.target == Target.RESOURCE


@dataclass(frozen=True, slots=True, kw_only=True)
class InteractiveLimits:
    # What waits or is under way: an answer has 16 MiB at most.
    events: int = 512
    bytes: int = 32 << 20


class _Entry:
    __slots__ = ("deadline", "event", "once", "sent", "told")

    def __init__(self, event: Event, *, deadline: float, once: bool, told: bool) -> None:
        self.event = event
        self.deadline = deadline
        self.once = once
        self.told = told
        self.sent = False


_Ids = tuple[str, str]


class InteractiveLane:
    """What waits to be sent, in order, and what was sent and may be sent again on the next stream.

    An event sent `once` is forgotten as it leaves: a peer that does not know an event id again would carry it out
    twice.
    """

    __slots__ = ("_budget", "_bytes", "_clock", "_limits", "_run", "_under_way", "_waiting", "_wake")

    def __init__(
        self,
        limits: InteractiveLimits,
        *,
        budget: Budget | None,
        clock: Callable[[], float],
        wake: Callable[[], None],
    ) -> None:
        self._limits = limits
        self._budget = budget
        self._clock = clock
        self._wake = wake
        self._bytes = self._run = 0
        self._waiting: dict[_Ids, _Entry] = {}
        self._under_way: dict[_Ids, _Entry] = {}

    def __len__(self) -> int:
        return len(self._waiting) + len(self._under_way)

    @property
    def bytes(self) -> int:
        return self._bytes

    def add(self, event: Event, *, seconds: float, once: bool, told: bool = True) -> bool:
        """False where there is no room for it. `told`: the peer learns its deadline, and keeps it."""
        if not self._has_room(event):
            self._drop_expired()
            if not self._has_room(event):
                return False
        entry = _Entry(event, deadline=self._clock() + seconds, once=once, told=told)
        self._waiting[ids_of(event)] = entry
        self._charge(event.cost)
        self._wake()
        return True

    def take_in_turn(self, take_other: Callable[[], Event | None]) -> Event | None:
        """What leaves next: one of these, but for the turns in which something else does, where it waits."""
        if self._run < RUN and (event := self.take()) is not None:
            self._run += 1
            return event
        self._run = 0
        return take_other() or self.take()

    def take(self) -> Event | None:
        """What leaves next, with the time that it has left."""
        now = self._clock()
        while self._waiting:
            ids = next(iter(self._waiting))
            entry = self._waiting.pop(ids)
            left = entry.deadline - now
            if left <= 0 or entry.once:
                self._charge(-entry.event.cost)
            else:
                self._under_way[ids] = entry
            if left > 0:
                entry.sent = True
                if not entry.told:
                    return entry.event
                return entry.event.extended({DEADLINE: str(max(1, round(left * 1000)))})
        return None

    def acknowledge(self, acknowledgement: Event) -> bool:
        """False where it is nothing of ours."""
        entry = self._under_way.pop(ids_of(acknowledgement), None)
        if entry is not None:
            self._charge(-entry.event.cost)
        return entry is not None

    def withdraw(self, event: Event) -> bool:
        """Nobody waits for it any longer. False where it has left already, so that the peer may have it."""
        entry = self._waiting.pop(ids_of(event), None)
        left = entry is None or entry.sent
        entry = entry or self._under_way.pop(ids_of(event), None)
        if entry is not None:
            self._charge(-entry.event.cost)
        return not left

    def resume(self) -> None:
        """A new stream: the old one may have lost what was under way."""
        self._waiting = {**self._under_way, **self._waiting}
        self._under_way = {}

    def clear(self) -> None:
        self._waiting.clear()
        self._under_way.clear()
        self._charge(-self._bytes)

    def _has_room(self, event: Event) -> bool:
        if len(self) >= self._limits.events:
            return False
        if self._bytes and self._bytes + event.cost > self._limits.bytes:
            return False
        return self._budget is None or self._budget.has_room(event.cost, held=self._bytes, command=True)

    def _drop_expired(self) -> None:
        now = self._clock()
        for entries in (self._waiting, self._under_way):
            for ids in [ids for ids, entry in entries.items() if entry.deadline <= now]:
                self._charge(-entries.pop(ids).event.cost)

    def _charge(self, amount: int) -> None:
        self._bytes += amount
        if self._budget is not None:
            self._budget.used += amount


def ids_of(event: Event) -> _Ids:
    """What an acknowledgement has in common with its event."""
    return event.event_id, event.resource_id
