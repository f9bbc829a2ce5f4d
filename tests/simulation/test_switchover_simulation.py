"""Switchovers, back and forth, under users' writes, with kills at every step, an operator who forces nothing and shows old
tokens now and then: every write that was taken is on both hubs and on its agent, every operation ran once, and what
cannot be finished is undone.
"""

import os
from collections import Counter
from dataclasses import replace
from functools import partial

import pytest

from tests.simulation.simulation import simulate
from tests.simulation.switchovers import Switchovers

SEEDS = int(os.environ.get("TIPHYS_SEEDS", "200"))
BATCH = 20
KILLS = 5
STORM = 60.0

# Two fates in which the bad cases come soon: kills at every step, and old tokens.
HARD = (
    replace(Switchovers.fate, killed=0.3, regions=0, parted=0),
    replace(Switchovers.fate, regions=0, parted=0, replayed=0.4),
)
# Each step of a switchover: four of whoever hands over, two of whoever takes over.
STEPS = (
    "killed at: switchover begun",
    "killed at: switchover: closed to writers",
    "killed at: switchover: token given",
    "killed at: switchover done",
    "killed at: switchover: epoch claimed",
    "killed at: switchover",
)
SOMETIMES = (
    "recorded: switchover undone",
    "switchover done",
    "switchover refused",
    "old token refused",
    "promotions interrupted",
    "paused in a write of the record",
    "records refused",
    "writers on a standby refused",
    "users' writes",
)


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_nothing_is_lost_by_a_switchover_wherever_it_is_killed(first: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, first + BATCH):
        counts += simulate(Switchovers, seed=seed, storm_seconds=STORM).counts
    assert counts["switchover done"] >= BATCH // 2, "there was hardly anything to lose"
    assert sum(counts[step] for step in STEPS) >= BATCH // 4


def test_every_step_of_a_switchover_was_killed_again_and_again() -> None:
    counts: Counter[str] = Counter()
    for seed in range(1000, 1150):
        make = partial(Switchovers, fate=HARD[seed % 2])
        counts += simulate(make, seed=seed, storm_seconds=STORM).counts
        if all(counts[each] for each in SOMETIMES) and all(counts[each] >= KILLS for each in STEPS):
            return
    assert [each for each in SOMETIMES if not counts[each]] == []
    assert {each: counts[each] for each in STEPS if counts[each] < KILLS} == {}
