"""Requests for live objects under storms: each change runs once at most, and every caller gets an answer."""

import os

import pytest

from sidecars.mirroring.link import Link
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


def simulate_several(seeds: range) -> None:
    for seed in seeds:
        simulate(LiveRequests, seed=seed)


def test_were_changes_sent_again_some_would_run_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """What sending them once is for: an agent that restarts has forgotten what it ran."""
    post = Link.post
    monkeypatch.setattr(Link, "post", lambda link, event, **how: post(link, event, **{**how, "once": False}))
    with pytest.raises(AssertionError, match="a change ran 2 times"):
        simulate_several(range(40))
