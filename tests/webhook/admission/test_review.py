"""Decoding and encoding of AdmissionReviews, without a server."""

import base64
import contextlib
from typing import Any

import jsonpatch
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.argocd.costly_objects import ORDINARY
from tests.processor_time import ProcessorTime
from tests.webhook.conftest import review
from webhook.admission.review import (
    BODY_LIMIT,
    CONTAINERS,
    ReviewAnswer,
    ReviewError,
    ReviewTooLargeError,
    decode,
    encode,
    shortened,
)


def test_what_the_api_server_sends_is_read() -> None:
    read = decode(
        review("7", dryRun=True, subResource="status", oldObject={"spec": {"a": 1}}, operation="UPDATE")
    )
    assert (read.uid, read.operation, read.kind, read.resource) == (
        "7",
        "UPDATE",
        "AppProject",
        "appprojects",
    )
    assert (read.user, read.groups, read.dry_run, read.subresource) == (
        "jason",
        ("system:authenticated",),
        True,
        "status",
    )
    assert read.old == {"spec": {"a": 1}}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"uid": ""}, "uid"),
        ({"uid": 7}, "uid"),
        ({"operation": "READ"}, "operation"),
        ({"kind": None}, "kind"),
        ({"userInfo": []}, "userInfo"),
        ({"userInfo": {"groups": ["a", 1]}}, "groups"),
        ({"object": "text"}, "object"),
        ({"oldObject": 3}, "oldObject"),
        ({"dryRun": "yes"}, "dryRun"),
        ({"name": {}}, "name"),
    ],
)
def test_a_wrong_type_is_refused_by_the_name_of_its_field(change: dict[str, Any], named: str) -> None:
    with pytest.raises(ReviewError, match=named):
        decode(review(**change))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","request":{}}',
        b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":7}',
        b"\xff\xfe",
        b'{"a":"\xed\xa0\x80"}',
    ],
)
def test_what_is_no_review_is_refused(body: bytes) -> None:
    with pytest.raises(ReviewError):
        decode(body)


@pytest.mark.parametrize("gap", ["", " ", "\n"])
def test_a_repeated_key_is_refused_also_with_white_space(gap: str) -> None:
    body = review().replace(b'"name":"sample"', f'"name":{gap}"sample","name":{gap}"other"'.encode(), 1)
    with pytest.raises(ReviewError, match="'name' appears twice"):
        decode(body)


def test_a_repeated_key_among_very_many_is_found_in_proportion() -> None:
    many = ",".join(f'"{number}": 0' for number in range(100_000))
    body = review(object={}).replace(b'"object":{}', f'"object":{{{many}, "last": 1, "last": 2}}'.encode())
    with ProcessorTime() as taken, pytest.raises(ReviewError, match="'last' appears twice"):
        decode(body)
    assert taken.seconds < 5, "looking for each key among all of them takes minutes"


def test_white_space_escapes_and_other_number_formats_are_no_repeated_keys() -> None:
    given_object = {"spec": {"text": "a<b>&c ü", "number": 1.0, "tiny": 1e-7}}
    spaced = orjson.dumps(orjson.loads(review(object=given_object)), option=orjson.OPT_INDENT_2)
    assert decode(spaced.replace(b"<", b"\\u003c")).object == given_object


def deep(levels: int, **request: Any) -> bytes:
    return review(object={"spec": {"here": 0}}, **request).replace(
        b'"here":0', b'"here":' + b'{"a":' * levels + b"1" + b"}" * levels
    )


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (deep(300), "nested too deeply"),
        (deep(2000), "nested too deeply"),
        (deep(90_000), "nested too deeply"),
        (review(object={"spec": [{}] * (CONTAINERS + 1)}), f"more than {CONTAINERS} objects and lists"),
    ],
    ids=["deep", "deeper", "deepest", "many"],
)
def test_what_is_too_costly_is_not_read_but_the_rest_of_the_review_is(body: bytes, why: str) -> None:
    read = decode(body)
    assert (read.unread, read.object, read.old) == (why, None, None)
    assert (read.uid, read.operation, read.name, read.user) == ("u1", "CREATE", "sample", "jason")


