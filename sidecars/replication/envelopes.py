"""Messages of a replication stream as argocd-agent's protobuf messages, so that one service serves both."""

from google.protobuf.message import DecodeError

from sidecars.replication.messages import (
    PrimaryMessage,
    PrimaryWord,
    ReplicaMessage,
    ReplicaWord,
    held_text,
    read_held,
)
from sidecars.wire.errors import MalformedError
from sidecars.wire.generated.cloudevents_pb2 import CloudEvent, CloudEventAttributeValue
from sidecars.wire.generated.replication_pb2 import ReplicatedEvent, ReplicationAck

PREFIX = "dev.tiphys.replication."
START_KEY = "tiphys-replica-start"
"""Metadata of the call: from where the replica goes on. Who sends it speaks what is described here."""
MAX_START_BYTES = 4096
MAX_DIGITS = 20

_NUMBER, _COMPLETE, _CHECKSUM = "number", "complete", "checksum"


def encode_primary(message: PrimaryMessage) -> bytes:
    attributes = {
        _NUMBER: CloudEventAttributeValue(ce_string=str(message.number)),
        _COMPLETE: CloudEventAttributeValue(ce_string=str(message.complete)),
        _CHECKSUM: CloudEventAttributeValue(ce_bytes=message.checksum),
    }
    event = CloudEvent(
        spec_version="1.0",
        type=PREFIX + message.word,
        attributes=attributes,
        binary_data=message.payload,
    )
    return ReplicatedEvent(
        event=event, direction="outbound", sequence_num=message.sequence
    ).SerializeToString()


def decode_primary(raw: bytes) -> PrimaryMessage:
    try:
        envelope = ReplicatedEvent.FromString(raw)
    except DecodeError as error:
        raise MalformedError("the primary sent no message of replication") from error
    event = envelope.event
    word = event.type.removeprefix(PREFIX)
    number, complete = (_number(event, name) for name in (_NUMBER, _COMPLETE))
    if not event.type.startswith(PREFIX) or word not in set(PrimaryWord) or min(number, complete) < 0:
        raise MalformedError(f"the primary sent {event.type[:80]!r}, which is no word of replication")
    return PrimaryMessage(
        word=PrimaryWord(word),
        number=number,
        complete=complete,
        sequence=envelope.sequence_num,
        payload=event.binary_data,
        checksum=event.attributes[_CHECKSUM].ce_bytes if _CHECKSUM in event.attributes else b"",
    )


def _number(event: CloudEvent, name: str) -> int:
    """-1 where there is none: a look-up of an absent name would add it."""
    text = event.attributes[name].ce_string if name in event.attributes else ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < MAX_DIGITS else -1


def encode_replica(message: ReplicaMessage) -> bytes:
    return ReplicationAck(
        acked_sequence_num=message.acknowledged,
        taken_bytes=message.taken,
        word=message.word,
        held=held_text(message.held),
        payload=message.payload,
    ).SerializeToString()


def decode_replica(raw: bytes) -> ReplicaMessage:
    try:
        envelope = ReplicationAck.FromString(raw)
    except DecodeError as error:
        raise MalformedError("the replica sent no message of replication") from error
    if envelope.word not in set(ReplicaWord):
        raise MalformedError(f"the replica sent {envelope.word[:80]!r}, which is no word of replication")
    return ReplicaMessage(
        word=ReplicaWord(envelope.word),
        acknowledged=envelope.acked_sequence_num,
        taken=envelope.taken_bytes,
        held=read_held(envelope.held),
        payload=envelope.payload,
    )
