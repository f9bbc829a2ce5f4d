"""The open connections of a worker: bounded in all and for each address, and which one goes when there are too many.

Anybody can connect and anybody can send a review, so that no connection proves to be the API server's. What holds is
a share: whoever holds most gives up first, and of its connections the one that has carried nothing for longest.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar


class HeldConnection(Protocol):
    address: str

    def abort(self) -> None: ...


Held = TypeVar("Held", bound=HeldConnection)


@dataclass(slots=True)
class _OfAddress(Generic[Held]):
    """In order: what has carried no request yet, and the rest by when it last did."""

    unused: dict[Held, None] = field(default_factory=dict)
    used: dict[Held, None] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.unused) + len(self.used)

    def longest_idle(self, *, but: Held) -> Held:
        """Not the newcomer unless there is nothing else: a silent crowd must not keep it out."""
        return next((one for held in (self.unused, self.used) for one in held if one is not but), but)


class Connections(Generic[Held]):
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._of_one_address = max(limit // 2, 1)
        """API servers may all come from one address, behind a proxy; more than half of all is nobody's."""
        self._held: dict[str, _OfAddress[Held]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Held]:
        return (one for held in self._held.values() for order in (held.unused, held.used) for one in order)

    def admit(self, newcomer: Held) -> None:
        held = self._held.setdefault(newcomer.address, _OfAddress())
        held.unused[newcomer] = None
        self._count += 1
        if len(held) <= self._of_one_address:
            if self._count <= self._limit:
                return
            held = max(self._held.values(), key=len)
        going = held.longest_idle(but=newcomer)
        going.abort()
        self.forget(going)  # at once: a hundred may be accepted before the loop tells that it is gone

    def carried(self, connection: Held) -> None:
        """A whole request has come."""
        held = self._held.get(connection.address)
        if held is not None and (connection in held.used or connection in held.unused):
            held.unused.pop(connection, None)
            held.used.pop(connection, None)
            held.used[connection] = None

    def forget(self, connection: Held) -> None:
        held = self._held.get(connection.address)
        if held is None:
            return
        before = len(held)
        held.unused.pop(connection, None)
        held.used.pop(connection, None)
        self._count -= before - len(held)
        if not len(held):
            del self._held[connection.address]
