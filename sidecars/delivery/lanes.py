"""What sort of event is this, which object is it about, and what does it make superfluous?

State may be left out when newer state follows; commands are carried out one by one; acknowledgements and
heartbeats are sent once and forgotten; what somebody waits for overtakes state and ends with its deadline.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol, TypeVar

from argocd.agents.vocabulary import INTERACTIVE_TARGETS, OBJECT_TARGETS, Message
from sidecars.wire.events import Event

ORDER = "tiphysorder"
"""The attribute that numbers what an outbox sends: `<incarnation>.<number>`.

A receiver that knows it never takes older state over newer, and every peer echoes it in its
acknowledgement (Go peers copy all attributes), which makes that exact: argocd-agent gives a spec-update and
the set-operation made from the same version of an object the same two ids.
"""


_DIGITS = 20  # hold every number that an outbox can reach


class Lane(IntEnum):
    STATE = 0
    COMMAND = 1
    ACKNOWLEDGEMENT = 2
    HEARTBEAT = 3
    INTERACTIVE = 4


# Of these the newest says all that the older ones said. A create is state too, but stays: a Go principal
# ignores the update of an Application that it has not been told to create.
COMPACTED = frozenset(
    {Message.SPEC_UPDATE, Message.STATUS_UPDATE, Message.CLUSTER_CACHE_INFO_UPDATE},
)
_STATE = COMPACTED | {Message.CREATE}
_HEARTBEATS = frozenset({Message.PING, Message.PONG})


def lane_of(event: Event) -> Lane:
    """Whatever is not known to be state is a command: it is never merged with another."""
    if event.type in _STATE:
        return Lane.STATE
    if event.type == Message.PROCESSED:
        return Lane.ACKNOWLEDGEMENT
    if event.type in _HEARTBEATS:
        return Lane.HEARTBEAT
    if event.target in INTERACTIVE_TARGETS:
        return Lane.INTERACTIVE
    return Lane.COMMAND


def key_of(event: Event) -> str:
    """Events with the same key stay in order. An object keeps its key when it is recreated with a new uid."""
    if event.target in OBJECT_TARGETS and event.subject:
        return f"{event.target}/{event.subject}"
    if event.type == Message.CLUSTER_CACHE_INFO_UPDATE:
        return event.target
    return event.resource_id


class Typed(Protocol):
    @property
    def type(self) -> str: ...


T = TypeVar("T", bound=Typed)


def compact(queue: Sequence[T]) -> list[T]:
    """The events of one object without the updates that a later one of the same type makes superfluous."""
    newest = {event.type: position for position, event in enumerate(queue) if event.type in COMPACTED}
    return [event for position, event in enumerate(queue) if newest.get(event.type, position) == position]


def supersedes(newer: Event, older: Event) -> bool:
    """Does `newer`, about the same object, make `older` superfluous although that is under way?

    The deletion of an earlier uid is not undone by that of a later one: the peer may still have the former.
    """
    if newer.type == Message.DELETE:
        return older.type != Message.DELETE or older.resource_id == newer.resource_id
    return newer.type in COMPACTED and newer.type == older.type


@dataclass(frozen=True, slots=True)
class Order:
    """Where an event stands among all that one outbox has sent since it was made."""

    incarnation: str
    number: int

    def __str__(self) -> str:
        return f"{self.incarnation}.{self.number}"

    @classmethod
    def of(cls, event: Event) -> "Order | None":
        """None where the peer does not number its events, or writes something else there."""
        incarnation, dot, number = event.extensions.get(ORDER, "").rpartition(".")
        # isdecimal alone admits other scripts' digits.
        if not (dot and incarnation and number.isascii() and number.isdecimal()) or len(number) > _DIGITS:
            return None
        return cls(incarnation, int(number))
