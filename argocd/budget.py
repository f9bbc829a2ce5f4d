"""What one review may cost: work is counted in steps, and a review that needs more than it may has to end.

A step is about a microsecond of one core: a glob held against a text, two entries compared, a text made up. What an
object's size alone decides is not counted, because that is bounded; what is counted could grow without bound.

Users write the same short texts again and again, and what was found out about them is `remembered`. The same object
costs the same number of steps everywhere, remembered or not: the steps are kept with the answer and charged each time.
A long text is worked out each time, or remembered among few others, so that nobody can fill the memory.
"""

import sys
from collections.abc import Callable
from contextvars import ContextVar, Token
from functools import lru_cache, partial, update_wrapper
from typing import Any, Protocol, Self, TypeVar, TypeVarTuple, cast

DEFAULT_STEPS = 1_000_000
"""Under a second of one core, and ten times what ordinary objects of 1.5 MiB, the most that etcd stores, need."""
LONGEST = 16_384
"""Characters of a text that is remembered at all, among few others: as many as a file with a hundred lines has."""
FINDING = 100
"""Steps for a finding, which is written, weighed, told and counted: a quarter of that, and the rest so that a small
object with no end of mistakes ends after thousands of them. Nobody reads more, and meanwhile others wait."""

Answer = TypeVar("Answer")
Arguments = TypeVarTuple("Arguments")
Answer_co = TypeVar("Answer_co", covariant=True)


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


class RememberedFunction(Protocol[*Arguments, Answer_co]):
    """`short` and `long` are who answers about either; the function itself is `__wrapped__`."""

    short: Any
    long: Any
    __wrapped__: Any

    def __call__(self, *args: *Arguments) -> Answer_co: ...


def remembered(
    *, longest: int, most: int, most_long: int = 0, length: Callable[..., int] | None = None
) -> Callable[[Callable[[*Arguments], Answer]], RememberedFunction[*Arguments, Answer]]:
    """For a function of texts: the newest `most` answers about up to `longest` characters are kept.

    Of longer ones `most_long`, up to a length beyond which nothing is. The length is that of the first argument if nothing else is said. It is called without keywords.
    """

    def decorate(function: Callable[[*Arguments], Answer]) -> RememberedFunction[*Arguments, Answer]:
        work = partial(measured, function)
        short: Any = lru_cache(maxsize=most)(work)
        long: Any = lru_cache(maxsize=most_long)(work) if most_long else work

        # Each is as fast as the same line written out where it is needed.
        def by_first(*args: Any) -> Any:
            answer, steps = (
                short if (size := len(args[0])) <= longest else long if size <= LONGEST else work
            )(*args)
            if steps:
                spend(steps)
            return answer

        def by_length(*args: Any) -> Any:
            answer, steps = (
                short if (size := measure(*args)) <= longest else long if size <= LONGEST else work
            )(*args)
            if steps:
                spend(steps)
            return answer

        measure: Any = length
        asked: Any = update_wrapper(by_length if length else by_first, function)
        asked.short, asked.long = short, long
        return cast("RememberedFunction[*Arguments, Answer]", asked)

    return decorate
