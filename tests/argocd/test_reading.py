"""Reading objects that may look like anything."""

from types import MappingProxyType
from typing import Any

import pytest

from argocd import reading

KEYS = ("server", "name")


@pytest.mark.parametrize(
    ("thing", "texts"),
    [
        ({"server": "a", "name": "b", "more": 1}, ["a", "b"]),
        ({"name": "b"}, ["", "b"]),
        ({"server": None, "name": "b"}, ["", "b"]),
        ({"server": ["a"], "name": "b"}, ["", "b"]),
        (MappingProxyType({"server": "a", "name": 3}), ["a", ""]),
        ([], ["", ""]),
        (None, ["", ""]),
    ],
)
def test_several_texts_at_once_are_those_read_one_by_one(thing: Any, texts: list[str]) -> None:
    assert reading.fields(thing, KEYS) == texts == [reading.text(thing, key) for key in KEYS]


@pytest.mark.parametrize("thing", [None, "text", 3, [], {"a": None}, {"a": "text"}, {"a": {"b": []}}])
def test_what_is_no_mapping_is_read_as_an_empty_one(thing: Any) -> None:
    assert reading.mapping(thing, "a", "b") == {}


def test_a_mapping_of_another_type_is_one() -> None:
    inner = MappingProxyType({"c": "d"})
    assert reading.mapping(MappingProxyType({"a": {"b": inner}}), "a", "b") is inner


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("", []),
        ("spec.roles[0].policies[12]", ["spec", "roles", 0, "policies", 12]),
        (
            "metadata.annotations[argocd.argoproj.io/hook]",
            ["metadata", "annotations", "argocd.argoproj.io/hook"],
        ),
    ],
)
def test_a_path_is_keys_and_indexes(path: str, steps: list[Any]) -> None:
    assert reading.steps_of(path) == steps
