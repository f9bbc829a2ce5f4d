"""Paths in jq's language; the golden file says which of them gojq 0.12.17 or 0.12.19 compiles inside `del(...)`."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argocd.budget import StepBudget
from argocd.go.gojq import path_problem

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "jq_paths.json").read_text())


def test_what_the_original_compiles_has_no_problem_and_the_rest_has_one() -> None:
    assert [path for path, compiles in GOLDEN if bool(path_problem(path)) == compiles] == []


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("", "unexpected end"),
        (".a |", "unexpected end"),
        (".a # the rest of the line, and Argo CD's parenthesis", "unexpected end"),
        (".a)", 'unexpected token ")"'),
        (".a == .b == .c", 'unexpected token "=="'),
        ("'a'", 'unexpected token "\'"'),
        (".a.0.1", 'invalid token ".0.1"'),
        ('"a', "unterminated string literal"),
        (r'"\x"', r"invalid escape sequence \x in string literal"),
        ('"\\\n"', r"invalid escape sequence '\\\n' in string literal"),
        (".a; .b", "function not defined: del/2"),
        (".a | nothing", "function not defined: nothing/0"),
        ("map(.a; .b)", "function not defined: map/2"),
        ("m::f", "function not defined: m::f/0"),
        ("def f: .; f(1)", "function not defined: f/1"),
        ("(1 as $x | $x) | $x", "variable not defined: $x"),
        ("reduce .[] as $x ($x; .)", "variable not defined: $x"),
        ("label $a | break $b", "label not defined: $b"),
        ("$x |", "unexpected end"),
    ],
)
def test_a_problem_says_what_is_wrong(path: str, problem: str) -> None:
    assert path_problem(path) == problem


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("(", ")"),
        ("[", "]"),
        ("{a:", "}"),
        ('"\\(', ')"'),
        ("try ", ""),
        ("def f: ", "; ."),
        (". as " + "[", ""),
    ],
)
def test_of_what_is_nested_too_deep_nothing_is_said(opening: str, closing: str) -> None:
    times = 4000 // (len(opening) + len(closing))
    assert path_problem(opening * times + "." + closing * times) in {"", 'unexpected token "."'}
    assert not path_problem("(" * 40 + "." + ")" * 40)


def test_nothing_is_said_of_a_long_text_and_a_shorter_one_is_charged() -> None:
    assert not path_problem(".a|" * 2000)
    assert not path_problem("é|" * 2000)  # 6000 bytes
    assert path_problem("é|" * 1000)
    with StepBudget() as budget:
        assert path_problem(".a|" * 1000)
    assert budget.steps == 15_000  # five for a character


@given(st.text(alphabet=st.sampled_from(list('.[](){}|,;:?/="\\$@#+-*<!a1e_ \n\r\té')), max_size=60))
def test_every_text_has_an_answer(path: str) -> None:
    assert path_problem(path).isprintable()
