"""The same storms with peers that announce nothing, forget some of what they were told and never ask again."""

import os

import pytest

from tests.simulation.plain_sidecars import PlainSidecars
from tests.simulation.simulation import simulate

SEEDS = int(os.environ.get("TIPHYS_SEEDS", "100"))
BATCH = 10


def simulate_several(seeds: range) -> None:
    for seed in seeds:
        simulate(PlainSidecars, seed=seed)


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_one_end_alone_brings_both_to_agree_after_every_storm(first: int) -> None:
    simulate_several(range(first, first + BATCH))


def test_a_seed_with_plain_peers_replays_exactly() -> None:
    first, second = (simulate(PlainSidecars, seed=3) for _ in range(2))
    assert first.lines == second.lines


def test_without_asking_again_what_was_forgotten_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sidecars.principal.resync.PrincipalResync.ask_now_and_then", lambda *_: None)
    monkeypatch.setattr("sidecars.agent.resync.AgentResync._questions", lambda *_: ())
    with pytest.raises(AssertionError, match="instead of"):
        simulate_several(range(10))


def test_without_asking_how_it_stands_an_operation_stays_on_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sidecars.principal.resync.PrincipalResync.ask_how_it_stands", lambda *_: None)
    with pytest.raises(AssertionError, match="instead of"):
        simulate_several(range(5, 30))
