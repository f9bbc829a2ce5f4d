from hypothesis import given
from hypothesis import strategies as st

from argocd.go import runes


def test_characters_are_read_with_their_widths() -> None:
    data = "aé€😀".encode()
    assert runes.decode(data, 0, len(data)) == (ord("a"), 1)
    assert runes.decode(data, 1, len(data)) == (ord("é"), 2)
    assert runes.decode(data, 3, len(data)) == (ord("€"), 3)
    assert runes.decode(data, 6, len(data)) == (ord("😀"), 4)


def test_what_is_cut_is_broken_and_takes_one_byte() -> None:
    data = "é".encode()
    assert runes.decode(data, 0, 1) == (runes.BROKEN, 1)
    assert runes.decode(data, 1, 2) == (runes.BROKEN, 1)
    assert runes.decode(data, 2, 2) == (runes.BROKEN, 0)


def test_a_broken_character_is_written_with_three_bytes() -> None:
    assert runes.written_length(runes.BROKEN) == 3
    assert runes.written_length(ord("a")) == 1
    assert runes.written_length(ord("😀")) == 4


def test_lower_case_is_one_for_one() -> None:
    assert runes.lower("GitHub") == "github"
    assert runes.lower("ÄİΣ") == "äi\u03c3"
    assert runes.lower("ÄΣ Σ") == "ä\u03c3 \u03c3"


def test_white_space_is_gos() -> None:
    assert runes.trim("\u2003\x1fa\n") == "\x1fa"
    assert runes.words(" a\u3000b \x1f c\t") == ["a", "b", "\x1f", "c"]


@given(st.text())
def test_every_text_can_be_read_back(text: str) -> None:
    data = runes.encode(text)
    read, at = [], 0
    while at < len(data):
        rune, width = runes.decode(data, at, len(data))
        read.append(chr(rune))
        at += width
    assert "".join(read) == text
