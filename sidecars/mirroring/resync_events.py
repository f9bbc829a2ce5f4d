"""The four resync messages: their structs on the wire, what the rules know of them, and rounds of questions."""

from collections.abc import Callable, Iterable

from argocd.agents.checksums import ResourceKey
from argocd.agents.resync import UpdateRequest
from argocd.agents.vocabulary import RESYNC_MESSAGES, Message, Target
from sidecars.wire import payloads
from sidecars.wire.errors import MalformedError
from sidecars.wire.events import Event, message_event

ROUND_INTERVALS = 3
"""Such a round costs a peer a look at each object, where a comparison costs a few hashes: it comes less often."""


def resync_message(event: Event) -> Message:
    message = RESYNC_MESSAGES.get(event.type)
    if message is None:
        raise MalformedError(f"{event.type[:80]!r} is no resync message")
    return message


class ResyncEvents:
    """Makes the events of one side, which differ in their source."""

    def __init__(self, *, source: str, new_id: Callable[[], str]) -> None:
        self._source = source
        self._new_id = new_id

    def _event(self, message: Message, struct: object) -> Event:
        return message_event(
            message,
            target=Target.RESOURCE_RESYNC,
            payload=payloads.write(struct),
            source=self._source,
            new_id=self._new_id,
        )

    def list_request(self, checksum: bytes | None) -> Event:
        return self._event(
            Message.REQUEST_SYNCED_RESOURCE_LIST, payloads.RequestSyncedResourceList(checksum=checksum)
        )

    def resource(self, key: ResourceKey) -> Event:
        return self._event(
            Message.RESPONSE_SYNCED_RESOURCE,
            payloads.SyncedResource(name=key.name, namespace=key.namespace, uid=key.uid, kind=key.kind),
        )

    def update_request(self, request: UpdateRequest) -> Event:
        return self._event(
            Message.REQUEST_UPDATE,
            payloads.RequestUpdate(
                name=request.name,
                namespace=request.namespace,
                uid=request.uid,
                kind=request.kind,
                checksum=request.checksum,
            ),
        )

    def resync_request(self) -> Event:
        return self._event(Message.REQUEST_RESOURCE_RESYNC, payloads.RequestResourceResync())


def read_list_request(event: Event) -> bytes | None:
    return payloads.read(payloads.RequestSyncedResourceList, event.payload).checksum or None


def read_resource(event: Event) -> ResourceKey:
    told = payloads.read(payloads.SyncedResource, event.payload)
    return ResourceKey(kind=told.kind, name=told.name, uid=told.uid, namespace=told.namespace)


def read_update_request(event: Event) -> UpdateRequest:
    told = payloads.read(payloads.RequestUpdate, event.payload)
    return UpdateRequest(
        kind=told.kind,
        name=told.name,
        namespace=told.namespace,
        uid=told.uid,
        checksum=told.checksum or None,
    )


class ResyncRound:
    """A source's periodic question to a peer that does not compare: ask me about everything that you have.

    Its questions show what differs and what it should no longer have. What it does not ask about it lacks. A
    round goes from one question to the next; `keys` are those of all that the peer should have.
    """

    __slots__ = ("_heard", "_lacking")

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._lacking = dict.fromkeys(keys)
        self._heard = False

    def heard(self) -> None:
        """The question was acknowledged: what follows is the answer."""
        self._heard = True

    def asked(self, key: str) -> None:
        self._lacking.pop(key, None)

    @property
    def lacking(self) -> list[str]:
        """When the next round begins. A peer that did not hear the question lacks nothing as far as we know."""
        return list(self._lacking) if self._heard else []
