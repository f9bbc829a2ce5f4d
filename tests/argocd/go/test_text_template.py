"""Go templates; the golden file holds what Go's text/template says of them."""

import json
from pathlib import Path

import pytest

from argocd.go.text_template import COMPUTED, Variable, parse
from tests.processor_time import ProcessorTime

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "templates.json").read_text())
FUNCTIONS = {"lower": (1, 1), "default": (1, None), "toYaml": (1, 1), "now": (0, 0), "replace": (3, 3)}
LONG = 100_000
PATIENCE = 2.0
"""Seconds for the longest text; quadratic work would take minutes."""


@pytest.mark.parametrize("case", GOLDEN, ids=[case["template"][:30] for case in GOLDEN])
def test_a_template_fails_with_the_words_that_go_has_for_it(case: dict[str, str]) -> None:
    expected = case["problem"].partition(" started at")[0]  # the line is that of the file, not of the text
    assert parse(case["template"], functions=FUNCTIONS).problem == expected


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", ()),
        ("plain", ("plain",)),
        ("a-{{.x}}-b", ("a-", Variable(("x",)), "-b")),
        ("{{ .x.y }}", (Variable(("x", "y")),)),
        ("a {{- .x -}} b", ("a", Variable(("x",)), "b")),
        ("a {{/* said */}} b", ("a ", " b")),
        ("{{ .x | lower }}", (COMPUTED,)),
        ("{{ .x .y }}", (COMPUTED,)),
        ("{{ . }}", (COMPUTED,)),
        ("{{if .x}}a{{.y}}{{end}}b", (COMPUTED, "b")),
        ('{{define "t"}}a{{end}}b', (COMPUTED, "b")),
    ],
)
def test_plain_variables_and_the_text_around_them_are_told_from_all_else(
    text: str, pieces: tuple[object, ...]
) -> None:
    assert parse(text, functions=FUNCTIONS).pieces == pieces


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{{replace .x}}", "wrong number of args for replace: want 3 got 1"),
        ("{{.x | replace `a`}}", "wrong number of args for replace: want 3 got 2"),
        ("{{default}}", "wrong number of args for default: want at least 1 got 0"),
        ("{{lower (replace .x) }}", "wrong number of args for replace: want 3 got 1"),
        ("{{lower .x .y}}{{", "unclosed action"),
        ("{{.x | replace `a` `b` | lower}}", ""),
        ("{{.x | default}}", ""),
        ("{{now.Year}}", ""),
        ("{{if .x}}{{replace .x}}{{end}}", ""),
    ],
)
def test_a_call_that_go_surely_runs_has_the_arguments_that_the_function_takes(
    text: str, problem: str
) -> None:
    assert parse(text, functions=FUNCTIONS).problem == problem


@pytest.mark.parametrize(
    "part",
    [
        "{{",
        "}}",
        "{{.a}}",
        "{{(",
        "{{ (",
        "(",
        "{{/*",
        '{{"',
        "{{if .a}}",
        "{{else}}",
        "{{ .a |",
        "{{$a := 1}}",
        "0",
    ],
)
def test_a_long_template_is_read_in_linear_time(part: str) -> None:
    with ProcessorTime() as taken:
        parse(part * (LONG // len(part)), functions=FUNCTIONS)
        parse("{{" + part * (LONG // len(part)), functions=FUNCTIONS)
    assert taken.seconds < PATIENCE


def test_nesting_that_nobody_writes_is_unknown_and_no_problem() -> None:
    deep = "{{ " + "(" * 5000 + ".x" + ")" * 5000 + " }}"
    assert parse(deep, functions=FUNCTIONS).pieces == (COMPUTED,)
