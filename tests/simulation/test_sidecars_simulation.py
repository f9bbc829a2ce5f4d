"""Principal and agents, both modes, with users, meddlers and controllers, under storms."""

import os

import pytest

from tests.simulation.cramped_sidecars import CrampedEnds, CrampedPlain, CrampedSidecars
from tests.simulation.sidecars import Sidecars
from tests.simulation.simulation import simulate
from tiphys import metrics

SEEDS = int(os.environ.get("TIPHYS_SEEDS", "300"))
BATCH = 10
OVERFLOWED = "tiphys_sidecars_overflows_total"


def simulate_several(seeds: range) -> None:
    for seed in seeds:
        simulate(Sidecars, seed=seed)


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_both_ends_agree_after_every_storm_and_each_operation_ran_once(first: int) -> None:
    simulate_several(range(first, first + BATCH))


@pytest.mark.parametrize("scenario", [CrampedSidecars, CrampedEnds, CrampedPlain])
@pytest.mark.parametrize("first", range(0, max(40, SEEDS // 10), BATCH))
def test_both_ends_agree_after_every_storm_although_nothing_fits_into_the_queues(
    first: int, scenario: type[Sidecars]
) -> None:
    before = metrics.REGISTRY.get_sample_value(OVERFLOWED) or 0.0
    for seed in range(first, first + BATCH):
        simulate(scenario, seed=seed)
    assert (metrics.REGISTRY.get_sample_value(OVERFLOWED) or 0.0) > before


def test_a_seed_with_sidecars_replays_exactly() -> None:
    first, second = (simulate(Sidecars, seed=3) for _ in range(2))
    assert first.lines == second.lines


def test_without_guards_and_comparisons_meddling_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sidecars.delivery.comparison.Comparer.start", lambda *_: None)
    monkeypatch.setattr("sidecars.mirroring.drift.DriftGuard.changed", lambda *_: None)
    with pytest.raises(AssertionError, match="instead of"):
        simulate_several(range(5))


def test_without_knowing_what_the_agent_has_had_operations_are_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sidecars.principal.operations.Operations.is_pending", lambda *_args, **_named: False)
    with pytest.raises(AssertionError, match=r"never ran|ran again|instead of"):
        simulate_several(range(80, 140))
