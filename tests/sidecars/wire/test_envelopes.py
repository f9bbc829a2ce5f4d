"""Bytes of a peer that are no event, or a strange one: refused with a reason, never with a crash."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argocd.agents.vocabulary import Message, Target
from sidecars.wire import envelopes
from sidecars.wire.envelopes import batches, decode, decode_all, encode, encode_batch, to_cloudevent
from sidecars.wire.errors import MalformedError
from sidecars.wire.events import Event
from sidecars.wire.generated.cloudevents_pb2 import CloudEvent
from sidecars.wire.generated.eventstream_pb2 import Event as Envelope

GOOD = Event(
    type=Message.SPEC_UPDATE,
    target=Target.APPLICATION,
    resource_id="app_u",
    event_id="app_u_1",
    subject="argocd/app",
    payload=b'{"metadata":{"name":"app"}}',
    extensions={
        "principaluid": "p",
        "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    },
)


def bent(bend: Callable[[CloudEvent], object]) -> bytes:
    message = to_cloudevent(GOOD)
    bend(message)
    return Envelope(event=message).SerializeToString()


def as_string(message: CloudEvent) -> None:
    message.attributes["dataschema"].ce_string = "application"


def as_reference(message: CloudEvent) -> None:
    message.attributes["dataschema"].ce_uri_ref = "application"


def id_as_number(message: CloudEvent) -> None:
    message.attributes["resourceid"].ce_integer = 7


def many_attributes(message: CloudEvent) -> None:
    for number in range(100):
        message.attributes[f"x{number}"].ce_string = "y"


def long_attribute(message: CloudEvent) -> None:
    message.attributes["x"].ce_string = "y" * 5000


def shouted_attribute(message: CloudEvent) -> None:
    message.attributes["TraceParent"].ce_string = "y"


def protobuf_data(message: CloudEvent) -> None:
    message.proto_data.type_url = "type.googleapis.com/x"


def large_object(message: CloudEvent) -> None:
    message.binary_data = b"x" * (envelopes.MAX_OBJECT_BYTES + 1)


def large_message(message: CloudEvent) -> None:
    message.attributes["dataschema"].ce_uri = "resourceResync"
    message.binary_data = b"x" * (envelopes.MAX_MESSAGE_BYTES + 1)


def other_version(message: CloudEvent) -> None:
    message.spec_version = "0.3"


def no_type(message: CloudEvent) -> None:
    message.type = ""


@pytest.mark.parametrize(
    ("bend", "reason"),
    [
        (as_string, "no dataschema of the kind uri"),
        (as_reference, "no dataschema of the kind uri"),
        (lambda message: message.attributes.pop("dataschema"), "no dataschema of the kind uri"),
        (id_as_number, "no resourceid or no eventid"),
        (lambda message: message.attributes.pop("eventid"), "no resourceid or no eventid"),
        (many_attributes, "attributes, at most 64"),
        (long_attribute, "attribute 'x' is longer than 4096 bytes"),
        (shouted_attribute, "'TraceParent' is not made of lower-case letters"),
        (protobuf_data, "JSON is expected"),
        (large_object, "4194305 bytes of data for target application"),
        (large_message, "262145 bytes of data for target resourceResync"),
        (other_version, "version '0.3' is not 1.0"),
        (no_type, "no type"),
    ],
)
def test_a_bent_event_is_refused_with_its_reason(bend: Callable[[CloudEvent], object], reason: str) -> None:
    with pytest.raises(MalformedError) as caught:
        decode(bent(bend))
    assert reason in str(caught.value)


def test_a_malformed_event_can_be_acknowledged_where_its_ids_are_readable() -> None:
    with pytest.raises(MalformedError) as caught:
        decode(bent(as_string))
    assert (caught.value.resource_id, caught.value.event_id) == ("app_u", "app_u_1")
    assert caught.value.can_be_acknowledged


def test_an_event_without_ids_cannot_be_acknowledged() -> None:
    with pytest.raises(MalformedError) as caught:
        decode(bent(lambda message: message.attributes.clear()))
    assert not caught.value.can_be_acknowledged


@pytest.mark.parametrize("raw", [b"\xff", b"\x0a\x05abc", b"\x0a\x02\x0a\x01", b"\x0a\x03\x0a\x01\xff", b""])
def test_bytes_that_are_no_event_are_refused(raw: bytes) -> None:
    with pytest.raises(MalformedError):
        decode(raw)


@given(raw=st.binary(max_size=200))
def test_no_bytes_whatever_raise_anything_else(raw: bytes) -> None:
    assert all(isinstance(item, Event | MalformedError) for item in decode_all(raw))


@given(
    cut=st.integers(min_value=0, max_value=400),
    flips=st.lists(st.tuples(st.integers(0, 400), st.integers(1, 255)), max_size=4),
)
def test_no_damage_to_a_good_event_raises_anything_else(cut: int, flips: list[tuple[int, int]]) -> None:
    raw = bytearray(encode(GOOD))
    for place, flip in flips:
        raw[place % len(raw)] ^= flip
    assert all(isinstance(item, Event | MalformedError) for item in decode_all(bytes(raw[:cut])))


def test_unknown_types_and_targets_are_the_receivers_business() -> None:
    strange = Event(type="io.example.new", target="newThing", resource_id="r", event_id="e")
    assert decode(encode(strange)) == strange


def test_extensions_of_other_kinds_are_kept_as_text() -> None:
    def add(message: CloudEvent) -> None:
        message.attributes["a"].ce_boolean = True
        message.attributes["b"].ce_integer = -3
        message.attributes["c"].ce_bytes = b"hi"
        message.attributes["d"].ce_timestamp.seconds = 0
        message.attributes["e"].ce_timestamp.seconds = 2**62
        message.attributes["f"].ce_uri_ref = "/x"

    extensions = decode(bent(add)).extensions
    assert [extensions[name] for name in "abcdef"] == ["true", "-3", "aGk=", "1970-01-01T00:00:00Z", "", "/x"]


def test_text_data_is_json_too() -> None:
    def as_text(message: CloudEvent) -> None:
        message.text_data = "{}"

    assert decode(bent(as_text)).payload == b"{}"


def test_one_bad_event_does_not_spoil_its_batch() -> None:
    bad = to_cloudevent(GOOD)
    bad.spec_version = ""
    raw = Envelope(batch=[to_cloudevent(GOOD), bad, to_cloudevent(GOOD)]).SerializeToString()
    first, second, third = decode_all(raw)
    assert (first, third) == (GOOD, GOOD)
    assert isinstance(second, MalformedError)


def test_batches_are_cut_by_number_and_by_size() -> None:
    small = [GOOD] * 600
    assert [len(batch) for batch in batches(small)] == [256, 256, 88]
    large = [Event(type="t", target="redis", resource_id="r", event_id="e", payload=b"x" * 700_000)] * 3
    assert [len(batch) for batch in batches(large)] == [1, 1, 1]
    assert list(batches([])) == []


def test_a_batch_comes_back_in_order() -> None:
    events = [Event(type="t", target="redis", resource_id="r", event_id=str(number)) for number in range(5)]
    assert decode_all(encode_batch(events)) == events


def test_a_batch_larger_than_agreed_is_refused_as_a_whole() -> None:
    (refused,) = decode_all(encode_batch([GOOD] * 257))
    assert isinstance(refused, MalformedError)
