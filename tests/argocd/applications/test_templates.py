from typing import Any

import pytest

from argocd.applications.templates import (
    BUDGET,
    UNKNOWN,
    TemplateReader,
    Unknown,
    filled,
    rendered,
    texts,
    unknowns,
)

GO, PLAIN = True, False


@pytest.mark.parametrize(
    ("text", "go", "parameters", "expected"),
    [
        ("a-{{.x}}", GO, {"x": "b"}, "a-b"),
        ("{{.x.y}}", GO, {"x": {"y": "b"}}, "b"),
        ("{{.x}}", GO, {"x": 3}, "3"),
        ("{{.x}}", GO, {"x": True}, "true"),
        ("{{.x}}", GO, {"x": ["b"]}, UNKNOWN),
        ("{{.x}}", GO, {}, UNKNOWN),
        ("{{.x}}", GO, None, UNKNOWN),
        ("{{.x}}", GO, {"x": UNKNOWN}, UNKNOWN),
        ("{{.x | lower}}", GO, {"x": "B"}, UNKNOWN),
        ("{{x}}", GO, {"x": "b"}, UNKNOWN),
        ("a-{{x}}", PLAIN, {"x": "b"}, "a-b"),
        ("{{ x }}", PLAIN, {"x": "b"}, "b"),
        ("{{values.x}}", PLAIN, {"values.x": "b"}, "b"),
        ("{{.x}}", PLAIN, {"x": "b"}, UNKNOWN),
        ("{{ y }}", PLAIN, {"x": "b"}, UNKNOWN),
        ("{{x}}", PLAIN, None, UNKNOWN),
        ("{{x}}", PLAIN, {"x": UNKNOWN}, UNKNOWN),
        ("{{\nx}}", PLAIN, {"x": "b"}, "{{\nx}}"),
        ("{{x", PLAIN, {"x": "b"}, "{{x"),
    ],
)
def test_what_a_text_becomes(text: str, go: bool, parameters: Any, expected: object) -> None:  # noqa: FBT001 - a column of the table
    assert rendered(text, parameters, TemplateReader(go=go)) == expected


def test_an_unclosed_tag_is_a_problem_where_another_makes_it_a_template() -> None:
    assert TemplateReader(go=False).parsed("{{x}} {{y").problem.startswith("Cannot find end tag")
    assert not TemplateReader(go=False).parsed("{{y").problem


def test_what_is_known_of_an_unknown_text_stays() -> None:
    found = rendered({"a": ["x-{{.y}}"], "b": 1}, None, TemplateReader(go=True))
    assert found == {"a": [Unknown(("x-", None))], "b": 1}
    assert filled(found, "z") == {"a": ["x-z"], "b": 1}
    assert list(unknowns(found)) == [("a", "0")]


def test_every_text_and_every_templated_key_has_a_path() -> None:
    found = set(texts({"a": [{"b.c/d": "x"}], "{{.k}}": "y"}, "spec"))
    assert found == {("spec.a[0][b.c/d]", "x"), ("spec[{{.k}}]", "{{.k}}"), ("spec[{{.k}}]", "y")}


def test_more_templates_than_anybody_writes_are_unknown() -> None:
    reader = TemplateReader(go=True)
    long = "{{x}}" + "a" * (BUDGET // 2)
    assert reader.parsed(long).problem
    assert reader.parsed(long).problem, "read once"
    assert not reader.parsed(f"b{long}").problem
