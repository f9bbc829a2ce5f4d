"""Reading YAML of users."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.processor_time import ProcessorTime
from tiphys.safe_yaml import MAX_DEPTH, HostileYamlError, YamlError, build, compose, load


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
            "line 1, column 4: the tag tag:yaml.org,2002:python/name:os.system is not supported",
        ),
        ("a: 1\n---\nb: 2", "line 3, column 1: but found another document"),
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


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("a: &x 1\nb: *x\nc: &x 2\nd: *x\n", {"a": 1, "b": 1, "c": 2, "d": 2}),
        ("a: &x {b: 1}\nc: {!!merge <<: *x, d: 2}\n", {"a": {"b": 1}, "c": {"b": 1, "d": 2}}),
        ("{1: a, true: b, 1.5: c, ~: d}", {"1": "a", "true": "b", "1.5": "c", "null": "d"}),
        ("a: !!str 1\nb: !!int '2'\nc: !!map {d: !!seq [e]}", {"a": "1", "b": 2, "c": {"d": ["e"]}}),
        ("a: 2027-02-31\nb: 1:30\n", {"a": "2027-02-31", "b": "1:30"}),
        ("a: 1\na: 2\n", {"a": 2}),
    ],
)
def test_valid_yaml_that_pyyaml_alone_refuses_or_misreads(text: str, data: Any) -> None:
    assert load(text) == data


HOSTILE = {
    "aliases whose names begin with a dash": "a: &-0 [x,x,x,x,x,x,x,x,x]\n"
    + "".join(f"b{n}: &-{n} [{', '.join([f'*-{n - 1}'] * 9)}]\n" for n in range(1, 9)),
    "dashes after a blank": " " + "- " * 200_000,
    "questions": "? " * 200_000,
    "brackets": "[" * 1_900,
    "brackets and braces": "[{" * 100_000,
    "an anchor inside of itself": "a: &x 1\nb: &x [*x]\n",
    "directives": "".join(f"%TAG !a{n}! tag:x\n" for n in range(20_000)) + "---\na\n",
    "a text by aliases": f"a: &a {'x' * 100_000}\nb: [{'*a, ' * 10_000}]\n",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_is_too_much_is_refused_soon(text: str) -> None:
    with ProcessorTime() as taken, pytest.raises(HostileYamlError) as caught:
        load(text)
    assert "\n" not in str(caught.value)
    assert taken.seconds < 5


def test_documents_without_anything_in_them_are_counted_too() -> None:
    with pytest.raises(HostileYamlError, match="more than 200000 values"):
        list(compose("---\n" * 100_000))


@pytest.mark.parametrize("text", ["a: 0x" + "f" * 100_000, "a: " + "9" * 100_000, "a: 1." + "9" * 100_000])
def test_a_number_that_nobody_can_print_is_refused(text: str) -> None:
    with pytest.raises(YamlError, match="more than 400 digits"):
        load(text)


@pytest.mark.parametrize("text", ["a: !<{}> b", "{}: 1\n{}: 2", "a: *{}"])
def test_a_long_text_is_not_repeated_whole(text: str) -> None:
    with pytest.raises(YamlError) as caught:
        list(map(build, compose(text.replace("{}", "x" * 10_000))))
    assert len(str(caught.value)) < 200


@given(st.text(alphabet="a0:-,[]{}&*!|>'\"#%@? \n\t.~=<_+é"))
def test_nothing_but_a_yaml_error_comes_out(text: str) -> None:
    with contextlib.suppress(YamlError):
        load(text)
