"""Writes bound to the object that was tested; what the API server makes of it: tests/cluster/test_live_resources.py."""

from typing import Any

import orjson
import pytest

from sidecars.proxies.preconditions import bound, bound_to_nothing, check_unchanged
from sidecars.proxies.refusals import RefusedRequestError

THERE = {"metadata": {"name": "web", "uid": "u-1"}}
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
OPTIONS = {"kind": "DeleteOptions", "apiVersion": "v1"}


def bind(method: str, body: Any, *, content_type: str = "application/json", subresource: str = "") -> Any:
    data = body if isinstance(body, bytes) or body is None else orjson.dumps(body)
    found = bound(method, data, THERE, content_type=content_type, subresource=subresource)
    return None if found is None else orjson.loads(found)


@pytest.mark.parametrize("metadata", [{}, {"uid": "u-1"}, {"uid": None}, {"labels": {"a": "b"}}])
@pytest.mark.parametrize(("method", "content_type"), [("PUT", "application/json"), ("PATCH", MERGE)])
def test_the_uid_is_added_and_nothing_else(method: str, content_type: str, metadata: dict[str, Any]) -> None:
    body = {"spec": {"a": 1.5, "b": None}, "metadata": metadata}
    expected = {**body, "metadata": {**metadata, "uid": "u-1"}}
    assert bind(method, body, content_type=content_type) == expected
    assert bind(method, {"spec": {}}, content_type=content_type) == {"spec": {}, "metadata": {"uid": "u-1"}}


def test_an_apply_may_be_written_in_yaml() -> None:
    applied = {"kind": "ConfigMap", "metadata": {"uid": "u-1"}, "data": {"since": "2026-11-18"}}
    assert bind("PATCH", b"kind: ConfigMap\ndata: {since: 2026-11-18}\n", content_type=APPLY) == applied, (
        "a date stays the text that it is"
    )


def test_an_apply_of_nothing_wants_nothing_there() -> None:
    applied = {"kind": "ConfigMap", "metadata": {"name": "web", "resourceVersion": "7"}, "data": {}}
    expected = {**applied, "metadata": {"name": "web", "resourceVersion": "1"}}
    assert orjson.loads(bound_to_nothing(applied)) == expected


def test_a_json_patch_tests_before_anything_else_can_change_what_is_compared() -> None:
    operations = [{"op": "replace", "path": "/metadata/uid", "value": "u-2"}]
    expected = [{"op": "test", "path": "/metadata/uid", "value": "u-1"}, *operations]
    assert bind("PATCH", operations, content_type=JSON_PATCH) == expected


def test_deletions_and_evictions_have_preconditions() -> None:
    preconditions = {"uid": "u-1", "resourceVersion": "7"}
    options = {"propagationPolicy": "Foreground", "preconditions": {"resourceVersion": "7"}}
    assert bind("DELETE", options) == {**OPTIONS, **options, "preconditions": preconditions}
    assert bind("DELETE", None) == {**OPTIONS, "preconditions": {"uid": "u-1"}}
    eviction = {"kind": "Eviction", "metadata": {"name": "web"}}
    assert bind("POST", eviction, subresource="eviction") == {
        **eviction,
        "deleteOptions": {**OPTIONS, "preconditions": {"uid": "u-1"}},
    }


@pytest.mark.parametrize(
    ("method", "body", "content_type"),
    [
        ("PUT", {"metadata": {"uid": "u-2"}}, "application/json"),
        ("PATCH", {"metadata": {"uid": "u-2"}}, MERGE),
        ("PATCH", b"metadata: {uid: u-2}", APPLY),
        ("DELETE", {"preconditions": {"uid": "u-2"}}, "application/json"),
    ],
)
def test_whoever_names_another_object_gets_a_conflict(method: str, body: Any, content_type: str) -> None:
    with pytest.raises(RefusedRequestError, match="replaced") as refused:
        bind(method, body, content_type=content_type)
    assert refused.value.status == 409


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"{", MERGE),
        (b"[]", MERGE),
        (b'{"metadata": null}', MERGE),
        (b"{}", JSON_PATCH),
        (b"{", JSON_PATCH),
        (b"- a\n", APPLY),
        (b"a: &a [*a]", APPLY),
        (b"\xff", APPLY),
        (b"? [a]\n: b", APPLY),
    ],
)
def test_what_cannot_be_bound_is_refused(body: bytes, content_type: str) -> None:
    with pytest.raises(RefusedRequestError, match="the body is no") as refused:
        bind("PATCH", body, content_type=content_type)
    assert refused.value.status == 400


def test_what_has_no_uid_or_no_body_is_left_alone() -> None:
    assert bound("PUT", b"x", {"metadata": {}}, content_type="application/json", subresource="") == b"x"
    assert bind("PUT", None, subresource="restart") is None
    assert bind("DELETE", None, subresource="status") is None


def test_what_is_read_after_the_test_is_what_was_tested() -> None:
    check_unchanged(THERE, b'{"metadata": {"uid": "u-1"}}')
    check_unchanged(THERE, b"no object")
    with pytest.raises(RefusedRequestError, match="replaced"):
        check_unchanged(THERE, b'{"metadata": {"uid": "u-2"}}')
    with pytest.raises(RefusedRequestError, match="replaced"):
        check_unchanged(THERE, b'{"kind": "Table", "rows": [{"object": {"metadata": {"uid": "u-2"}}}]}')
