"""argocd-server's Redis under storms: every question is answered in its place, by whom it was put to, within its time;
whoever follows hears, and nothing is kept of those who have left.
"""

import os

import pytest

from sidecars.proxies.redis.agent_subscriptions import AgentSubscriptions
from sidecars.proxies.redis.caches import AgentRedisCaches
from sidecars.proxies.requests import Requests
from sidecars.wire.events import Event
from tests.simulation.redis_callers import PlainRedisCallers, RedisCallers
from tests.simulation.simulation import simulate

SEEDS = int(os.environ.get("TIPHYS_SEEDS", "300")) // 50


@pytest.mark.parametrize("scenario", [RedisCallers, PlainRedisCallers])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_whoever_asks_is_answered_and_whoever_follows_is_told(
    seed: int, scenario: type[RedisCallers]
) -> None:
    counts = simulate(scenario, seed=seed).counts
    assert min(counts["Redis: answered"], counts["Redis: messages"], counts["Redis: connection lost"]) > 0


def test_were_subscriptions_not_made_anew_some_would_hear_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AgentRedisCaches, "_rejoin", lambda *_: None)
    with pytest.raises(AssertionError, match="was not told"):
        simulate_until_it_fails()


def test_were_the_silent_not_forgotten_subscriptions_would_stay_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def remember(_: AgentSubscriptions) -> None:
        """And look at nobody's pings."""

    monkeypatch.setattr(AgentSubscriptions, "_forget_the_silent", remember)
    with pytest.raises(AssertionError, match=r"subscriptions at .* are kept"):
        simulate_until_it_fails()


def test_were_there_no_deadline_somebody_would_wait_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = Requests.ask

    async def patiently(requests: Requests, agent: str, event: Event, *, seconds: float) -> Event:
        return await ask(requests, agent, event, seconds=seconds * 3)

    monkeypatch.setattr(Requests, "ask", patiently)
    with pytest.raises(AssertionError, match=r"waited \d+ s"):
        simulate_until_it_fails()


def simulate_until_it_fails() -> None:
    for seed in range(20):
        simulate(PlainRedisCallers, seed=seed)
