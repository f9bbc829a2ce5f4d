"""What an agent does after a while, or not too often: by a virtual clock."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from argocd import names
from argocd.agents.own_annotations import OPERATION_DONE
from argocd.agents.vocabulary import Message
from kube.resources import APPLICATIONS
from kube.store import Object
from sidecars.agent.settings import OnRecreate
from sidecars.wire.events import Event
from tests.sidecars.pair_in_memory import ARGOCD, Pair, Pipe, application, change, connected, until
from tests.sidecars.virtual_clock import runtime
from tests.simulation.virtual_time import run

AGENT = "agent-a"


@asynccontextmanager
async def joined(**settings: Any) -> AsyncIterator[tuple[Pair, Pipe]]:
    """A pair with one Application, and the agent's end of the stream."""
    pair = Pair(agent=settings, runtime=runtime())
    async with (
        pair.principal_alone() as principal,
        pair.agent_alone() as agent,
        connected(principal, agent) as (_, there),
    ):
        await pair.hub.store.create(APPLICATIONS, application(), namespace=AGENT)
        await until(pair.workload, APPLICATIONS, lambda found: "shop" in found)
        await asyncio.sleep(1)  # the comparison at the beginning of the stream is over
        there.sent.clear()
        yield pair, there


def told(pipe: Pipe, kind: Message) -> list[Event]:
    return [event for event in pipe.sent if event.type == kind]


async def degrade(pair: Pair, number: int) -> None:
    await change(pair.workload, APPLICATIONS, "shop", status={"health": {"message": str(number)}})


async def hub_status(pair: Pair) -> Any:
    there = await pair.hub.store.get(APPLICATIONS, name="shop", namespace=AGENT)
    return (there.get("status") or {}).get("health", {}).get("message")


def test_a_status_is_told_once_in_an_interval_and_the_last_one_counts() -> None:
    async def program() -> None:
        async with joined(status_seconds=10.0) as (pair, pipe):
            for number in range(100):
                await degrade(pair, number)
                await asyncio.sleep(0.5)
            assert 5 <= len(told(pipe, Message.STATUS_UPDATE)) <= 6
            await asyncio.sleep(11)
            assert await hub_status(pair) == "99"
            before = len(told(pipe, Message.STATUS_UPDATE))
            await asyncio.sleep(100)
            assert len(told(pipe, Message.STATUS_UPDATE)) == before

    run(program())


def test_without_an_interval_every_status_is_told_at_once() -> None:
    async def program() -> None:
        async with joined() as (pair, pipe):
            for number in range(20):
                await degrade(pair, number)
                await asyncio.sleep(0.5)
                assert await hub_status(pair) == str(number)
            assert len(told(pipe, Message.STATUS_UPDATE)) == 20

    run(program())


def test_a_throttled_status_of_an_application_that_went_meanwhile_is_not_told() -> None:
    async def program() -> None:
        async with joined(status_seconds=10.0) as (pair, pipe):
            await degrade(pair, 1)
            await asyncio.sleep(1)
            await pair.hub.store.delete(APPLICATIONS, name="shop", namespace=AGENT)
            await asyncio.sleep(60)
            assert told(pipe, Message.STATUS_UPDATE) == []

    run(program())


def test_a_heart_beats_while_there_is_a_stream() -> None:
    async def program() -> None:
        pair = Pair(agent={"heartbeat_seconds": 5.0}, runtime=runtime())
        async with pair.principal_alone() as principal, pair.agent_alone() as agent:
            await asyncio.sleep(60)  # nobody to hear it: none is kept for later
            async with connected(principal, agent) as (here, there):
                await asyncio.sleep(61)
                assert 11 <= len(told(there, Message.PING)) <= 13
                # As argocd-agent's principal does: a heartbeat is acknowledged too.
                assert len(told(here, Message.PROCESSED)) >= 11
        async with Pair(runtime=runtime()).together() as (_, agent):
            await asyncio.sleep(3600)
            assert agent.link.outbox.figures().sent < 100

    run(program())


STATUS: Object = {"operationState": {"phase": "Succeeded"}, "history": [{"id": 0}]}
CLEARED: Object = {"history": [{"id": 0}]}


@pytest.mark.parametrize(
    ("action", "status", "operation"),
    [
        (OnRecreate.IGNORE, STATUS, None),
        (OnRecreate.CLEAR_STATUS, CLEARED, None),
        (OnRecreate.RESYNC, CLEARED, {"sync": {}}),
    ],
)
def test_an_application_that_somebody_deleted_comes_back_as_the_flag_says(
    action: OnRecreate, status: Object, operation: Object | None
) -> None:
    async def program() -> Object:
        async with joined(on_recreate=action) as (pair, _):
            copy = await pair.workload.get(APPLICATIONS, name="shop", namespace=ARGOCD)
            annotations = {**copy["metadata"]["annotations"], OPERATION_DONE: "done"}
            await change(
                pair.workload, APPLICATIONS, "shop", status=STATUS, metadata={"annotations": annotations}
            )
            await pair.workload.delete(APPLICATIONS, name="shop", namespace=ARGOCD)
            uid = copy["metadata"]["uid"]
            found = await until(
                pair.workload,
                APPLICATIONS,
                lambda there: "shop" in there and there["shop"]["metadata"]["uid"] != uid,
            )
            return found["shop"]

    found = run(program())
    assert found["status"] == status
    assert found.get("operation") == operation
    assert found["metadata"]["annotations"][OPERATION_DONE] == "done"


def test_what_takes_another_ones_place_comes_as_soon_as_that_is_gone() -> None:
    """Hooks after a deletion may take minutes: their end is seen, not waited for by guesses that grow."""

    async def program() -> float:
        loop = asyncio.get_running_loop()
        async with joined() as (pair, _):
            stuck = await change(
                pair.workload, APPLICATIONS, "shop", metadata={"finalizers": [names.POST_DELETE_FINALIZER]}
            )
            await pair.hub.store.delete(APPLICATIONS, name="shop", namespace=AGENT)
            await pair.hub.store.create(APPLICATIONS, application(), namespace=AGENT)
            await asyncio.sleep(200)
            there = await pair.workload.get(APPLICATIONS, name="shop", namespace=ARGOCD)
            assert there["metadata"]["uid"] == stuck["metadata"]["uid"]
            began = loop.time()
            await change(pair.workload, APPLICATIONS, "shop", metadata={"finalizers": []})
            await until(
                pair.workload,
                APPLICATIONS,
                lambda found: (
                    "shop" in found and found["shop"]["metadata"]["uid"] != stuck["metadata"]["uid"]
                ),
            )
            return loop.time() - began

    assert run(program()) < 0.1
