"""An agent that is away for longer than its queue has room: nothing is lost, and nothing is sent in vain."""

import asyncio
from contextlib import AsyncExitStack
from functools import partial

import pytest

from argocd.agents.vocabulary import Mode
from kube.embedded import EmbeddedStore
from kube.resources import APP_PROJECTS, APPLICATIONS
from kube.store import Object
from sidecars.delivery.outbox import OutboxLimits
from sidecars.delivery.timing import Budget
from sidecars.metrics.links import OVERFLOWS
from sidecars.mirroring.link import Runtime
from tests.sidecars.pair_in_memory import (
    ARGOCD,
    OURS,
    PATIENCE,
    PLAIN,
    Hub,
    Pair,
    application,
    change,
    connected,
    describe,
    described,
    project,
    running_agent,
    until,
)

AGENT = "agent-a"
SMALL = Runtime(outbox=OutboxLimits(bytes=20_000, reserve_bytes=4_000))
# Full as soon as anything waits for two agents; each may hold one event and a little more.
SCARCE = Runtime(budget=Budget(limit=4_000, share=4_000))
SYNC = {"sync": {"revision": "main"}}


def contains(name: str, there: dict[str, Object]) -> bool:
    return name in there


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
            await principal.hub_state.projects.reached(last["metadata"]["resourceVersion"])
            await principal.hub_state.applications.reached(operated["metadata"]["resourceVersion"])
        assert overflows() > before
        async with pair.agent_alone() as agent, pair.connection(principal, agent):
            there = await until(
                pair.workload,
                APP_PROJECTS,
                lambda there: set(there) == set(names) and described(names[-1], "the last")(there),
            )
            assert len(there) == len(names)
            await until(pair.workload, APPLICATIONS, lambda there: there["shop"].get("operation") == SYNC)


@pytest.mark.parametrize("extensions", [OURS, PLAIN], ids=["ours", "plain"])
async def test_agents_that_are_away_do_not_fill_the_memory_nor_hold_up_the_one_that_is_there(
    extensions: frozenset[str],
) -> None:
    hub = Hub(EmbeddedStore(namespaces=[ARGOCD]))
    names = [f"project-{number:03}" for number in range(40)]
    away = {name: EmbeddedStore(namespaces=[ARGOCD]) for name in ("agent-a", "agent-b", "agent-c")}
    here = EmbeddedStore(namespaces=[ARGOCD])
    async with hub.running(SCARCE) as principal, AsyncExitStack() as stack:
        for name, store in away.items():
            async with (
                running_agent(store, mode=Mode.MANAGED) as agent,
                connected(principal, agent, name=name, extensions=extensions),
            ):
                await hub.store.create(APP_PROJECTS, project(f"for-{name}"), namespace=ARGOCD)
                await until(store, APP_PROJECTS, partial(contains, f"for-{name}"))
        agent = await stack.enter_async_context(running_agent(here, mode=Mode.MANAGED))
        await stack.enter_async_context(connected(principal, agent, name="agent-d", extensions=extensions))
        before = overflows()
        for name in names:
            await hub.store.create(APP_PROJECTS, project(name), namespace=ARGOCD)
        await until(here, APP_PROJECTS, lambda there: set(names) <= set(there))
        assert overflows() > before
        waiting = {agent.name: agent.link.outbox.figures().bytes for agent in principal.known_agents}
        assert max(waiting.values()) <= 2 * 4_000
        for name, store in away.items():
            agent = await stack.enter_async_context(running_agent(store, mode=Mode.MANAGED))
            await stack.enter_async_context(connected(principal, agent, name=name, extensions=extensions))
            await until(store, APP_PROJECTS, lambda there: set(names) <= set(there))
