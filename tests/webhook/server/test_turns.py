"""Whose review is next: one costly review at most is before an API server's."""

import asyncio
import itertools

import pytest

from webhook.server.fairness import Turns


class Bench:
    """Work that costs what it is told to, and in which order it was done."""

    def __init__(self) -> None:
        self.turns = Turns(clock=lambda: 0.0)
        self.order: list[str] = []

    async def work(self, address: str, cost: float) -> None:
        given = self.turns.must_wait(address) and await self.turns.wait(address)
        self.order.append(address)
        self.turns.worked(address, cost, given=given)


@pytest.fixture
async def bench() -> Bench:
    bench = Bench()
    await bench.work("api-server", 0.001)
    bench.order.clear()
    return bench


async def all_done(bench: Bench, *works: asyncio.Task[None]) -> list[str]:
    async with asyncio.timeout(5):
        await asyncio.gather(*works)
    return bench.order


async def test_a_costly_crowd_lets_the_cheap_go_before_all_but_one(bench: Bench) -> None:
    crowd = [asyncio.create_task(bench.work(f"stranger-{number}", 1.0)) for number in range(8)]
    await asyncio.sleep(0)
    assert len(bench.order) == 1
    late = asyncio.create_task(bench.work("api-server", 0.001))
    order = await all_done(bench, late, *crowd)
    assert order.index("api-server") == 1
    assert len(order) == 9


async def test_who_cost_less_goes_first_and_a_newcomer_last(bench: Bench) -> None:
    for address, cost in (("dear", 2.0), ("less", 0.5)):
        await bench.work(address, cost)
        await asyncio.sleep(0.01)
    bench.order.clear()
    crowd = [
        asyncio.create_task(bench.work(address, 1.0)) for address in ("blocking", "newcomer", "dear", "less")
    ]
    assert await all_done(bench, *crowd) == ["blocking", "less", "dear", "newcomer"]


async def test_the_cheap_wait_for_nobody_where_nobody_works_long(bench: Bench) -> None:
    for _ in range(100):
        assert not bench.turns.must_wait("api-server")
        await bench.work("api-server", 0.001)


async def test_who_gives_up_while_waiting_holds_nobody_back(bench: Bench) -> None:
    for steps in itertools.count():
        crowd = [asyncio.create_task(bench.work(f"stranger-{number}", 1.0)) for number in range(4)]
        for _ in range(steps):
            await asyncio.sleep(0)
        crowd[1].cancel()
        async with asyncio.timeout(5):
            await asyncio.gather(*crowd, return_exceptions=True)
        async with asyncio.timeout(5):
            await bench.work("somebody", 0.1)
        if not crowd[1].cancelled():
            break
    assert steps > 3


async def test_addresses_are_forgotten_again(bench: Bench) -> None:
    for number in range(5000):
        await bench.work(f"{number}", 0.0)
    assert len(bench.turns._costs) <= 1024
