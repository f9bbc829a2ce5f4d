"""What either end does with a resync message: which it takes, and the two answers and two questions that follow."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, TypeVar

from argocd.agents.checksums import ResourceKey
from argocd.agents.resync import Side, UpdateRequest, accepts, resources_to_tell
from argocd.agents.vocabulary import Message, Mode
from sidecars.mirroring.resync_events import (
    ResyncEvents,
    read_list_request,
    read_resource,
    read_update_request,
    resync_message,
)
from sidecars.wire.events import Event
from tiphys.errors import ObjectError

Peer = TypeVar("Peer")
"""The other end, as this one knows it."""


class Resync(ABC, Generic[Peer]):
    def __init__(self, *, side: Side, events: ResyncEvents) -> None:
        self._side = side
        self._events = events

    def resync(self, peer: Peer, event: Event) -> None:
        message = resync_message(event)
        if not accepts(self._side, message, mode=self._mode(peer)):
            raise self._not_accepted(peer, message)
        if message is Message.REQUEST_SYNCED_RESOURCE_LIST:
            self._answer_list(peer, checksum=read_list_request(event))
        elif message is Message.REQUEST_UPDATE:
            self._answer(peer, read_update_request(event))
        elif message is Message.RESPONSE_SYNCED_RESOURCE:
            self._ask_about(peer, read_resource(event))
        else:
            self._ask_updates(peer)

    def _answer_list(self, peer: Peer, *, checksum: bytes | None) -> None:
        for key in resources_to_tell(list(self._tracked(peer)), checksum=checksum):
            self._send(peer, self._events.resource(key))

    def _ask_about(self, peer: Peer, resource: ResourceKey) -> None:
        request = self._request_about(peer, resource)
        if request is not None:
            self._send(peer, self._events.update_request(request))

    @abstractmethod
    def _mode(self, peer: Peer) -> Mode:
        """Of the agent, whichever end that is."""

    @abstractmethod
    def _send(self, peer: Peer, event: Event) -> bool: ...

    @abstractmethod
    def _not_accepted(self, peer: Peer, message: Message) -> ObjectError: ...

    # The source's half.

    @abstractmethod
    def _tracked(self, peer: Peer) -> Iterable[ResourceKey]:
        """What the peer should have."""

    @abstractmethod
    def _answer(self, peer: Peer, request: UpdateRequest) -> None: ...

    # The mirror's half.

    @abstractmethod
    def _request_about(self, peer: Peer, resource: ResourceKey) -> UpdateRequest | None:
        """The question about what the source says that it has; None where there is none."""

    @abstractmethod
    def _ask_updates(self, peer: Peer) -> None:
        """About all that is mirrored here."""
