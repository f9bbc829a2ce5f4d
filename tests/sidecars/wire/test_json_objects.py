"""JSON from a peer: what two readers would understand differently is refused."""

from contextlib import suppress
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecars.wire.errors import MalformedError
from sidecars.wire.json_objects import read_json, read_object

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(value=JSON)
def test_any_json_is_read_whatever_its_spelling(value: Any) -> None:
    assert read_json(orjson.dumps(value)) == value
    assert read_json(orjson.dumps(value, option=orjson.OPT_INDENT_2)) == value


@given(raw=st.binary(max_size=40))
def test_no_bytes_raise_anything_but_malformed(raw: bytes) -> None:
    with suppress(MalformedError):
        read_json(raw)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'{"a":{"b":1,"b":2}}', "'b' appears twice"),
        (b'[{"a":1},{"a":1,"\\u0061":1}]', "'a' appears twice"),
        (b'{"a":1e400}', "not JSON"),
        (b'{"a":NaN}', "not JSON"),
        (b'"\\ud800"', "not JSON"),
        (b'"\xff"', "not JSON"),
        (b"[" * 201 + b"]" * 201, "nested deeper than 200"),
        (b'{"a":' * 201 + b"1" + b"}" * 201, "nested deeper than 200"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_ambiguous_or_broken_json_is_refused(text: bytes, reason: str) -> None:
    with pytest.raises(MalformedError) as caught:
        read_json(text)
    assert reason in str(caught.value)


def test_wide_documents_are_no_deep_ones() -> None:
    assert len(read_json(b"[" + b",".join([b"{}"] * 5000) + b"]")) == 5000
    assert read_json(b"[" * 200 + b"]" * 200)


def test_a_broken_text_does_not_travel_on_with_the_error() -> None:
    with pytest.raises(MalformedError) as caught:
        read_json(b'{"password":"hunter2"')
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_an_object_needs_little_to_be_one() -> None:
    assert read_object(b'{"metadata":{"name":"web"}}') == {"metadata": {"name": "web"}}
    assert read_object(b'{"metadata":{"name":"web","labels":null},"spec":{},"status":null}')


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'"web"', "a JSON object is expected, not a string"),
        (b"{}", "metadata must be an object, not null"),
        (b'{"metadata":[]}', "metadata must be an object, not a list"),
        (b'{"metadata":{}}', "metadata.name is missing"),
        (b'{"metadata":{"name":1}}', "metadata.name must be a string, not a number"),
        (b'{"metadata":{"name":"web","uid":{}}}', "metadata.uid must be a string, not an object"),
        (b'{"metadata":{"name":"web","labels":["a"]}}', "metadata.labels must map strings to strings"),
        (b'{"metadata":{"name":"web","annotations":{"a":1}}}', "metadata.annotations must map"),
        (b'{"metadata":{"name":"web","finalizers":"x"}}', "metadata.finalizers must be a list of strings"),
        (b'{"metadata":{"name":"web","ownerReferences":["x"]}}', "ownerReferences must be a list of objects"),
        (b'{"metadata":{"name":"web"},"spec":"x"}', "spec must be an object, not a string"),
        (b'{"metadata":{"name":"web"},"operation":true}', "operation must be an object, not a boolean"),
        (b'{"metadata":{"name":"web"},"SPEC":{}}', "'SPEC' must be spelled 'spec'"),
        (b'{"metadata":{"name":"web","Name":"other"}}', "'Name' must be spelled 'name'"),
    ],
)
def test_an_object_of_the_wrong_shape_is_refused(text: bytes, reason: str) -> None:
    with pytest.raises(MalformedError) as caught:
        read_object(text)
    assert reason in str(caught.value)


def test_labels_that_differ_in_case_are_two_labels() -> None:
    assert read_object(b'{"metadata":{"name":"web","labels":{"a":"1","A":"2"}}}')
