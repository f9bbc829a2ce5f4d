"""An agent that is away for longer than its queue has room: nothing is lost, and nothing is sent in vain."""

import asyncio

import pytest

from kube.resources import APP_PROJECTS, APPLICATIONS
from sidecars.delivery.outbox import OutboxLimits
from sidecars.linking import OVERFLOWS, Surroundings
from tests.sidecars.couples import (
    ARGOCD,
    OURS,
    PATIENCE,
    PLAIN,
    Pair,
    application,
    change,
    describe,
    described,
    project,
    until,
)

AGENT = "agent-a"
SMALL = Surroundings(outbox=OutboxLimits(bytes=20_000, reserve_bytes=4_000))
SYNC = {"sync": {"revision": "main"}}


def overflows() -> float:
    (metric,) = OVERFLOWS.collect()
    return next(sample.value for sample in metric.samples if sample.name.endswith("_total"))


@pytest.mark.parametrize("extensions", [OURS, PLAIN], ids=["ours", "plain"])
async def test_what_found_no_room_arrives_when_the_agent_is_back(extensions: frozenset[str]) -> None:
    pair = Pair(extensions=extensions)
    names = [f"project-{number:03}" for number in range(60)]
    async with pair.hub.running(SMALL) as principal:
        async with pair.agent_alone() as agent, pair.connection(principal, agent):
            await pair.hub.store.create(APP_PROJECTS, project("first"), namespace=ARGOCD)
            await pair.hub.store.create(APPLICATIONS, application(), namespace=AGENT)
            await until(pair.workload, APP_PROJECTS, lambda there: "first" in there)
            await until(pair.workload, APPLICATIONS, lambda there: "shop" in there)
        before = overflows()
        for name in names:
            await pair.hub.store.create(APP_PROJECTS, project(name), namespace=ARGOCD)
        await pair.hub.store.delete(APP_PROJECTS, name="first", namespace=ARGOCD)
        last = await describe(pair.hub.store, names[-1], "the last")
        operated = await change(pair.hub.store, APPLICATIONS, "shop", namespace=AGENT, operation=SYNC)
        async with asyncio.timeout(PATIENCE):
            await principal.knowledge.projects.reached(last["metadata"]["resourceVersion"])
            await principal.knowledge.applications.reached(operated["metadata"]["resourceVersion"])
        assert overflows() > before
        async with pair.agent_alone() as agent, pair.connection(principal, agent):
            there = await until(
                pair.workload,
                APP_PROJECTS,
                lambda there: set(there) == set(names) and described(names[-1], "the last")(there),
            )
            assert len(there) == len(names)
            await until(pair.workload, APPLICATIONS, lambda there: there["shop"].get("operation") == SYNC)
