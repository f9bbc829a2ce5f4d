"""Events as CloudEvents in protobuf, with the attribute kinds that Go's reader insists on."""

from base64 import b64encode
from collections.abc import Iterable
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from argocd.agents.vocabulary import OBJECT_TARGETS, Target
from sidecars.wire.errors import MalformedError
from sidecars.wire.events import Event
from sidecars.wire.generated.cloudevents_pb2 import CloudEvent, CloudEventAttributeValue
from sidecars.wire.generated.eventstream_pb2 import Event as Envelope

if TYPE_CHECKING:
    from collections.abc import Mapping

SPEC_VERSION = "1.0"
JSON = "application/json"

# Upstream sends nine at most; a trace baggage or two may join them.
MAX_ATTRIBUTES = 64
# The longest are a subject (two names of 253) and a trace state (512).
MAX_ATTRIBUTE_LENGTH = 4096
# An API server takes 3 MiB of JSON, so an object beyond this was never stored and never will be.
MAX_OBJECT_BYTES = 4 * 1024 * 1024
# Checksums, keys and counters.
MAX_MESSAGE_BYTES = 256 * 1024
# Events that travel together between two ends that announced it: enough to make a message cheap, little
# enough that one agent's burst does not hold up the loop.
MAX_BATCH_EVENTS = 256
MAX_BATCH_BYTES = 1024 * 1024

_RESERVED = {"resourceid", "eventid", "dataschema", "datacontenttype", "subject", "time"}
_SMALL_TARGETS = {
    Target.RESOURCE_RESYNC,
    Target.CLUSTER_CACHE_INFO_UPDATE,
    Target.HEARTBEAT,
    Target.EVENT_PROCESSED,
}


def encode(event: Event) -> bytes:
    """One message of the stream; the same event gives the same bytes."""
    return Envelope(event=to_cloudevent(event)).SerializeToString(deterministic=True)


def encode_batch(events: Iterable[Event]) -> bytes:
    """Several events in one message, for a peer that announced `batches`."""
    return Envelope(batch=[to_cloudevent(event) for event in events]).SerializeToString(deterministic=True)


