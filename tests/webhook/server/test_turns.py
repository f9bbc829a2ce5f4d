"""Whose review is next: one costly review at most is before an API server's."""

import asyncio
import itertools

import pytest

from webhook.server.fairness import LONG_SECONDS, Turns, WorkClock


class Bench:
    """Work that costs what it is told to, and in which order it was done."""

    def __init__(self) -> None:
        self.turns = Turns(clock=lambda: 0.0)
        self.order: list[str] = []

    async def work(self, address: str, cost: float, *, size: int = 1000, collected: float = 0.0) -> None:
        sent = self.turns.sent(address, size)
        given = self.turns.must_wait(sent) and await self.turns.wait(sent)
        self.order.append(address)
        self.turns.worked(sent, cost, given=given, collected=collected)

    async def come_back(self, address: str, cost: float) -> None:
        """Again and again, until cancelled."""
        while True:
            await self.work(address, cost)
            await asyncio.sleep(0)


@pytest.fixture
async def bench() -> Bench:
    bench = Bench()
    await bench.work("api-server", 0.001)
    bench.order.clear()
    return bench


async def all_done(bench: Bench, *works: asyncio.Task[None]) -> list[str]:
    async with asyncio.timeout(30):
        await asyncio.gather(*works)
    return bench.order


async def test_a_costly_crowd_lets_the_cheap_go_before_all_but_one(bench: Bench) -> None:
    crowd = [asyncio.create_task(bench.work(f"stranger-{number}", 0.03)) for number in range(8)]
    await asyncio.sleep(0)
    assert len(bench.order) == 1
    late = asyncio.create_task(bench.work("api-server", 0.001))
    order = await all_done(bench, late, *crowd)
    assert order.index("api-server") == 1
    assert len(order) == 9


async def test_a_known_crowd_that_takes_hundredths_of_a_second_each_goes_one_at_a_time(bench: Bench) -> None:
    names = [f"stranger-{number}" for number in range(8)]
    await all_done(bench, *(asyncio.create_task(bench.work(name, 0.012)) for name in names))
    async with asyncio.timeout(30):
        while bench.turns.must_wait(bench.turns.sent(names[0], 1000)):  # noqa: ASYNC110 - nobody tells when it has rested
            await asyncio.sleep(0)
    bench.order.clear()
    crowd = [asyncio.create_task(bench.work(name, 0.012)) for name in names]
    await asyncio.sleep(0)
    late = asyncio.create_task(bench.work("api-server", 0.001))
    assert (await all_done(bench, late, *crowd)).index("api-server") == 1


async def test_who_has_used_the_lane_less_goes_first_and_newcomers_in_turns_with_them(bench: Bench) -> None:
    """Neither is kept back: not an API server that has just started, nor one whose reviews are known to be costly."""
    for address, cost in (("dear", 0.06), ("less", 0.03)):
        await bench.work(address, cost)
        await asyncio.sleep(0.1)
    bench.order.clear()
    addresses = ("blocking", "first", "second", "third", "dear", "less")
    crowd = [asyncio.create_task(bench.work(address, 0.02)) for address in addresses]
    assert await all_done(bench, *crowd) == ["blocking", "first", "less", "second", "dear", "third"]


async def test_who_comes_back_again_and_again_shares_the_lane_evenly_with_who_comes_now_and_then(
    bench: Bench,
) -> None:
    """Not the cheapest first: strangers with cheaper ones would always be before a large project."""
    await bench.work("api-server", 0.1)
    strangers = [asyncio.create_task(bench.come_back(f"stranger-{number}", 0.021)) for number in range(4)]
    async with asyncio.timeout(30):
        for _ in range(2):
            await bench.work("api-server", 0.1)
    for stranger in strangers:
        stranger.cancel()
    await asyncio.gather(*strangers, return_exceptions=True)
    assert bench.order.count("api-server") == 3
    assert bench.order.count("stranger-0") <= 3 * 0.1 / 0.021 + 1


async def test_a_large_review_that_was_costly_holds_up_no_small_one_of_its_address(bench: Bench) -> None:
    await bench.work("api-server", 0.3, size=500_000)
    strangers = [asyncio.create_task(bench.come_back(f"stranger-{number}", 0.021)) for number in range(4)]
    await bench.work("somebody", 0.021)  # by then they wait
    begin = len(bench.order)
    for _ in range(5):
        await bench.work("api-server", 0.001)
    assert bench.order[begin:].index("api-server") <= 1
    assert len(bench.order) <= begin + 6
    for stranger in strangers:
        stranger.cancel()
    await asyncio.gather(*strangers, return_exceptions=True)


async def test_the_costly_lane_rests_for_twice_as_long_as_it_has_worked(bench: Bench) -> None:
    loop = asyncio.get_running_loop()
    begin = loop.time()
    crowd = [asyncio.create_task(bench.work(f"stranger-{number}", 0.1)) for number in range(4)]
    await asyncio.sleep(0.01)
    assert not bench.turns.must_wait(bench.turns.sent("api-server", 1000))
    await all_done(bench, *crowd)
    assert loop.time() - begin >= 3 * 2 * 0.1


async def test_whose_small_review_met_a_look_for_garbage_does_not_count_as_costly(bench: Bench) -> None:
    await bench.work("api-server", 0.016, collected=0.015)
    await asyncio.sleep(0.1)
    bench.order.clear()
    crowd = [asyncio.create_task(bench.work(f"stranger-{number}", 0.03)) for number in range(8)]
    await asyncio.sleep(0)
    late = asyncio.create_task(bench.work("api-server", 0.001))
    assert (await all_done(bench, late, *crowd)).index("api-server") == 1


