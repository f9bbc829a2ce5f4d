"""A stream of events over grpc, the same on both ends: `delivery` sees `send` and `receive`."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import grpc
from grpc import aio

from argocd.agents.vocabulary import Message, Target
from sidecars.wire import capabilities, envelopes
from sidecars.wire.errors import MalformedError
from sidecars.wire.events import Event
from tiphys import logs, metrics
from tiphys.errors import ObjectError, SurroundingsError

MALFORMED = metrics.counter("tiphys_wire_malformed_events_total", "Events that could not be understood.")
SENT_BYTES = metrics.counter("tiphys_wire_sent_bytes_total", "Bytes of events before compression.")
RECEIVED_BYTES = metrics.counter("tiphys_wire_received_bytes_total", "Bytes of events after decompression.")

# An object has 4 MiB at most and a batch 1 MiB: what is larger is refused before it is read, since reading
# takes four times its size. argocd-agent takes 200 MiB, for the answers of its proxies.
DEFAULT_MAX_MESSAGE_BYTES = 16 * 1024 * 1024
# As upstream does: early enough to raise the limit before something is refused.
WARN_SHARE = 0.8
# Different complaints about one stream that get their own line; the metric counts them all.
MAX_LOGGED = 8

log = logs.get_logger()


class StreamLostError(SurroundingsError):
    """The connection is gone. `code` is grpc's name for why."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code


class MessageTooLargeError(ObjectError):
    """One of the ends would not take it; sending it would end the stream for everything else."""


class EventStream:
    """One at a time may send and one may receive; acknowledgements of malformed events fit in between."""

    def __init__(
        self,
        *,
        read: Callable[[], Awaitable[Any]],
        write: Callable[[bytes], Awaitable[None]],
        extensions: frozenset[str],
        label: str,
        source: str,
        max_message_bytes: int,
        peer_takes: int = 0,
    ) -> None:
        """`peer_takes`: the bytes of one message that the other end takes, where that is known."""
        self._read = read
        self._write = write
        self._batches = capabilities.BATCHES in extensions
        self._label = label
        self._source = source
        self._max_bytes = max_message_bytes
        self._max_sent = min(max_message_bytes, peer_takes or max_message_bytes)
        self._writing = asyncio.Lock()
        self._arrived: list[Event] = []  # what is left of one message, the next one last
        self._complaints: set[str] = set()

    async def send(self, event: Event) -> None:
        """Returns when the transport has taken it; raises StreamLostError or TooLargeError."""
        await self._transmit(envelopes.encode(event), event.type)

    async def send_many(self, events: Iterable[Event]) -> None:
        """In as few messages as the peer understands."""
        if not self._batches:
            for event in events:
                await self.send(event)
            return
        for batch in envelopes.batches(events):
            raw = envelopes.encode(batch[0]) if len(batch) == 1 else envelopes.encode_batch(batch)
            await self._transmit(raw, batch[0].type)

    async def receive(self) -> Event | None:
        """The next event that can be understood, or None when the peer has finished."""
        while not self._arrived:
            try:
                raw = await self._read()
            except (grpc.RpcError, aio.BaseError, asyncio.InvalidStateError) as error:
                raise _lost(error, self._label) from error
            if raw is aio.EOF:
                return None
            self._note_size(raw, "received", self._max_bytes)
            RECEIVED_BYTES.inc(len(raw))
            for item in envelopes.decode_all(raw):
                if isinstance(item, MalformedError):
                    await self._refuse(item)
                else:
                    self._arrived.append(item)
            self._arrived.reverse()
        return self._arrived.pop()

    async def _transmit(self, raw: bytes, kind: str) -> None:
        if len(raw) > self._max_sent:
            whose = "our" if self._max_sent == self._max_bytes else "the other end's"
            raise MessageTooLargeError(
                f"a message of {len(raw)} bytes, and {self._max_sent} is the most:"
                f" raise {whose} --grpc-max-message-size"
            )
        self._note_size(raw, kind, self._max_sent)
        SENT_BYTES.inc(len(raw))
        async with self._writing:  # grpc takes one message at a time
            try:
                await self._write(raw)
            except (grpc.RpcError, aio.BaseError, asyncio.InvalidStateError) as error:
                raise _lost(error, self._label) from error

    async def _refuse(self, error: MalformedError) -> None:
        """Said once for each complaint; acknowledged, so that its sender does not repeat it for ever."""
        MALFORMED.inc()
        reason = str(error)
        if reason not in self._complaints and len(self._complaints) < MAX_LOGGED:
            self._complaints.add(reason)
            log.warning(
                "malformed event refused",
                **{logs.PEER: self._label, logs.REASON: reason, logs.KEY: error.resource_id[:300]},
            )
        if error.can_be_acknowledged:
            acknowledgement = Event(
                type=Message.PROCESSED,
                target=Target.EVENT_PROCESSED,
                resource_id=error.resource_id,
                event_id=error.event_id,
                source=self._source,
            )
            await self.send(acknowledgement)

    def _note_size(self, raw: bytes, kind: str, limit: int) -> None:
        if len(raw) > limit * WARN_SHARE:
            log.warning(
                "a message is close to the largest that is taken: raise the limit on both ends",
                **{logs.PEER: self._label, logs.KIND: kind, logs.COUNT: len(raw)},
            )


def _lost(error: BaseException, label: str) -> StreamLostError:
    code = error.code().name if isinstance(error, aio.AioRpcError) else "UNAVAILABLE"
    details = (error.details() if isinstance(error, aio.AioRpcError) else str(error)) or "closed"
    return StreamLostError(f"the stream with {label} ended: {code}: {details[:300]}", code=code)
