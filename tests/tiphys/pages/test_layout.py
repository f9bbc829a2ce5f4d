"""What pages make of texts that others wrote."""

import pytest

from tiphys.pages.layout import bar, with_code


@pytest.mark.parametrize(
    ("text", "markup"),
    [
        ("run `kubectl get` there", "run <code>kubectl get</code> there"),
        ("<b>`<i>`</b>", "&lt;b&gt;<code>&lt;i&gt;</code>&lt;/b&gt;"),
        ("no code", "no code"),
        ("", ""),
    ],
)
def test_what_stands_between_backticks_is_code_and_nothing_becomes_markup(text: str, markup: str) -> None:
    assert with_code(text) == markup


def test_a_bar_says_its_figures_in_words_and_when_one_points_at_it() -> None:
    drawn = bar("Health", (("Healthy", 3), ("Degraded", 1), ("Missing", 0)))
    assert 'aria-label="Health: 3 Healthy, 1 Degraded"' in drawn
    assert "<title>Health: 3 Healthy, 1 Degraded</title>" in drawn
    assert bar("<b>", ()).startswith("<svg")
    assert "<b>" not in bar("<b>", ())
