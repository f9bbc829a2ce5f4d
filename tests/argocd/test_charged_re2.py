"""Expressions that take RE2 long by themselves, before anything is searched."""

import pytest
import re2

from argocd import charged_re2
from argocd.budget import StepBudget
from tests.processor_time import least_seconds

SECONDS_OF_A_STEP = 2e-6
"""Twice as long as it should be."""

LONG = {
    "what may be left out": "a{0,1000}" * 9,
    "more of that": "a{0,1000}" * 110,
    "many of that": "a?" * 5_000,
    "too many of that": "a?" * 400_000,
    "spans": "[a-z]{1,9}" * 1_000,
    "too many spans": "[a-z]{1,9}" * 80_000,
    "classes": r"\pL" * 9_900,
    "too many classes": r"\pL" * 50_000,
    "repetitions": "a{1000}" * 1_400,
    "alternatives": "|".join(f"a{number}" for number in range(1_500)),
}


@pytest.mark.parametrize("pattern", LONG.values(), ids=LONG)
def test_an_expression_is_charged_for_the_time_that_it_takes(pattern: str) -> None:
    with StepBudget() as taken:
        assert charged_re2.problem(pattern) == ""
    allowed = SECONDS_OF_A_STEP * taken.steps
    assert least_seconds(lambda: charged_re2.problem(pattern), below=allowed) < allowed


def test_the_reason_why_it_is_none_is_told() -> None:
    assert charged_re2.problem("a(b") == "missing ): a(b"


def test_what_may_be_left_out_is_found_where_it_is() -> None:
    assert charged_re2.ChargedPattern("^a{0,1000}b$").search(b"a" * 900 + b"b")
    with pytest.raises(re2.error):
        charged_re2.ChargedPattern("a" * 30_001)


def test_the_module_of_re2_remembers_none() -> None:
    charged_re2.ChargedPattern("what-nobody-else-writes")
    assert re2._Regexp._make.cache_info().currsize == 0
