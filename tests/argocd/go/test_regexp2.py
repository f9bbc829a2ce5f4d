"""Regular expressions; the golden file holds answers of regexp2, on which Argo CD runs them."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argocd.go import regexp2
from tests.processor_time import ProcessorTime

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "regular_expressions.json").read_text())


def test_where_we_answer_we_answer_as_the_original_does() -> None:
    wrong, answered = [], 0
    for pattern, text, verdict in GOLDEN:
        expression = regexp2.compiled(pattern)
        if expression.unsupported:
            continue
        answered += 1
        found = expression.search is not None and bool(expression.search(text))
        if found != (verdict == "yes"):
            wrong.append((pattern, text, verdict))
    assert not wrong
    assert answered > len(GOLDEN) * 0.8


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("^((?!disallowed).)*$", "allowed", True),
        ("^((?!disallowed).)*$", "is-disallowed", False),
        ("^(?:(?!b).)+$", "", False),
        ("^(?:(?!b).)*$", "a\nc", False),
        ("^(?:(?!$).)*$", "abc", True),
        ("^(?!shop-live).*$", "shop-test", True),
        ("^(?!shop-live).*$", "shop-live-1", False),
        ("^(?=a)(?!ab).*$", "ac", True),
        ("^(?=a)(?!ab).*$", "ab", False),
        ("shop", "my-shop-1", True),
        ("^shop$", "shop-1", False),
        ("^(?i)SHOP$", "shop", True),
        ("[(|]", "a|", True),
    ],
)
def test_what_the_documentation_shows_is_understood(pattern: str, text: str, *, found: bool) -> None:
    search = regexp2.compiled(pattern).search
    assert search is not None
    assert bool(search(text)) is found


@pytest.mark.parametrize("pattern", ["(a", "a)", "[a", "*a", "a**"])
def test_what_nobody_can_read_is_an_error(pattern: str) -> None:
    expression = regexp2.compiled(pattern)
    assert expression.error
    assert expression.search is None


@pytest.mark.parametrize(
    "pattern",
    [
        "a(?!b)",
        "^(?!(a",
        "^((?!(a).)*$",
        "(?<=a)b",
        r"(a)\1",
        "(?>a)",
        "^(?!a)b|c",
        "^((?!a).)*x",
        "[a-z-[aeiou]]",
        "(?P<n>a)",
        r"\pL",
        "[[:alpha:]]",
        "(?i)+",
        r"a{1001}",
    ],
)
def test_what_we_cannot_run_as_argocd_does_is_said(pattern: str) -> None:
    expression = regexp2.compiled(pattern)
    assert expression.unsupported
    assert expression.search is None


def test_an_expression_that_takes_others_for_ever_takes_no_time() -> None:
    search = regexp2.compiled("^(a+)+$").search
    assert search is not None
    with ProcessorTime() as taken:
        assert not search("a" * 5000 + "b")
    assert taken.seconds < 2


@pytest.mark.parametrize(
    "pattern",
    ["[" * 10_000, f"^(?{'[' * 10_000}", f"^(?!a){'[' * 10_000}", f"^((?!{'[a-' * 3000}", "\\[" * 5000],
)
def test_what_nobody_closes_is_read_once(pattern: str) -> None:
    with ProcessorTime() as taken:
        assert regexp2.compiled(pattern) != regexp2.Expression()
    assert taken.seconds < 0.5


def test_a_few_long_expressions_are_remembered_apart_from_short_ones() -> None:
    before = regexp2.compiled.short.cache_info()
    first = regexp2.compiled("a" * 1001)
    assert first.search is not None
    assert regexp2.compiled("a" * 1001) is first
    assert regexp2.compiled.short.cache_info() == before
    for number in range(5):
        regexp2.compiled("b" * (1001 + number))
    assert regexp2.compiled("a" * 1001) is not first


@given(st.text(max_size=20), st.text(max_size=10))
def test_every_expression_gets_an_answer(pattern: str, text: str) -> None:
    expression = regexp2.compiled(pattern)
    if expression.search is not None:
        expression.search(text)
