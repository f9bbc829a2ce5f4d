"""Patterns of groups, kinds and names; the golden file holds answers of Go's filepath.Match."""

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from argocd.go import filepath

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "paths.json").read_text())


def test_the_originals_answers_are_ours() -> None:
    wrong = []
    for pattern, text, verdict in GOLDEN:
        said = filepath.matches(pattern, text)
        # Go may find out that nothing matches before it comes to what is malformed.
        if said != (verdict == "yes") or (verdict == "bad" and not filepath.is_malformed(pattern)):
            wrong.append((pattern, text, verdict, said))
    assert not wrong


def test_a_malformed_pattern_matches_nothing() -> None:
    assert not filepath.matches("[Secret", "[Secret")
    assert not filepath.matches("Secret\\", "Secret")


def test_long_patterns_are_answered_and_not_remembered() -> None:
    before = filepath.matches.short.cache_info().currsize
    assert filepath.matches("*" + "a" * 400, "b" + "a" * 400)
    assert not filepath.matches("*a" * 200, "b" * 200)
    assert filepath.matches.short.cache_info().currsize == before


@given(st.text(st.sampled_from("ab/é*?[]^-\\"), max_size=10), st.text(st.sampled_from("ab/é"), max_size=8))
def test_every_pattern_gets_an_answer(pattern: str, text: str) -> None:
    assert filepath.matches(pattern, text) in {True, False}
