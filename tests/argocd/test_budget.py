"""Counting steps."""

import pytest

from argocd import budget
from argocd.budget import BudgetExceededError, StepBudget, measured, remembered, spend


def test_without_a_budget_work_is_free() -> None:
    spend(10**12)
    assert budget.left() > 10**12


def test_a_budget_ends_what_takes_more() -> None:
    with StepBudget(10) as taken:
        spend(10)
        with pytest.raises(BudgetExceededError):
            spend(1)
    assert taken.steps == 11


def test_one_inside_another_has_what_is_left_and_is_paid_by_both() -> None:
    with StepBudget(10) as outer:
        spend(4)
        with StepBudget(100) as inner:
            assert budget.left() == 6
            spend(6)
        assert (inner.steps, outer.steps) == (6, 10)
        with pytest.raises(BudgetExceededError), StepBudget(100):
            spend(1)


def test_a_share_can_be_used_up_without_ending_the_whole() -> None:
    with StepBudget(10) as outer:
        with pytest.raises(BudgetExceededError), StepBudget(3):
            spend(4)
        spend(6)
    assert outer.steps == 10


def test_what_is_measured_is_not_charged() -> None:
    with StepBudget(10) as taken:
        assert measured(_work, 7) == ("done", 7)
        with pytest.raises(BudgetExceededError):
            measured(_work, 11)
    assert taken.steps == 0


def _work(steps: int) -> str:
    spend(steps)
    return "done"


def test_a_remembered_answer_costs_what_it_cost_first() -> None:
    asked = []

    @remembered(longest=5, most=10)
    def length(text: str) -> int:
        asked.append(text)
        spend(len(text))
        return len(text)

    for _ in range(2):
        with StepBudget() as taken:
            assert length("abc") == 3
        assert taken.steps == 3
    assert asked == ["abc"]


def test_what_could_not_be_paid_is_not_remembered() -> None:
    @remembered(longest=5, most=10)
    def length(text: str) -> int:
        spend(len(text))
        return len(text)

    with StepBudget(2), pytest.raises(BudgetExceededError):
        length("abc")
    assert length("abc") == 3


def test_short_texts_are_remembered_and_long_ones_are_not() -> None:
    @remembered(longest=3, most=2)
    def letters(text: str) -> list[str]:
        return list(text)

    assert letters("abc") is letters("abc")
    assert letters("abcd") == ["a", "b", "c", "d"]
    assert letters("abcd") is not letters("abcd")
    assert letters.short.cache_info().currsize == 1


def test_only_so_many_are_remembered_short_and_long() -> None:
    @remembered(longest=1, most=2, most_long=1)
    def letters(text: str) -> list[str]:
        return list(text)

    first, long = letters("a"), letters("ab")
    assert letters("ab") is long
    for text in ("b", "c", "cd"):
        letters(text)
    assert letters("a") is not first
    assert letters("ab") is not long


def test_a_function_of_several_texts_says_what_is_long() -> None:
    @remembered(longest=3, most=2, length=lambda one, other: len(one) + len(other))
    def joined(one: str, other: str) -> list[str]:
        return [one, other]

    assert joined("a", "bc") is joined("a", "bc")
    assert joined("ab", "cd") is not joined("ab", "cd")
    assert joined.__wrapped__("a", "b") == ["a", "b"]
