"""Patterns of groups, kinds and names; the golden file holds answers of Go's filepath.Match."""

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from argocd import paths

GOLDEN = json.loads((Path(__file__).parent / "golden" / "paths.json").read_text())


def test_the_originals_answers_are_ours() -> None:
    wrong = []
    for pattern, text, verdict in GOLDEN:
        said = paths.matches(pattern, text)
        # Go may find out that nothing matches before it comes to what is malformed.
        if said != (verdict == "yes") or (verdict == "bad" and not paths.is_malformed(pattern)):
            wrong.append((pattern, text, verdict, said))
    assert not wrong


def test_a_malformed_pattern_matches_nothing() -> None:
    assert not paths.matches("[Secret", "[Secret")
    assert not paths.matches("Secret\\", "Secret")


def test_long_patterns_are_answered_and_not_remembered() -> None:
    before = paths._remembered.cache_info().currsize
    assert paths.matches("*" + "a" * 400, "b" + "a" * 400)
    assert not paths.matches("*a" * 200, "b" * 200)
    assert paths._remembered.cache_info().currsize == before


@given(st.text(st.sampled_from("ab/é*?[]^-\\"), max_size=10), st.text(st.sampled_from("ab/é"), max_size=8))
def test_every_pattern_gets_an_answer(pattern: str, text: str) -> None:
    assert paths.matches(pattern, text) in {True, False}
