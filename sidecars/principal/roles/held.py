"""What an agent has and a newly promoted principal does not know: it may have been created in the last moments of the
old one, and is left alone until somebody decides.
"""

from collections.abc import Sequence

from sidecars.replication.control.parts import HeldObject
from sidecars.replication.metrics import HELD_OBJECTS

# Objects that are deleted here in one activation, of which agents may still have to be told.
REMEMBERED = 100_000
# More than a region creates between its last replicated change and its end; the rest is held too, but not listed.
LISTED = 100_000


class HeldObjects:
    """Where `holding` is off nothing is held. What this principal knew and saw go is nobody's last creation."""

    def __init__(self, *, holding: bool) -> None:
        self._holding = holding
        self._released: set[str] = set()
        self._held: dict[HeldObject, None] = {}
        self._gone: dict[tuple[str, str, str], None] = {}
        HELD_OBJECTS.set(0)

    def holds(self, agent: str, *, kind: str, namespace: str, name: str) -> bool:
        """Whether nothing is to be said about what the agent has under this name."""
        if not self._holding or agent in self._released or (kind, namespace, name) in self._gone:
            return False
        if len(self._held) < LISTED:
            self._held[HeldObject(agent=agent, kind=kind, namespace=namespace, name=name)] = None
            HELD_OBJECTS.set(len(self._held))
        return True

    def saw_go(self, *, kind: str, namespace: str, name: str) -> None:
        if self._holding:
            self._gone[kind, namespace, name] = None
            if len(self._gone) > REMEMBERED:
                del self._gone[next(iter(self._gone))]

    def all(self) -> Sequence[HeldObject]:
        return tuple(self._held)

    def release(self, agent: str) -> int:
        """Of one agent, or of all of them; returns how many were listed."""
        released = [held for held in self._held if not agent or held.agent == agent]
        for held in released:
            del self._held[held]
        if agent:
            self._released.add(agent)
        else:
            self._holding = False
        HELD_OBJECTS.set(len(self._held))
        return len(released)
