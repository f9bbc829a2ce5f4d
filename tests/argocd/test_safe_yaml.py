"""Reading YAML of users."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argocd.safe_yaml import MAX_DEPTH, YamlError, load


def test_a_document_becomes_plain_data() -> None:
    assert load("a: [1, {b: c}]") == {"a": [1, {"b": "c"}]}


def test_an_empty_text_is_nothing() -> None:
    assert load("") is None


def test_honest_aliases_and_merges_are_followed() -> None:
    assert load("a: &x [1, 2]\nb: *x\nc: &y {d: 1}\ne: {<<: *y, f: &z 2, g: *z}") == {
        "a": [1, 2],
        "b": [1, 2],
        "c": {"d": 1},
        "e": {"d": 1, "f": 2, "g": 2},
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: [1", "line 2, column 1: did not find expected ',' or ']'"),
        ("[" * 100_000, f"line 1: nested deeper than {MAX_DEPTH} levels"),
        ("&a [*a]", "line 1: alias a of what contains it, or of nothing"),
        ("*a", "line 1: alias a of what contains it, or of nothing"),
        (
            "a: !!python/name:os.system",
            "line 1: the tag tag:yaml.org,2002:python/name:os.system is not supported",
        ),
        ("a: 1\n---\nb: 2", "line 2, column 1: but found another document"),
        ("until: 2027-02-31", "day is out of range for month"),
        ("\x00", "unacceptable character"),
        ("\ud800", "surrogates not allowed"),
    ],
)
def test_what_cannot_be_read_is_one_line_that_says_where(text: str, reason: str) -> None:
    with pytest.raises(YamlError) as caught:
        load(text)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_aliases_of_aliases_are_refused_before_anything_walks_them() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 9)
    )
    with pytest.raises(YamlError, match=r"line 6: more than 200000 values"):
        load(bomb)


@given(st.text(alphabet="a0:-,[]{}&*!|>'\"#%@? \n\t.~=<_+é"))
def test_nothing_but_a_yaml_error_comes_out(text: str) -> None:
    with contextlib.suppress(YamlError):
        load(text)
