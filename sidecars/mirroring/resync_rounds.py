"""A source's periodic question to a peer that does not compare: ask me about everything that you have.

Its questions show what differs and what it should no longer have. What it does not ask about it lacks.
"""

from collections.abc import Iterable

from argocd.agents.vocabulary import Message
from sidecars.wire.events import Event

INTERVALS = 3
"""Such a round costs a peer a look at each object, where a comparison costs a few hashes: it comes less often."""


class ResyncRound:
    """From one question to the next; `keys` are those of all that the peer should have."""

    __slots__ = ("_heard", "_lacking")

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._lacking = dict.fromkeys(keys)
        self._heard = False

    def done(self, event: Event) -> None:
        """An event was acknowledged: if it was the question, what follows is the answer."""
        if event.type == Message.REQUEST_RESOURCE_RESYNC:
            self._heard = True

    def asked(self, key: str) -> None:
        self._lacking.pop(key, None)

    @property
    def lacking(self) -> list[str]:
        """When the next round begins. A peer that did not hear the question lacks nothing as far as we know."""
        return list(self._lacking) if self._heard else []
