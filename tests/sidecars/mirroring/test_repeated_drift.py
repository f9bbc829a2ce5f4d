"""Where drift is, in paths alone, and how often."""

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from sidecars.mirroring.drift import UndoneChange
from sidecars.mirroring.kinds import APPLICATION, REPOSITORY
from sidecars.mirroring.repeated_drift import (
    FIELDS,
    LARGEST_REPORT,
    LONGEST_FIELD,
    WITHIN,
    DriftCounts,
    changed_fields,
    read_report,
)
from sidecars.wire.errors import MalformedError

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def fields(expected: Any, found: Any) -> list[str]:
    change = UndoneChange(kind=APPLICATION, mirror={"spec": found}, expected={"spec": expected})
    return changed_fields(change)


DEEP: Any = "secret"
for _ in range(30):
    DEEP = {"a": DEEP}


@pytest.mark.parametrize(
    ("expected", "found", "paths"),
    [
        ({"project": "a"}, {"project": "secret"}, ["spec.project"]),
        ({}, {"project": "secret"}, ["spec.project"]),
        ({"b": 1, "a": {"x": 1, "y": 2}}, {"b": 2, "a": {"x": 1, "y": 3}}, ["spec.a.y", "spec.b"]),
        (
            {"helm": {"parameters": [{"name": "x", "value": "1"}]}},
            {"helm": {"parameters": [{"name": "x", "value": "secret"}]}},
            ["spec.helm.parameters[0].value"],
        ),
        ({"list": ["a"]}, {"list": ["a", "secret"]}, ["spec.list"]),
        ({"a": {}}, {"a": {"a secret, in a key": 1}}, ["spec.a"]),
        ({"a": {}}, {"a": {"k" * 64: 1}}, ["spec.a"]),
        ({"a": 1}, "secret", ["spec"]),
        ({}, DEEP, ["spec.a"]),
        ({"a": {"a": {}}}, DEEP, ["spec.a.a.a"]),
        ({}, {f"k{number}": number for number in range(100)}, [f"spec.k{n}" for n in (0, 1, 10, 11, 12)]),
    ],
)
def test_what_was_changed_is_named_by_its_path_and_never_by_what_stands_there(
    expected: Any, found: Any, paths: list[str]
) -> None:
    assert fields(expected, found) == paths
    assert "secret" not in " ".join(paths)


def test_of_a_secret_the_keys_are_named() -> None:
    change = UndoneChange(
        kind=REPOSITORY,
        mirror={"data": {"password": "aHVudGVyMg=="}},
        expected={"data": {"password": "YQ=="}},
    )
    assert changed_fields(change) == ["data.password"]


def test_paths_are_short() -> None:
    key = "k" * 60
    expected: Any = {key: {key: {key: {key: 1}}}}
    found: Any = {key: {key: {key: {key: 2}}}}
    (only,) = fields(expected, found)
    assert only == f"spec.{key}.{key}"
    assert len(only) <= LONGEST_FIELD


def test_counts_begin_anew_after_a_quiet_time_and_have_a_bound() -> None:
    counts = DriftCounts(2)
    assert [counts.undone("a", now=NOW) is None for _ in range(3)] == [True, True, False]
    later = NOW + WITHIN + timedelta(seconds=1)
    assert counts.undone("a", now=later) is None
    assert counts.undone("a", now=later) is None
    for other in ("b", "c"):
        counts.undone(other, now=later)
    assert counts.undone("a", now=later) is None, "it was pushed out by others"


@pytest.mark.parametrize(
    "payload",
    [b"", b"[]", b"{", b'{"times":"many"}', b'{"fields":[1]}', b'{"name":"' + b"x" * LARGEST_REPORT + b'"}'],
)
def test_what_is_no_report_is_refused(payload: bytes) -> None:
    with pytest.raises(MalformedError):
        read_report(payload)


def test_of_a_strangers_fields_remain_a_few_that_are_paths() -> None:
    told = ["spec.a", "<b>spec</b>", "spec.password is hunter2", "metadata.x", "spec" + ".a" * 200, "spec.b"]
    assert read_report(orjson.dumps({"fields": told})).fields == ["spec.a"]
    assert len(read_report(orjson.dumps({"fields": ["spec"] * 300})).fields) == FIELDS
