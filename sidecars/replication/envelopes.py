"""Messages of a replication stream as argocd-agent's protobuf messages, so that one service serves both."""

from collections.abc import Mapping

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
_PRIMARY_WORDS = {PREFIX + word: word for word in PrimaryWord}
_REPLICA_WORDS = {word.value: word for word in ReplicaWord}


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
    word = _PRIMARY_WORDS.get(event.type)
    attributes = event.attributes
    number, complete = _number(attributes, _NUMBER), _number(attributes, _COMPLETE)
    if word is None or number < 0 or complete < 0:
        raise MalformedError(f"the primary sent {event.type[:80]!r}, which is no word of replication")
    return PrimaryMessage(
        word=word,
        number=number,
        complete=complete,
        sequence=envelope.sequence_num,
        payload=event.binary_data,
        checksum=attributes[_CHECKSUM].ce_bytes if _CHECKSUM in attributes else b"",
    )


def _number(attributes: Mapping[str, CloudEventAttributeValue], name: str) -> int:
    """-1 where there is none: a look-up of an absent name would add it."""
    text = attributes[name].ce_string if name in attributes else ""
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
    word = _REPLICA_WORDS.get(envelope.word)
    if word is None:
        raise MalformedError(f"the replica sent {envelope.word[:80]!r}, which is no word of replication")
    return ReplicaMessage(
        word=word,
        acknowledged=envelope.acked_sequence_num,
        taken=envelope.taken_bytes,
        held=read_held(envelope.held),
        payload=envelope.payload,
    )
