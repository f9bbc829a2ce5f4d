"""What one review may cost: work is counted in steps, and a review that needs more than it may has to end.

A step is about a microsecond of one core: a glob held against a text, two entries compared, a text made up. What an
object's size alone decides is not counted, because that is bounded; what is counted could grow without bound. The
same object costs the same number of steps everywhere, remembered or not: `remembered` keeps the steps with the answer.
"""

import sys
from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import Any, Self, TypeVar

DEFAULT_STEPS = 1_000_000
"""Under a second of one core, and ten times what ordinary objects of 1.5 MiB, the most that etcd stores, need."""
FINDING = 30
"""Steps for a finding: it is written, weighed, told, and encoded."""

Answer = TypeVar("Answer")


class BudgetExceededError(Exception):
    """The work needs more steps than it may take. Only whoever set the limit catches it."""


class StepBudget:
    """Counts what is spent while it is entered, and ends that at its limit; one inside another has what is left."""

    __slots__ = ("_outer", "_token", "limit", "steps")

    def __init__(self, limit: int = sys.maxsize) -> None:
        self.limit = limit
        self.steps = 0

    def __enter__(self) -> Self:
        self._outer = outer = _CURRENT.get()
        if outer is not None:
            self.limit = min(self.limit, outer.limit - outer.steps)
        self._token: Token[StepBudget | None] = _CURRENT.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _CURRENT.reset(self._token)
        if self._outer is not None:
            self._outer.steps += self.steps

    def spend(self, steps: int) -> None:
        self.steps += steps
        if self.steps > self.limit:
            raise BudgetExceededError


_CURRENT: ContextVar[StepBudget | None] = ContextVar("step budget", default=None)


def spend(steps: int) -> None:
    """Charges whoever has set a limit; without one work is free."""
    budget = _CURRENT.get()
    if budget is not None:
        budget.spend(steps)


def left() -> int:
    """How many steps may still be taken."""
    budget = _CURRENT.get()
    return sys.maxsize if budget is None else budget.limit - budget.steps


def measured(function: Callable[..., Answer], *args: Any) -> tuple[Answer, int]:
    """The answer and its steps, which are not charged yet, so that a remembered answer can be charged alike."""
    inner = StepBudget(left())
    token = _CURRENT.set(inner)
    try:
        return function(*args), inner.steps
    finally:
        _CURRENT.reset(token)
