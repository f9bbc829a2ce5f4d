"""What delivery tells its owner: metrics, reports to people and repairs hang here."""

from dataclasses import dataclass

from sidecars.delivery.outcomes import DeadLetter
from sidecars.wire.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxFigures:
    """For metrics and lists of agents; counters are since the outbox was made."""

    waiting: int
    under_way: int
    acknowledgements: int
    bytes: int
    oldest_seconds: float
    marked: int
    sent: int
    resent: int
    acknowledged: int
    superseded: int


@dataclass(frozen=True, slots=True)
class OverflowedKeys:
    """Keys whose newest state could not be kept; `everything` where they were too many to list."""

    keys: tuple[str, ...] = ()
    everything: bool = False

    def __bool__(self) -> bool:
        return self.everything or bool(self.keys)


class OutboxObserver:
    """Told what happens; metrics and the owner's repairs hang here."""

    def acknowledged(self, peer: str, event: Event, seconds: float) -> None:
        """`seconds` passed since the event was added."""

    def resent(self, peer: str, event: Event, attempt: int) -> None: ...

    def superseded(self, peer: str, event: Event) -> None:
        """A later event made it superfluous. Of a command: its object was deleted meanwhile."""

    def abandoned(self, peer: str, event: Event, error: Exception) -> None:
        """No transport takes it: say so where people look."""

    def unsendable(self, peer: str, event: Event, error: Exception) -> None:
        """No transport takes a request or an answer: somebody waits for it."""

    def marked(self, peer: str, key: str) -> None:
        """The outbox is full: the peer must be compared with, at least at this key."""


class InboxObserver:
    """Told what happens; metrics hang here."""

    def handled(self, peer: str, event: Event, seconds: float) -> None:
        """Applied, `seconds` after it arrived."""

    def duplicate(self, peer: str, event: Event) -> None: ...

    def retried(self, peer: str, event: Event, error: Exception) -> None: ...

    def crashed(self, peer: str, event: Event, error: Exception) -> None: ...

    def dead_letter(self, letter: DeadLetter) -> None: ...
