"""Globs that compile and do something else than they say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argocd import globs
from argocd.globs import Verdict
from argocd.globs.surprises import SurpriseKind, reads_as, surprises
from tests.processor_time import ProcessorTime


def said(pattern: str, separators: str = "") -> dict[SurpriseKind, str]:
    return {surprise.kind: surprise.message for surprise in reversed(surprises(pattern, separators))}


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "team-a",
        "team-*",
        "*-prod",
        "*",
        "**",
        "https://*.example.com",
        "{prod,prod*}",
        "*-{dev,prod}",
        "team-?",
        "a?-**",
        "a*b*c",
        "[ab]-*",
        "[!ab]-x",
        r"a\*b",
        "{a,b,c}-{d,e}-*",
    ],
)
def test_a_plain_pattern_has_no_surprises(pattern: str) -> None:
    assert surprises(pattern) == ()


@pytest.mark.parametrize(
    "pattern", ["https://git.example.com/*/x", "https://git.example.com/**", "*/*", "**/x"]
)
def test_a_plain_pattern_of_repositories_has_no_surprises(pattern: str) -> None:
    assert surprises(pattern, "/") == ()


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("{prod*,prod}", "prod"), ("a{}", "a"), ("?{,}", "x"), ("{team-a*,team-a}", "team-a")],
)
def test_a_panic_comes_with_a_text_that_shows_it(pattern: str, text: str) -> None:
    assert said(pattern)[SurpriseKind.PANICS] == f"Argo CD panics when it compares this with '{text}'"
    assert globs.match(pattern, text) is Verdict.PANIC


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("prod*prod", "to Argo CD this matches 'prod' although it reads as if it did not"),
        ("?", "to Argo CD this matches the empty text although it reads as if it did not"),
        ("[!a]", "to Argo CD this matches the empty text although it reads as if it did not"),
        ("b{*,-}", "to Argo CD this does not match 'b' although it reads as if it did"),
        ("{*a,*}", "to Argo CD this does not match the empty text although it reads as if it did"),
        ("a{b", "a brace is not closed"),
        ("a}", "a closing brace that nothing opens is a plain character"),
        ("x?\\", "the backslash at the end is dropped"),
        ("é?", "characters beyond ASCII are compared byte by byte, and not always rightly"),
        ("{a,}b", "an alternative is empty"),
        ("[^a]x", "`^` negates nothing in a class, that is `!`"),
        (
            "x[a-z]",
            "a class holds one range and nothing else: a second one, as in [a-z0-9], does not compile",
        ),
        (
            "x[!a-z]",
            "a class holds one range and nothing else: a second one, as in [a-z0-9], does not compile",
        ),
        (
            "[!\x01-\U0010ffff]x",
            "a class holds one range and nothing else: a second one, as in [a-z0-9], does not compile",
        ),
    ],
)
def test_what_misleads_is_said(pattern: str, message: str) -> None:
    assert message in {surprise.message for surprise in surprises(pattern)}


def test_two_stars_that_overlap_mislead_among_repositories_too() -> None:
    assert SurpriseKind.MISLEADS in said("ab**b", "/")
    assert said("ab*b", "/") == {}


@pytest.mark.parametrize("pattern", ["?*a" * 16, "*?a{b,c*}" * 10, "{" * 60, "?*a" * 3333])
def test_what_keeps_argocd_busy_is_told_at_once(pattern: str) -> None:
    with ProcessorTime() as taken:
        assert "Argo CD would hang on this" in said(pattern)[SurpriseKind.HANGS]
    assert taken.seconds < 2


def test_many_wildcards_without_a_text_between_them_are_harmless() -> None:
    assert SurpriseKind.HANGS not in said("?*" * 8)


def test_what_does_not_compile_is_no_surprise() -> None:
    assert surprises("[a-") == ()
    assert surprises("[a-" * 200) == ()
    assert surprises("a" * 400) == ()


@given(st.text(st.sampled_from("ab*?[]{},!^-\\é/"), max_size=14), st.sampled_from(["", "/"]))
def test_every_pattern_can_be_tried(pattern: str, separators: str) -> None:
    assert isinstance(surprises(pattern, separators), tuple)


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("team-*", "team-a", True),
        ("team-?", "team-", False),
        ("a*a", "a", False),
        ("{a,b}/*", "b/c", True),
        ("[!a]", "b", True),
        ("[a", "a", None),
        ("a" * 301, "a", None),
    ],
)
def test_a_reader_takes_a_pattern_for_what_textbooks_say(
    pattern: str, text: str, *, expected: bool | None
) -> None:
    assert reads_as(pattern, text) is expected


def test_to_a_reader_a_star_stops_at_a_separator() -> None:
    assert reads_as("a*", "a/b") is True
    assert reads_as("a*", "a/b", "/") is False
