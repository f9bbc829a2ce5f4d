"""The tools that simulations rest on."""

import asyncio

import pytest

from kube.errors import UnavailableError
from kube.resources import CONFIG_MAPS
from sidecars.wire.events import Event
from tests.simulation.network import IN_TRANSIT, Wire
from tests.simulation.virtual_time import EndlessError, NothingCanHappenError, VirtualLoop, run
from tests.simulation.world import Process, World
from tiphys.errors import SurroundingsError


def event(number: int) -> Event:
    return Event(type="t", target="application", resource_id="r", event_id=str(number))


def test_hours_pass_at_once() -> None:
    async def program() -> float:
        await asyncio.sleep(36_000)
        return asyncio.get_running_loop().time()

    assert run(program()) == pytest.approx(36_000)


def test_who_waits_for_nothing_is_told() -> None:
    async def program() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(NothingCanHappenError):
        run(program())


def test_who_never_ends_is_told() -> None:
    async def program() -> None:
        for _ in range(10_000):
            await asyncio.sleep(0)

    loop = VirtualLoop(steps=1000)
    task = loop.create_task(program())
    with pytest.raises(EndlessError):
        loop.run_until_complete(task)
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    loop.close()


def test_an_error_that_nobody_fetched_fails_the_run() -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError

    async def program() -> None:
        asyncio.create_task(fails())  # noqa: RUF006 - that is the point
        await asyncio.sleep(1)

    with pytest.raises(AssertionError, match="never retrieved"):
        run(program())


def test_in_fine_weather_all_arrives_in_order_and_a_slow_reader_holds_up_the_writer() -> None:
    async def program() -> None:
        world = World(1)
        served: list[Wire] = []

        async def accept(wire: Wire) -> None:
            served.append(wire)
            await asyncio.sleep(1000)

        world.network.listen("hub", accept)
        wire = await world.network.connect("spoke", "hub")
        sending = asyncio.create_task(wire.send_many(event(number) for number in range(200)))
        await asyncio.sleep(10)
        assert not sending.done()
        arrived = [(await served[0].receive()) for _ in range(IN_TRANSIT)]
        await asyncio.sleep(10)
        arrived += [(await served[0].receive()) for _ in range(200 - IN_TRANSIT)]
        assert [each.event_id for each in arrived if each] == [str(number) for number in range(200)]
        await sending

    run(program())


def test_a_partition_is_noticed_by_each_end_in_its_time() -> None:
    async def program() -> None:
        world = World(1)
        moments: list[float] = []

        async def accept(wire: Wire) -> None:
            try:
                await wire.receive()
            finally:
                moments.append(world.loop.time())

        world.network.listen("hub", accept)
        wire = await world.network.connect("spoke", "hub")
        world.network.part("hub", "spoke")
        with pytest.raises(SurroundingsError, match="spoke cannot reach hub"):
            await world.network.connect("spoke", "hub")
        with pytest.raises(SurroundingsError, match="spoke lost hub"):
            await wire.receive()
        await asyncio.sleep(30)
        assert moments
        assert moments[0] != world.loop.time()

    run(program())


def test_a_killed_process_loses_its_memory_its_connections_and_its_api_server() -> None:
    async def program() -> None:
        world = World(1)
        outcomes: list[str] = []

        async def life(process: Process) -> None:
            store = process.store("hub")
            outcomes.append("born")
            try:
                await asyncio.sleep(1000)
            finally:
                try:
                    await store.create(CONFIG_MAPS, {"metadata": {"name": "last-words"}}, namespace="default")
                except UnavailableError:
                    outcomes.append("silent")

        world.start("hub", life)
        await asyncio.sleep(1)
        await world.kill("hub")
        world.start("hub")
        await asyncio.sleep(1)
        assert outcomes == ["born", "silent", "born"]
        await world.stop()
        assert not world.deaths()

    run(program())
