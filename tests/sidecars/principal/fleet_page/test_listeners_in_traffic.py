"""A thousand agents whose objects travel all the time, and as many listeners as there may be."""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import orjson
import pytest

from argocd.agents.vocabulary import Message, Target
from scripts.pictures.sample_fleet import SampleFleet, sample_fleet
from sidecars.principal.fleet_page import page as fleet_page
from sidecars.principal.fleet_page.page import LISTENERS, MOST_ROWS, FleetPage
from sidecars.wire.events import Event
from tests.processor_time import slowness
from tiphys.http_server import HttpPage, ServerSentEvents

AGENTS = 1000
PATIENCE = 120.0
THREAD = 0.5
"""Of the principal's only thread, for all listeners: agents have the rest."""


@asynccontextmanager
async def crowded(agents: int = AGENTS) -> AsyncIterator[tuple[SampleFleet, FleetPage]]:
    async with sample_fleet(agents, applications=1) as fleet:
        yield fleet, FleetPage(fleet.store, lambda: fleet.principal, waits=lambda: "")


def everybody_acknowledges(fleet: SampleFleet) -> None:
    record = fleet.principal.record
    for agent in fleet.streams:
        told = Event(
            type=Message.SPEC_UPDATE,
            target=Target.APPLICATION,
            resource_id="r",
            event_id="e",
            subject=f"{agent}/web",
        )
        record.acknowledged(agent, told, 0.1)


async def listen(page: FleetPage, fleet: SampleFleet) -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
    """Names of events with what they tell."""
    answer = await page.routes["/events"]({"since": fleet.principal.record.news.stamp})
    assert isinstance(answer, ServerSentEvents)
    async for event in answer.events:
        name, data = event.decode().strip().split("\n")
        yield name.removeprefix("event: "), orjson.loads(data.removeprefix("data: "))


async def test_traffic_of_all_agents_reloads_no_page_and_leaves_nobody_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fleet_page, "PAUSE_SECONDS", 0.0)
    async with crowded() as (fleet, page), asyncio.timeout(PATIENCE):
        told: set[str] = set()
        events = 0
        async with aclosing(listen(page, fleet)) as listening:
            await anext(listening)
            while len(told) < AGENTS:
                everybody_acknowledges(fleet)  # in the same order each time
                name, event = await anext(listening)
                assert name == "fleet"
                assert len(event["rows"]) <= MOST_ROWS
                told |= event["rows"].keys()
                events += 1
    assert events == AGENTS / MOST_ROWS


async def test_whoever_comes_back_is_told_what_was_still_to_be_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_page, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(fleet_page, "MOST_ROWS", 2)
    async with crowded(5) as (fleet, page), asyncio.timeout(PATIENCE):
        async with aclosing(listen(page, fleet)) as listening:
            _, first = await anext(listening)
            everybody_acknowledges(fleet)
            _, some = await anext(listening)
            assert some["stamp"] == first["stamp"]
            await anext(listening)
            _, last = await anext(listening)
        assert len(last["rows"]) == 1
        assert last["stamp"] == fleet.principal.record.news.stamp


async def test_many_listeners_in_traffic_leave_the_thread_to_the_agents(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with crowded() as (fleet, page), asyncio.timeout(PATIENCE):
        reloads = 0

        async def browser() -> None:
            nonlocal reloads
            async with aclosing(listen(page, fleet)) as listening:
                async for name, _ in listening:
                    reloads += name == "reload"

        browsers = [asyncio.ensure_future(browser()) for _ in range(LISTENERS)]
        await page.routes["/"]({})  # every row has been drawn once
        began, used = time.monotonic(), time.process_time()
        traffic = 0.0
        while (passed := time.monotonic() - began) < 5.0:
            before = time.process_time()
            everybody_acknowledges(fleet)
            traffic += time.process_time() - before
            await asyncio.sleep(0.25)  # the load itself: four thousand acknowledgements a second
        share = (time.process_time() - used - traffic) / passed / slowness()
        for each in browsers:
            each.cancel()
        await asyncio.gather(*browsers, return_exceptions=True)
    with capsys.disabled():
        sys.stdout.write(
            f"\n{LISTENERS} listeners of {AGENTS} agents in traffic: {100 * share:.0f} % of a thread\n"
        )
    assert reloads == 0
    assert share < THREAD


async def test_a_page_is_drawn_once_for_all_who_ask_a_moment_later_and_then_anew() -> None:
    async with crowded(300) as (fleet, page), asyncio.timeout(PATIENCE):

        async def stamp(**query: str) -> str:
            answer = await page.routes["/"](query)
            assert isinstance(answer, HttpPage)
            return answer.body.decode().partition('data-stamp="')[2].partition('"')[0]

        first = await stamp()
        everybody_acknowledges(fleet)
        newest = fleet.principal.record.news.stamp
        assert await asyncio.gather(*(stamp() for _ in range(LISTENERS))) == [first] * LISTENERS
        assert await stamp(sort="queue") == newest
        while await stamp() == first:  # noqa: ASYNC110 - by the passing of time, within PATIENCE
            await asyncio.sleep(0.01)
