"""How many lines of `argocd/` a review executes, and that they grow no faster than what it is about.

Counted are lines, not time. An object with eight times as many entries may take eight times as many lines, and a
logarithm more. Work that grows faster must be seen by the budget: the larger object is judged with a budget that allows
for the same growth, so that what is counted in steps ends there, and what grows without being counted is found out by its
lines.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import FrameType
from typing import Any

import argocd
from argocd.budget import StepBudget
from argocd.engine.judge import Judgement, judge
from argocd.judging.case import Case, Rule
from argocd.judging.configuration import ReviewLimits
from argocd.rules.any_object import TOO_COSTLY
from argocd.rules.catalogue import CATALOGUE

FEW, MANY = 8, 64
GROWTH = 16.0
"""Of n log n from 8 to 64 entries: eight times as many, and a logarithm that doubles."""
LINES_OF_A_STEP = 20
"""At most, with what surrounds it."""
FEW_STEPS = 300
"""What a pattern costs by itself, before there are many."""
MOST_STEPS = 20_000
"""Of any review here: patterns that take for ever would make the test do so too."""
TODAY = date(2026, 9, 1)
ROOM = str(Path(argocd.__file__).parent)


def counted(work: Callable[[], Any]) -> int:
    """Lines of `argocd/` that are executed."""
    lines = 0

    def in_function(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return in_function

    def entered(frame: FrameType, _event: str, _argument: Any) -> Any:
        return in_function if frame.f_code.co_filename.startswith(ROOM) else None

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines


def judged(case: Case, *, steps: int, rules: tuple[Rule, ...]) -> tuple[int, int]:
    """The lines and the steps of one review with this budget; all of them where it was used up."""
    surroundings = case.surroundings
    configuration = replace(surroundings.configuration, limits=ReviewLimits(review_steps=steps))
    limited = replace(case, surroundings=replace(surroundings, configuration=configuration))
    found: list[Judgement] = []
    with StepBudget() as spent:
        lines = counted(lambda: found.extend(judge(limited, today=TODAY, rules=rules)))
    ended = any(judgement.finding.rule == TOO_COSTLY.id for judgement in found)
    return lines, steps if ended else spent.steps


def hold(make: Callable[[int], Case], *, rules: tuple[Rule, ...] = CATALOGUE) -> None:
    """The work on `make(64)` is at most so many times that on `make(8)`, but for what was charged."""
    least, _ = judged(make(1), steps=MOST_STEPS, rules=rules)
    few, steps = judged(make(FEW), steps=MOST_STEPS, rules=rules)
    allowed = min(int(GROWTH * steps) + FEW_STEPS, MOST_STEPS)
    many, spent = judged(make(MANY), steps=allowed, rules=rules)
    grown = least + GROWTH * max(few - least, 0)
    assert many <= grown + LINES_OF_A_STEP * spent, (least, few, many, steps, spent)