def test_a_writer_cannot_move_where_the_objects_begin() -> None:
    extra = {"a": [',"object":{"spec":{}}'], "object": ["x"]}
    user = {"username": "eve", "groups": [',"object":null'], "extra": extra}
    read = decode(deep(300, userInfo=user, uid="u2"))
    assert (read.uid, read.user, read.unread) == ("u2", "eve", "nested too deeply")


def test_brackets_inside_of_texts_are_no_objects() -> None:
    read = decode(review(object={"data": {"a": "[{" * CONTAINERS, "b": '\\"[\\' * 1000}}))
    assert not read.unread


def test_without_a_review_around_it_what_is_too_costly_is_refused() -> None:
    with pytest.raises(ReviewError, match="nested too deeply"):
        decode(b"[" * 3000)
    with pytest.raises(ReviewTooLargeError):
        decode(b" " * (BODY_LIMIT + 1))


@pytest.mark.parametrize("of", ["kinds", "elements"])
def test_updates_of_the_largest_ordinary_objects_are_read(of: str) -> None:
    old = ORDINARY[of]
    new = {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}
    read = decode(review(object=new, oldObject=old, operation="UPDATE"))
    assert (read.unread, read.object, read.old) == ("", new, old)


@pytest.mark.parametrize(
    "request_",
    [
        {"uid": "u" * 64},
        {"name": "n" * 254},
        {"object": {"metadata": {"name": "n" * 254}}},
        {"oldObject": {"metadata": {"name": "n" * 254}}},
        {"namespace": "n" * 64},
        {"kind": {"group": "argoproj.io", "version": "v1", "kind": "K" * 64}},
        {"kind": {"group": "g" * 254, "version": "v1", "kind": "K"}},
        {"kind": {"group": "g", "version": "v" * 64, "kind": "K"}},
        {"resource": {"resource": "r" * 254}},
        {"subResource": "s" * 254},
        {"userInfo": {"username": "u" * 1025}},
        {"userInfo": {"username": "u", "groups": ["g" * 1025]}},
        {"userInfo": {"username": "u", "groups": ["g"] * 1025}},
    ],
    ids=lambda request_: next(iter(request_)),
)
def test_what_is_longer_than_kubernetes_allows_is_refused(request_: dict[str, Any]) -> None:
    with pytest.raises(ReviewError, match="longer"):
        decode(review(**request_))


def test_a_denial_carries_its_code_and_message_and_no_patch() -> None:
    response = orjson.loads(
        encode("1", ReviewAnswer(allowed=False, message="no", patch=[{"op": "add"}]), patches=True)
    )["response"]
    assert response == {
        "uid": "1",
        "allowed": False,
        "status": {"code": 403, "message": "no", "reason": "Forbidden"},
    }


def test_patch_and_patch_type_come_together_or_not_at_all() -> None:
    operations = [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]
    response = orjson.loads(encode("1", ReviewAnswer(patch=operations), patches=True))["response"]
    assert response["patchType"] == "JSONPatch"
    patched = jsonpatch.JsonPatch(orjson.loads(base64.b64decode(response["patch"]))).apply({"metadata": {}})
    assert patched == {"metadata": {"labels": {"a": "b"}}}
    assert "patchType" not in orjson.loads(encode("1", ReviewAnswer(), patches=True))["response"]
    with pytest.raises(ValueError, match="validating"):
        encode("1", ReviewAnswer(patch=operations), patches=False)


def test_warnings_stay_within_what_the_api_server_passes_on() -> None:
    lines = shortened([f"{index}: " + "word " * 40 for index in range(100)])
    assert sum(map(len, lines)) <= 4096
    assert lines[-1].endswith("more; `tiphys check` lists all")
    assert shortened(["a\nb", "c"]) == ["a b", "c"]


@given(st.binary(max_size=300))
def test_no_body_makes_it_raise_anything_but_a_review_error(body: bytes) -> None:
    with pytest.raises(ReviewError):
        decode(body)


@given(
    st.dictionaries(
        st.sampled_from(
            ["uid", "kind", "resource", "userInfo", "object", "oldObject", "operation", "dryRun", "name"]
        ),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
            max_leaves=8,
        ),
    )
)
def test_no_request_makes_it_raise_anything_but_a_review_error(change: dict[str, Any]) -> None:
    try:
        body = review(**change)
    except TypeError:  # integers beyond 64 bits cannot be sent
        return
    with contextlib.suppress(ReviewError):
        decode(body)
