"""Go durations; the golden file holds answers of Go's time.ParseDuration."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argocd.go import durations

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "durations.json").read_text())


def test_the_originals_answers_are_ours() -> None:
    wrong = []
    for text, error, nanoseconds, written in GOLDEN:
        said = durations.problem(text)
        if said != error or (
            not error and (durations.parse(text), durations.write(nanoseconds)) != (nanoseconds, written)
        ):
            wrong.append((text, error, said))
    assert not wrong


@pytest.mark.parametrize(
    ("nanoseconds", "written"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_500, "1.5µs"),
        (-2_000_000, "-2ms"),
        (90 * durations.SECOND, "1m30s"),
        (60 * durations.MINUTE, "1h0m0s"),
        (durations.SECOND // 2 * 3, "1.5s"),
    ],
)
def test_durations_are_written_as_go_writes_them(nanoseconds: int, written: str) -> None:
    assert durations.write(nanoseconds) == written


@given(st.integers(min_value=-(1 << 63) + 1, max_value=(1 << 63) - 1))
def test_what_is_written_can_be_read_back(nanoseconds: int) -> None:
    assert durations.parse(durations.write(nanoseconds)) == nanoseconds


@given(st.text(st.sampled_from('0123456789.hmsunµd+-e "\\é٣'), max_size=40))
def test_every_text_gets_an_answer(text: str) -> None:
    assert isinstance(durations.problem(text), str)


@pytest.mark.parametrize(
    "text", ["9223372036854775808ns", "2562047.9h", "9999999999999h", "1h9223372036854775807ns"]
)
def test_what_is_too_long_for_go_is_refused(text: str) -> None:
    assert durations.problem(text) == f'time: invalid duration "{text}"'


def test_the_smallest_number_and_long_fractions_are_read() -> None:
    assert durations.parse("-9223372036854775808ns") == -(1 << 63)
    assert durations.parse("0.99999999999999999999s") == durations.SECOND


def test_a_number_of_a_thousand_digits_is_refused_at_once() -> None:
    assert "invalid duration" in durations.problem("9" * 10_000 + "h")
    assert durations.parse("0" * 10_000 + "1h") == 60 * durations.MINUTE