async def test_an_api_server_does_not_rest_for_its_own_costly_reviews(bench: Bench) -> None:
    """Its many small ones come from the same address, and nobody else wants the lane."""
    await bench.work("alone", 100.0)
    await all_done(bench, *(asyncio.create_task(bench.work("alone", 100.0)) for _ in range(4)))
    assert bench.order == ["alone"] * 5


async def test_the_cheap_wait_for_nobody_where_nobody_works_long(bench: Bench) -> None:
    for _ in range(100):
        assert not bench.turns.must_wait(bench.turns.sent("api-server", 1000))
        await bench.work("api-server", 0.001)
        await asyncio.sleep(0)


async def known_as_cheap(bench: Bench, *addresses: str) -> None:
    for address in addresses:
        await bench.work(address, 0.009)
        async with asyncio.timeout(30):
            while bench.turns.must_wait(bench.turns.sent(address, 1000)):  # noqa: ASYNC110 - as above
                await asyncio.sleep(0)
    bench.order.clear()


async def test_a_crowd_of_cheap_ones_lets_the_loop_look_who_else_has_come(bench: Bench) -> None:
    """All at once five hundred of nine milliseconds would be taken for a hanging worker."""
    names = [f"stranger-{number}" for number in range(4)]
    await known_as_cheap(bench, *names)
    crowd = [asyncio.create_task(bench.work(name, 0.009)) for name in names * 125]
    await asyncio.sleep(0)
    assert len(bench.order) == 1
    late = asyncio.create_task(bench.work("api-server", 0.001))
    order = await all_done(bench, late, *crowd)
    assert order.index("api-server") <= len(names)
    assert len(order) == 501


async def test_the_addresses_of_a_crowd_take_turns(bench: Bench) -> None:
    await known_as_cheap(bench, "many", "few")
    crowd = [asyncio.create_task(bench.work(name, 0.009)) for name in ["many"] * 100 + ["few"] * 10]
    order = await all_done(bench, *crowd)
    assert order[:22].count("few") == 10


async def test_the_costly_go_on_beside_a_crowd_that_never_ends(bench: Bench) -> None:
    names = [f"stranger-{number}" for number in range(4)]
    await known_as_cheap(bench, *names)
    await bench.work("api-server", 0.01, size=500_000)
    crowd = [asyncio.create_task(bench.come_back(name, 0.009)) for name in names * 20]
    costly = [asyncio.create_task(bench.work("api-server", 0.01, size=500_000)) for _ in range(3)]
    await all_done(bench, *costly)
    for one in crowd:
        one.cancel()
    await asyncio.gather(*crowd, return_exceptions=True)


async def test_who_gives_up_while_waiting_holds_nobody_back(bench: Bench) -> None:
    for steps in itertools.chain(range(16), (4**power for power in itertools.count(2))):
        crowd = [asyncio.create_task(bench.work(f"stranger-{number}", 0.006)) for number in range(4)]
        for _ in range(steps):
            await asyncio.sleep(0)
        crowd[1].cancel()
        async with asyncio.timeout(30):
            await asyncio.gather(*crowd, return_exceptions=True)
        async with asyncio.timeout(30):
            await bench.work("somebody", 0.1)
        if not crowd[1].cancelled():
            break
    assert steps > 3


async def test_addresses_are_forgotten_again(bench: Bench) -> None:
    for number in range(5000):
        await bench.work(f"{number}", 0.0)
    assert len(bench.turns._costs) <= 1024
    for number in range(2000):
        bench.turns._use(bench.turns._used, f"{number}", 1.0)
    assert len(bench.turns._used) <= 1024


class Machine:
    """A wall clock and a processor's, and how often that was asked."""

    def __init__(self) -> None:
        self.wall = self.used = 0.0
        self.asked = 0
        self.clock = WorkClock(wall=lambda: self.wall, processor=self._processor)

    def _processor(self) -> float:
        self.asked += 1
        return self.used

    def measured(self, seconds: float, *, others: float = 0.0, garbage: float = 0.0) -> float:
        """Work of so many seconds, while other programs have the processor for some, and Python looks for garbage."""
        begin = self.clock.begin()
        self.wall += seconds + others
        self.used += seconds
        if garbage:
            self.clock.collector("start", {})
            self.wall += garbage
            self.used += garbage
            self.clock.collector("stop", {})
        return self.clock.since(begin)


def test_what_other_programs_took_of_a_long_work_is_not_charged() -> None:
    machine = Machine()
    machine.measured(0.001)
    assert 0.05 <= machine.measured(0.05, others=0.2) <= 0.05 + LONG_SECONDS


def test_what_python_takes_to_look_for_garbage_is_known_of_the_last_work_alone() -> None:
    machine = Machine()
    machine.measured(0.001, garbage=0.2)
    machine.measured(0.001, garbage=0.015)
    assert machine.clock.collected == pytest.approx(0.015)
    machine.measured(0.001)
    assert machine.clock.collected == 0


def test_long_work_is_never_charged_too_little_nor_more_than_the_wall_clock_says() -> None:
    machine = Machine()
    for _ in range(7):
        machine.measured(0.0007)
    assert machine.measured(0.03) == pytest.approx(0.03)


def test_the_processor_is_not_asked_for_each_short_work() -> None:
    machine = Machine()
    for _ in range(100):
        machine.measured(0.0001)
    assert machine.asked <= 100 * 0.0001 / LONG_SECONDS + 1
