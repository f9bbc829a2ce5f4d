"""What others wrote does nothing to a terminal."""

import pytest

from tiphys.printable import visible


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("web\tshop\n", "web\tshop\n"),
        ("\x1b[31mred", r"\u001b[31mred"),
        ("abc\u202edcba", r"abc\u202edcba"),
        ("half a pair \ud800", r"half a pair \ud800"),
        ("Zürich 東京", "Zürich 東京"),
    ],
    ids=["spaces", "an escape sequence", "a line turned round", "no character", "letters"],
)
def test_what_a_terminal_would_obey_is_spelt_out(written: str, printed: str) -> None:
    assert visible(written) == printed
