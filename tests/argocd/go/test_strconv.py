import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argocd.go import strconv


@pytest.mark.parametrize("text", ["1", "t", "T", "true", "TRUE", "True"])
def test_the_words_that_go_takes_for_true(text: str) -> None:
    assert strconv.boolean(text) is True


@pytest.mark.parametrize("text", ["0", "f", "F", "false", "FALSE", "False"])
def test_the_words_that_go_takes_for_false(text: str) -> None:
    assert strconv.boolean(text) is False


@pytest.mark.parametrize("text", ["", "yes", "no", "tRUE", " true", "true\n", "on"])
def test_other_words_are_no_boolean(text: str) -> None:
    assert strconv.boolean(text) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("+7", 7),
        ("-7", -7),
        ("007", 7),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("0" * 5000 + "1", 1),
    ],
)
def test_integers_are_read_as_go_reads_them(text: str, value: int) -> None:
    assert strconv.integer(text) == value


@pytest.mark.parametrize(
    "text",
    ["", " 1", "1 ", "1.0", "1_000", "0x1", "+", "--1", "٣", "9223372036854775808", "9" * 1_000_000],
)
def test_what_is_no_integer_is_none(text: str) -> None:
    assert strconv.integer(text) is None


@pytest.mark.parametrize("text", ["", "1.0", "+", "9" * 30 + "x"])
def test_go_calls_it_bad_syntax(text: str) -> None:
    assert strconv.atoi(text) == "invalid syntax"


@pytest.mark.parametrize(
    "text", ["9223372036854775808", "-9223372036854775809", "9" * 1000, "-" + "9" * 1000]
)
def test_go_calls_it_out_of_range(text: str) -> None:
    assert strconv.atoi(text) == "value out of range"


@given(st.binary())
def test_base64_of_anything_is_read_back(data: bytes) -> None:
    encoded = base64.encodebytes(data).decode()  # with a line break every 76 characters
    assert strconv.base64(encoded.replace("\n", "\r\n")) == data


@pytest.mark.parametrize("text", ["YQ", "YQ=", "Y Q==", "YQ==YQ==", "=", "päng", "a-b_"])
def test_what_is_no_base64_is_none(text: str) -> None:
    assert strconv.base64(text) is None
