"""Globs as Argo CD understands them; the golden file holds answers of gobwas/glob 0.2.3 itself."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argocd import globs
from argocd.globs import Verdict, building, matchers
from argocd.globs.parsing import TooCostlyError, parse
from tests.processor_time import ProcessorTime

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "globs.json").read_text())

FAST = 2.0
"""Seconds: far more than any answer takes, far less than gobwas/glob would."""


def test_the_originals_answers_are_ours() -> None:
    wrong = []
    for pattern, text, separators, error, verdict in GOLDEN:
        glob = globs.compiled(pattern, separators)
        said = "error" if glob.error else str(glob.match(text))
        if said != verdict or (error and error not in {"could not read rune", glob.error}):
            wrong.append((pattern, text, separators, verdict, said, glob.error))
    assert not wrong


@pytest.mark.parametrize(
    ("pattern", "text", "verdict"),
    [
        ("", "", "yes"),
        ("", "a", "no"),
        ("team-*", "team-a", "yes"),
        ("*-prod", "eu-prod", "yes"),
        ("a*a", "a", "yes"),
        ("?", "", "yes"),
        ("[!a]", "", "yes"),
        ("[^a]", "b", "no"),
        ("{prod,prod*}", "prod-1", "yes"),
        ("{prod*,prod}", "prod", "panic"),
        ("{prod-*,prod}", "prod", "yes"),
        ("a{}", "a", "panic"),
        ("b{*,-}", "b", "no"),
        ("{*a,*}", "", "no"),
        ("a,b", "a,b", "yes"),
        ("a\\", "a", "yes"),
        ("HTTPS://X", "https://x", "no"),
    ],
)
def test_surprises_are_kept(pattern: str, text: str, verdict: str) -> None:
    assert globs.match(pattern, text) is Verdict(verdict)


@pytest.mark.parametrize(
    ("pattern", "text", "verdict"),
    [
        ("*", "a/b", "no"),
        ("**", "a/b", "yes"),
        ("a/*", "a/b", "yes"),
        ("a/*", "a/b/c", "no"),
        ("*/c", "b/c", "yes"),
        ("*/c", "a/b/c", "no"),
        ("a/*/c", "a/b/c", "yes"),
        ("a/**/c", "a/b/b/c", "yes"),
        ("a/**c", "a/b/b/c", "yes"),
        ("?", "/", "no"),
        ("***", "", "no"),
    ],
)
def test_separators_stop_a_star_and_not_two(pattern: str, text: str, verdict: str) -> None:
    assert globs.match(pattern, text, "/") is Verdict(verdict)


@pytest.mark.parametrize(
    ("pattern", "error"),
    [
        ("[", "unexpected end of input"),
        ("[a", "unexpected end of input"),
        ("[a-", "unexpected end of input"),
        ("[a\0", "unexpected end of input"),
        ("[]", "could not parse range"),
        ("[a-zA-Z]", "expected close range character"),
        ("[z-a]", "hi character 'a' should be greater than lo 'z'"),
        ("a\ufffd", "could not read rune"),
        ("\ud800", "could not read rune"),
        ("[a\ufffd]", "could not read rune"),
    ],
)
def test_what_does_not_compile_says_why_and_matches_nothing(pattern: str, error: str) -> None:
    assert globs.compile_error(pattern) == error
    assert globs.match(pattern, pattern) is Verdict.NO


@pytest.mark.parametrize("pattern", ["{", "}", "a{b", "a\\", "]", "[^a]", "", "{a,b}-*", "é"])
def test_what_looks_wrong_and_compiles_has_no_error(pattern: str) -> None:
    assert not globs.compile_error(pattern)


def test_a_nul_ends_the_pattern_or_its_word() -> None:
    assert globs.match("*\0b", "a") is Verdict.YES
    assert globs.match("a\0b", "ab") is Verdict.YES
    assert globs.match("a\\\0b", "ab") is Verdict.YES


def test_a_pattern_on_which_argocd_hangs_is_told_at_once() -> None:
    with ProcessorTime() as taken:
        assert globs.match("?*a" * 16, "a" * 239 + "b") is Verdict.HANG
    assert taken.seconds < FAST


@pytest.mark.parametrize(
    "piece", ["a*", "?*a", "*", "?", "?a", "{", "{a,", "{a,b}", "{,}", "[ab]", "[!a]*", "\\"]
)
def test_ten_thousand_hostile_characters_are_answered_at_once(piece: str) -> None:
    pattern = (piece * 10_000)[:10_000]
    with ProcessorTime() as taken:
        for text in ("", "a" * 250, "ab" * 120, "https://kubernetes.default.svc", "é" * 100):
            assert globs.match(pattern, text) in set(Verdict)
    assert taken.seconds < FAST


def test_a_pattern_that_is_merely_deep_is_answered() -> None:
    assert globs.match("a*" * 300, "b" * 200) is Verdict.NO
    assert globs.match("a*" * 20, "a" * 20) is Verdict.YES
    assert globs.match("a*" * 60, "a" * 60) is Verdict.HANG


def test_more_nested_braces_than_anybody_writes_are_given_up() -> None:
    with pytest.raises(TooCostlyError):
        parse("{" * 51)
    assert globs.compiled("{" * 51).match("a") is Verdict.HANG
    assert globs.compiled("{" * 50 + "a").match("a") is Verdict.YES


def test_long_texts_and_patterns_are_not_remembered() -> None:
    before = globs._match.cache_info().currsize
    assert globs.match("a" * 400 + "*", "a" * 400) is Verdict.YES
    assert globs._match.cache_info().currsize == before


texts = st.text(st.sampled_from("ab/-.é€😀\0\ufffd\ud800*?[]{},!^\\"), max_size=12)


@given(texts, texts, st.sampled_from(["", "/", "./"]))
def test_every_pattern_and_text_gets_an_answer(pattern: str, text: str, separators: str) -> None:
    assert globs.compiled(pattern, separators).match(text) in set(Verdict)


@given(st.text(st.sampled_from("ab/*"), max_size=6), texts, st.sampled_from(["", "/", "./"]))
def test_the_shortcut_for_simple_patterns_leads_to_the_same_place(
    pattern: str, text: str, separators: str
) -> None:
    built = globs.Glob(pattern, building.build(parse(pattern), separators))
    assert built.match(text) is globs.match(pattern, text, separators)


@given(st.text(st.sampled_from("ab{},*?[]!"), max_size=10), st.text(max_size=6))
def test_an_error_is_found_with_and_without_compiling(pattern: str, text: str) -> None:
    assert globs.compile_error(pattern) == globs.compiled(pattern).error


def test_a_finder_may_end_inside_a_character_that_was_cut() -> None:
    # In a row the last character's first byte is compared alone, and what follows is no UTF-8 any more.
    assert globs.match("?é", "xé") is Verdict.NO
    assert globs.match("*?[!x]é*", "aéé") in {Verdict.YES, Verdict.NO}


@pytest.mark.parametrize(
    ("pattern", "text", "separators", "verdict"),
    [
        ("x/*{*a,b}", "x/y/a", "/", "no"),
        ("x*{*/a,b}", "xy/a", "/", "yes"),
        ("x*{*a,b}", "xab", "", "yes"),
        ("x*{a*c,b}", "xyac", "", "yes"),
        ("x*{a*c,b}", "xya", "", "no"),
        ("x*{a*c,b}", "xybc", "", "no"),
        ("x*{a*c,b}*y*z", "xacyacyz", "", "yes"),
        ("{a,b}*{c,d}*{e,f}*{*g,?}", "abcdefabcdefabcdef", "", "yes"),
        (
            "*a{[bb],{aba**,*,}b,{?aba{[^bba]?b},b,,*[!abb]},[^aab]ba}{*?[a]}?",
            "aaabbabaa}b,bababbabbb,abb^aaaaabaa",
            "-",
            "yes",
        ),
    ],
)
def test_alternatives_are_found_inside_a_text(pattern: str, text: str, separators: str, verdict: str) -> None:
    assert globs.match(pattern, text, separators) is Verdict(verdict)


def test_the_length_of_alternatives_is_that_of_the_last_where_the_first_vary() -> None:
    def length(pattern: str) -> int:
        matcher = globs.compiled(pattern).matcher
        assert matcher is not None
        return matcher.length

    assert length("{?,ab}") == matchers.VARIES
    assert length("{*,ab}") == 2
    assert length("{ab,*}") == matchers.VARIES
    assert length("{ab,cd}") == 2


def test_a_long_text_before_what_is_not_plain_is_read_once() -> None:
    """Not by its square: that would be a minute, and the limit of a test."""
    text = "a" * 300_000
    assert globs.match(f"{text}?", f"{text}b")
