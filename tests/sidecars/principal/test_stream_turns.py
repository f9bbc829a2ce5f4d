"""Two processes under one name: each gets its turn, instead of both ending each other ten times a second."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from argocd.agents.vocabulary import Mode
from kube.embedded import EmbeddedStore
from sidecars.delivery.session import Ending
from sidecars.principal.principal import Principal
from sidecars.principal.stream_turns import LASTING_SECONDS, SUPERSEDED
from tests.sidecars.pair_in_memory import OURS, Hub, pipes
from tests.sidecars.virtual_clock import runtime
from tests.simulation.virtual_time import run

PAUSE = 0.1
"""argocd-agent's."""


@asynccontextmanager
async def principal() -> AsyncIterator[Principal]:
    hub = Hub(EmbeddedStore(namespaces=["argocd", "twin"]), allowed_namespaces=("twin",))
    await hub.know("twin")
    async with hub.running(runtime()) as running:
        yield running


async def insist(running: Principal, endings: list[Ending]) -> None:
    """An agent that comes back as soon as its stream ends."""
    while True:
        here, _ = pipes()
        endings.append(await running.serve("twin", Mode.MANAGED, here, extensions=OURS))
        await asyncio.sleep(PAUSE)


def count() -> float:
    return float(SUPERSEDED.labels("twin")._value.get())


def test_two_agents_of_one_name_take_turns_that_grow() -> None:
    async def program() -> list[Ending]:
        endings: list[Ending] = []
        async with principal() as running:
            twins = [asyncio.ensure_future(insist(running, endings)) for _ in range(2)]
            await asyncio.sleep(600)
            for twin in twins:
                twin.cancel()
            await asyncio.gather(*twins, return_exceptions=True)
        return endings

    before = count()
    with structlog.testing.capture_logs() as lines:
        endings = run(program())
    assert set(endings) == {Ending.SUPERSEDED}
    assert 10 <= len(endings) <= 10 + 600 / LASTING_SECONDS
    assert count() - before >= len(endings)
    assert len([line for line in lines if line["event"] == "two agents seem to run under one name"]) == 1


def test_an_agent_that_restarts_takes_over_at_once() -> None:
    async def program() -> list[float]:
        loop = asyncio.get_running_loop()
        took = []
        async with principal() as running:
            stream: asyncio.Future[Ending] | None = None
            for _ in range(3):
                here, _ = pipes()
                began, earlier = loop.time(), stream
                stream = asyncio.ensure_future(running.serve("twin", Mode.MANAGED, here, extensions=OURS))
                if earlier is not None:
                    assert await earlier is Ending.SUPERSEDED
                took.append(loop.time() - began)
                await asyncio.sleep(2 * LASTING_SECONDS)
            assert stream is not None
            stream.cancel()
        return took

    assert max(run(program())) < 1


def test_who_waits_for_a_turn_gets_it_when_the_other_one_leaves() -> None:
    async def program() -> bool:
        async with principal() as running:
            streams = []
            for _ in range(3):
                here, there = pipes()
                serving = asyncio.ensure_future(running.serve("twin", Mode.MANAGED, here, extensions=OURS))
                streams.append((there, serving))
                await asyncio.sleep(PAUSE)
            (_, first), (second, _), (_, third) = streams
            assert first.done()
            second.close()
            await asyncio.sleep(PAUSE)
            agent = running.known_agents.get("twin")
            served = agent is not None and agent.link.connected
            third.cancel()
            return served

    assert run(program())
