"""Whoever listens learns what changed since he looked, and nothing twice."""

import asyncio

import pytest

from sidecars.principal.fleet_page.record import FleetNews


def test_only_what_changed_since_is_told_newest_first() -> None:
    news = FleetNews("here")
    news.agent_changed("a")
    news.agent_changed("b")
    seen = news.number
    news.agent_changed("c")
    news.agent_changed("a")
    news.part_changed("stuck")
    assert news.agents_since(seen) == ["a", "c"]
    assert news.parts_since(seen) == ["stuck"]
    assert news.agents_since(news.number) == []


@pytest.mark.parametrize(
    "stamp", ["", "there-1", "here-", "here-x", "here--1", "here-99", "here-²", "here-" + "9" * 99]
)
def test_a_stamp_of_another_process_or_of_nobody_is_none(stamp: str) -> None:
    news = FleetNews("here")
    news.agent_changed("a")
    assert news.number_of(stamp) is None
    assert news.number_of(news.stamp) == 1


async def test_listeners_wake_at_a_change_and_not_before() -> None:
    news = FleetNews("here")
    waiting = [asyncio.ensure_future(news.changed(0)) for _ in range(3)]
    await asyncio.sleep(0)
    assert not any(each.done() for each in waiting)
    news.part_changed("summary")
    async with asyncio.timeout(30):
        await asyncio.gather(*waiting)
        await news.changed(0)
