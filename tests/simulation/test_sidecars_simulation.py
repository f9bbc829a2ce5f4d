"""Principal and agents, both modes, with users, meddlers and controllers, under storms."""

import os

import pytest

from tests.simulation.sidecars import Sidecars
from tests.simulation.simulating import simulate

SEEDS = int(os.environ.get("TIPHYS_SEEDS", "300")) // 5
BATCH = 10


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_both_ends_agree_after_every_storm_and_each_operation_ran_once(first: int) -> None:
    for seed in range(first, first + BATCH):
        simulate(Sidecars, seed=seed)


def test_a_seed_with_sidecars_replays_exactly() -> None:
    first, second = (simulate(Sidecars, seed=3) for _ in range(2))
    assert first.lines == second.lines


def test_without_guards_and_comparisons_meddling_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sidecars.delivery.comparing.Comparer.start", lambda *_: None)
    monkeypatch.setattr("sidecars.guarding.Guard.changed", lambda *_: None)
    with pytest.raises(AssertionError, match="instead of"):
        for seed in range(5):
            simulate(Sidecars, seed=seed)


def test_without_the_mark_of_what_was_done_operations_are_lost_or_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sidecars.principal.roster.Agent.operation_pending", lambda *_args, **_named: False)
    with pytest.raises(AssertionError, match=r"never ran|ran again|instead of"):
        for seed in range(40):
            simulate(Sidecars, seed=seed)
