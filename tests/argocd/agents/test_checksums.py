"""Go's JSON, inventories and specifications as checksums."""

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argocd import names
from argocd.agents.checksums import (
    ChecksumError,
    ResourceKey,
    canonical_json,
    inventory_checksum,
    resource_key,
    spec_checksum,
)
from argocd.agents.vocabulary import TRACKED_AS, Target

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        ("", '""'),
        ("a/b", '"a/b"'),
        ('say "hi"\\', r'"say \"hi\"\\"'),
        ("<a href='x'>&</a>", r'"\u003ca href=' + "'x'" + r'\u003e\u0026\u003c/a\u003e"'),
        ("\u2028\u2029", r'"\u2028\u2029"'),
        ("\b\f\n\r\t\x00\x1f\x7f", '"' + r"\b\f\n\r\t\u0000\u001f" + '\x7f"'),
        ("größe 😀", '"größe 😀"'),
        ("\ud800", r'"\ufffd"'),
        (0, "0"),
        (-7, "-7"),
        (2**63 - 1, "9223372036854775807"),
        (2**63, "9223372036854776000"),
        (1.0, "1"),
        (-0.0, "-0"),
        (0.1, "0.1"),
        (100.0, "100"),
        (1e-6, "0.000001"),
        (9.9e-7, "9.9e-7"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (-1.5e300, "-1.5e+300"),
        (5e-324, "5e-324"),
        ([], "[]"),
        ([1, [2], {}], "[1,[2],{}]"),
        ((1, 2), "[1,2]"),
        ({}, "{}"),
        ({"b": 1, "a": None, "é": 2, "Z": 3}, '{"Z":3,"a":null,"b":1,"é":2}'),
    ],
)
def test_json_is_written_as_go_writes_it(item: Any, text: str) -> None:
    assert canonical_json(item) == text


@given(JSON)
def test_what_is_written_means_the_same(item: Any) -> None:
    written = json.loads(canonical_json(item), parse_int=float)
    assert written == json.loads(json.dumps(item), parse_int=float)


def nested(depth: int) -> Any:
    item: Any = 1
    for _ in range(depth):
        item = [item]
    return item


@pytest.mark.parametrize(
    "item", [object(), {"a": b"bytes"}, float("nan"), float("-inf"), 10**400, nested(10_000)]
)
def test_what_is_no_json_cannot_be_hashed(item: Any) -> None:
    with pytest.raises(ChecksumError):
        canonical_json(item)


def test_an_inventory_is_hashed_by_kind_name_and_uid_in_any_order() -> None:
    keys = [ResourceKey("Repository", "r", "3"), ResourceKey("AppProject", "p", "2", "anywhere")]
    expected = hashlib.sha256(b"AppProject/p/2Repository/r/3").digest()
    assert inventory_checksum(keys) == inventory_checksum(reversed(keys)) == expected


def test_nothing_tracked_has_no_checksum() -> None:
    assert inventory_checksum([]) is None


def test_a_copy_is_known_by_its_uid_at_the_source() -> None:
    metadata = {"name": "shop", "namespace": "argocd", "uid": "here"}
    plain = resource_key(TRACKED_AS[Target.PROJECT], {"metadata": metadata})
    assert plain == ResourceKey("AppProject", "shop", "here", "argocd")
    copy = {"metadata": {**metadata, "annotations": {names.SOURCE_UID: "there"}}}
    assert resource_key(TRACKED_AS[Target.PROJECT], copy).uid == "there"


def test_a_destination_is_not_hashed() -> None:
    spec = {"project": "shop", "source": {"path": "a&b"}}
    bare = spec_checksum({"spec": spec})
    assert spec_checksum({"spec": {**spec, "destination": {"name": "in-cluster"}}}) == bare
    assert spec_checksum({"spec": {**spec, "destination": "anything"}}) == bare
    assert bare == hashlib.sha256(rb'{"project":"shop","source":{"path":"a\u0026b"}}').digest()


def test_destinations_of_a_project_are_hashed() -> None:
    assert spec_checksum({"spec": {"destinations": []}}) != spec_checksum({"spec": {}})


@pytest.mark.parametrize("kind", ["Secret", "ConfigMap"])
def test_of_a_secret_or_config_map_the_data_is_hashed(kind: str) -> None:
    item = {"kind": kind, "data": {"a": "b"}, "spec": {"not": "this"}}
    assert spec_checksum(item) == hashlib.sha256(b'{"a":"b"}').digest()


def test_a_config_map_without_data_is_an_empty_one() -> None:
    assert spec_checksum({"kind": "ConfigMap"}) == hashlib.sha256(b"{}").digest()


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"kind": "Application"}, "spec field not found"),
        ({"kind": "Application", "spec": "text"}, "unable to convert the spec object"),
        ({"kind": "Secret"}, "data field not found"),
        ({"kind": "ConfigMap", "data": []}, "unable to convert the data object"),
    ],
)
def test_an_object_without_content_cannot_be_hashed(item: Any, message: str) -> None:
    with pytest.raises(ChecksumError, match=f"^{message}$"):
        spec_checksum(item)
