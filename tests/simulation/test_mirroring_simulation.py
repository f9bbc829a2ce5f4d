"""Caches, API servers in trouble, delivery and comparison together."""

import os

import pytest

from tests.simulation.mirrored_projects import Mirroring
from tests.simulation.simulation import SimulationError, simulate

SEEDS = int(os.environ.get("TIPHYS_SEEDS", "300")) // 5
BATCH = 10


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_a_spoke_mirrors_its_hub_after_every_storm(first: int) -> None:
    _simulate(range(first, first + BATCH))


def test_a_seed_with_api_servers_replays_exactly() -> None:
    first, second = (simulate(Mirroring, seed=7) for _ in range(2))
    assert first.lines == second.lines


def test_without_comparison_meddling_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sidecars.delivery.comparison.Comparer.start", lambda *_: None)
    with pytest.raises(SimulationError, match="instead of"):
        _simulate(range(10))


def _simulate(seeds: range) -> None:
    for seed in seeds:
        simulate(Mirroring, seed=seed)
