"""Which events have been dealt with already, in bounded room.

Nothing here survives a restart of the process. State does not mind: applying it again changes nothing. Who
carries out a command writes its event id with the effect (one annotation per object is enough, because one
event of an object is under way at a time) and compares before doing it again.
"""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Generic, TypeVar

from sidecars.delivery.lanes import Lane, Order, key_of, lane_of
from sidecars.wire.events import SENT_AT, Event, EventType


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLimits:
    # Duplicates arrive within minutes of the first copy: an agent's commands of days fit.
    commands: int = 2048
    # State may be applied twice: enough for the ordinary resend after a reconnect.
    state: int = 1024


class Memory:
    __slots__ = ("_commands", "_orders", "_state")

    def __init__(self, limits: MemoryLimits) -> None:
        self._commands: _Recent[str] = _Recent(limits.commands)
        self._state: _Recent[str] = _Recent(limits.state)
        self._orders: _Recent[tuple[str, int]] = _Recent(limits.state)

    def knows(self, event: Event) -> bool:
        """It, or something newer about the same object from the same outbox, has been dealt with."""
        order = Order.of(event)
        if order is not None:
            last = self._orders.get(_number(key_of(event)))
            if last is not None and last[0] == order.incarnation and order.number <= last[1]:
                return True
        seen = self._commands if _happens_once(event) else self._state
        return seen.get(fingerprint(event)) is not None

    def remember(self, event: Event) -> None:
        order = Order.of(event)
        if order is not None and not self.knows(event):
            self._orders.put(_number(key_of(event)), (order.incarnation, order.number))
        if _happens_once(event):
            self._commands.put(fingerprint(event), event.type)
        elif order is None and event.expects_acknowledgement:
            self._state.put(fingerprint(event), event.type)


def fingerprint(event: Event) -> int:
    """Tells events apart. The type belongs to it: a spec-update and a set-operation may share both ids.

    So does the time at which state was first sent: the ids name a version of an object, and a peer that
    repairs what has drifted here sends the same version, or the same deletion, anew. A resend keeps its
    time. A command is carried out once for its ids, whenever it was sent.
    """
    sent = "" if _happens_once(event) else event.extensions.get(SENT_AT, "")
    return _number(f"{event.type}\n{event.resource_id}\n{event.event_id}\n{sent}")


def _happens_once(event: Event) -> bool:
    """Deletions have the commands' lane, but may be done again like state."""
    return lane_of(event) is Lane.COMMAND and event.type != EventType.DELETE


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
