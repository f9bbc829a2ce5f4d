"""Which events have been dealt with already, in bounded room.

Nothing here survives a restart of the process. State does not mind: applying it again changes nothing. Who
carries out a command writes its event id with the effect (one annotation per object is enough, because one
event of an object is under way at a time) and compares before doing it again.
"""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Generic, TypeVar

from argocd.agents.vocabulary import Message
from sidecars.delivery.lanes import Lane, Order, key_of, lane_of
from sidecars.wire.events import SENT_AT, Event


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenLimits:
    # Duplicates arrive within minutes of the first copy: an agent's commands of days fit.
    commands: int = 2048
    # State may be applied twice: enough for the ordinary resend after a reconnect.
    state: int = 1024


class Sighting:
    """What tells an event apart, worked out once.

    Its type belongs to its fingerprint: a spec-update and a set-operation may share both ids. So does the
    time at which state was first sent: the ids name a version of an object, and a peer that repairs what has
    drifted here sends the same version, or the same deletion, anew. A resend keeps its time. A command is
    carried out once for its ids, whenever it was sent.
    """

    __slots__ = ("fingerprint", "key", "once", "order", "track")

    def __init__(self, event: Event) -> None:
        self.key = key_of(event)
        self.order = Order.of(event)
        # Deletions have the commands' lane, but may be done again like state.
        self.once = lane_of(event) is Lane.COMMAND and event.type != Message.DELETE
        sent = "" if self.once else event.extensions.get(SENT_AT, "")
        self.fingerprint = _number(f"{event.type}\n{event.resource_id}\n{event.event_id}\n{sent}")
        self.track = 0 if self.order is None else _number(self.key)


class SeenEvents:
    __slots__ = ("_commands", "_orders", "_state")

    def __init__(self, limits: SeenLimits) -> None:
        self._commands: _Recent[int] = _Recent(limits.commands)
        self._state: _Recent[int] = _Recent(limits.state)
        self._orders: _Recent[Order] = _Recent(limits.state)

    def knows(self, seen: Sighting) -> bool:
        """It, or something newer about the same object from the same outbox, has been dealt with."""
        if seen.order is not None:
            last = self._orders.get(seen.track)
            if (
                last is not None
                and last.incarnation == seen.order.incarnation
                and seen.order.number <= last.number
            ):
                return True
        return (self._commands if seen.once else self._state).get(seen.fingerprint) is not None

    def remember(self, seen: Sighting) -> None:
        if seen.order is not None and not self.knows(seen):
            self._orders.put(seen.track, seen.order)
        if seen.once:
            self._commands.put(seen.fingerprint, seen.fingerprint)
        elif seen.order is None:
            self._state.put(seen.fingerprint, seen.fingerprint)


def _number(text: str) -> int:
    """64 bits: a new one meets one of the few thousand remembered by accident once in 10^15 events."""
    return int.from_bytes(blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest())


V = TypeVar("V")


class _Recent(Generic[V]):
    """The last `limit` or somewhat fewer: two generations, of which the older goes as a whole."""

    __slots__ = ("_half", "_old", "_young")

    def __init__(self, limit: int) -> None:
        self._half = limit // 2
        self._young: dict[int, V] = {}
        self._old: dict[int, V] = {}

    def get(self, number: int) -> V | None:
        return self._young.get(number, self._old.get(number))

    def put(self, number: int, value: V) -> None:
        if len(self._young) >= self._half:
            self._old, self._young = self._young, {}
        if self._half:
            self._young[number] = value
