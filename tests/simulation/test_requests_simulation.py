"""Requests for live objects under storms: each change runs once at most, and every caller gets an answer."""

import os
from typing import Any

import pytest

from sidecars.delivery.interactive import InteractiveLane
from sidecars.wire.events import Event
from tests.simulation.live_requests import LiveRequests, PlainRequests
from tests.simulation.simulation import simulate

SEEDS = int(os.environ.get("TIPHYS_SEEDS", "300")) // 15
BATCH = 5


@pytest.mark.parametrize("scenario", [LiveRequests, PlainRequests])
@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_every_caller_gets_an_answer_and_no_change_runs_twice(
    first: int, scenario: type[LiveRequests]
) -> None:
    answered = 0
    for seed in range(first, first + BATCH):
        answered += simulate(scenario, seed=seed).counts["requests: answered"]
    assert answered > 0


def simulate_several(scenario: type[LiveRequests], seeds: range) -> None:
    for seed in seeds:
        simulate(scenario, seed=seed)


@pytest.mark.parametrize("scenario", [LiveRequests, PlainRequests])
def test_were_changes_sent_again_some_would_run_twice(
    monkeypatch: pytest.MonkeyPatch, scenario: type[LiveRequests]
) -> None:
    """What sending them once is for: an agent that restarts has forgotten what it ran, argocd-agent's never knew."""
    add = InteractiveLane.add

    def add_again(lane: InteractiveLane, event: Event, **how: Any) -> bool:
        return add(lane, event, **{**how, "once": False})

    monkeypatch.setattr(InteractiveLane, "add", add_again)
    with pytest.raises(AssertionError, match=r"a change (ran|was sent) [2-9] times"):
        simulate_several(scenario, range(40))