def batches(events: Iterable[Event]) -> Iterable[list[Event]]:
    """Cut a run of events where a message would grow too large."""
    batch: list[Event] = []
    size = 0
    for event in events:
        if batch and (len(batch) == MAX_BATCH_EVENTS or size + event.cost > MAX_BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(event)
        size += event.cost
    if batch:
        yield batch


def decode(raw: bytes) -> Event:
    """The event of a message from a peer that sends one at a time."""
    (event,) = decode_all(raw)
    if isinstance(event, MalformedError):
        raise event
    return event


def decode_all(raw: bytes) -> list[Event | MalformedError]:
    """Each event of a message, or why it is none: one bad event does not spoil its neighbours."""
    try:
        envelope = Envelope.FromString(raw)
    except DecodeError as error:
        return [MalformedError(f"the message is no protobuf event: {error}")]
    if not envelope.batch:
        return [_judged(envelope.event)]
    if len(envelope.batch) > MAX_BATCH_EVENTS or envelope.HasField("event"):
        return [
            MalformedError(f"a batch of {len(envelope.batch)} events, at most {MAX_BATCH_EVENTS} are taken")
        ]
    return [_judged(event) for event in envelope.batch]


def to_cloudevent(event: Event) -> CloudEvent:
    message = CloudEvent(
        id=event.id,
        source=event.source,
        spec_version=SPEC_VERSION,
        type=event.type,
        binary_data=event.payload,
    )
    attributes = message.attributes  # filled in place: a map that is handed over is copied, value by value
    for name, value in event.extensions.items():
        attributes[name].ce_string = value
    # A schema of any other kind is read as empty by Go, and the event as unknown.
    attributes["dataschema"].ce_uri = event.target
    attributes["resourceid"].ce_string = event.resource_id
    attributes["eventid"].ce_string = event.event_id
    if event.payload:
        attributes["datacontenttype"].ce_string = JSON
    if event.subject:
        attributes["subject"].ce_string = event.subject
    return message


def from_cloudevent(message: CloudEvent) -> Event:
    """Raises MalformedError. Types and targets that are merely unknown are the receiver's business."""
    attributes = dict(message.attributes.items())  # each look into protobuf's own map costs a conversion
    payload = _payload(message)
    resource_id, event_id = _string(attributes, "resourceid"), _string(attributes, "eventid")
    complaint = _attributes_complaint(attributes) or _message_complaint(message, attributes, len(payload))
    if complaint:
        raise MalformedError(complaint, resource_id=resource_id, event_id=event_id)
    return Event(
        type=message.type,
        target=attributes["dataschema"].ce_uri,
        resource_id=resource_id,
        event_id=event_id,
        subject=_string(attributes, "subject"),
        payload=payload,
        extensions={name: _text(value) for name, value in attributes.items() if name not in _RESERVED},
        source=message.source,
        id=message.id,
    )


def _attributes_complaint(attributes: "Mapping[str, CloudEventAttributeValue]") -> str | None:
    if len(attributes) > MAX_ATTRIBUTES:
        return f"the event has {len(attributes)} attributes, at most {MAX_ATTRIBUTES} are taken"
    for name, value in attributes.items():
        if name not in _RESERVED and not (name.isascii() and name.isalnum() and name == name.lower()):
            return f"attribute name {name[:64]!r} is not made of lower-case letters and digits"
        if value.ByteSize() > MAX_ATTRIBUTE_LENGTH:
            return f"attribute {name[:64]!r} is longer than {MAX_ATTRIBUTE_LENGTH} bytes"
    if not _string(attributes, "resourceid") or not _string(attributes, "eventid"):
        return "the event has no resourceid or no eventid of the kind string"
    if "dataschema" not in attributes or not attributes["dataschema"].ce_uri:
        return "the event has no dataschema of the kind uri, which would name its target"
    return None


def _message_complaint(
    message: CloudEvent, attributes: "Mapping[str, CloudEventAttributeValue]", size: int
) -> str | None:
    if message.spec_version != SPEC_VERSION:
        return f"CloudEvents version {message.spec_version[:16]!r} is not {SPEC_VERSION}"
    if not message.type:
        return "the event has no type"
    if message.WhichOneof("data") == "proto_data":
        return "the data is a protobuf message; JSON is expected"
    target = attributes["dataschema"].ce_uri
    limit = _limit(target)
    if limit is not None and size > limit:
        return f"{size} bytes of data for target {target}, at most {limit} are taken"
    return None


def _judged(message: CloudEvent) -> Event | MalformedError:
    try:
        return from_cloudevent(message)
    except MalformedError as error:
        return error


def _limit(target: str) -> int | None:
    """None: the channel's own limit is enough (answers of the proxies may be large)."""
    if target in OBJECT_TARGETS:
        return MAX_OBJECT_BYTES
    return MAX_MESSAGE_BYTES if target in _SMALL_TARGETS else None


def _string(attributes: "Mapping[str, CloudEventAttributeValue]", name: str) -> str:
    return attributes[name].ce_string if name in attributes else ""


def _payload(message: CloudEvent) -> bytes:
    return message.text_data.encode() if message.WhichOneof("data") == "text_data" else message.binary_data


def _text(value: CloudEventAttributeValue) -> str:
    """An extension by CloudEvents' canonical text; upstream sends none but strings."""
    match value.WhichOneof("attr"):
        case "ce_boolean":
            return "true" if value.ce_boolean else "false"
        case "ce_integer":
            return str(value.ce_integer)
        case "ce_bytes":
            return b64encode(value.ce_bytes).decode()
        case "ce_timestamp":
            return _timestamp(value)
        case _:  # at most one of these is set
            return value.ce_string or value.ce_uri or value.ce_uri_ref


def _timestamp(value: CloudEventAttributeValue) -> str:
    try:
        return str(value.ce_timestamp.ToJsonString())
    except ValueError:  # a year that no calendar here knows: nothing reads it, it is only echoed
        return ""
