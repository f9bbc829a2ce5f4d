"""Two ends that do not compare and have the same: their rounds are questions and nothing else."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from argocd.agents.routing import AgentMapping
from argocd.agents.vocabulary import Mode
from kube.embedded import EmbeddedStore
from kube.resources import APP_PROJECTS, APPLICATIONS
from tests.sidecars.pair_in_memory import ARGOCD, PLAIN, Pair, Pipe, application, connected, project
from tests.sidecars.recorded_script import said
from tests.sidecars.test_plain_rounds import AGENT, INTERVAL, ROUND, with_everything
from tests.sidecars.virtual_clock import runtime
from tests.simulation.virtual_time import run


@asynccontextmanager
async def settled(pair: Pair) -> AsyncIterator[tuple[Pipe, Pipe]]:
    """The principal's end and the agent's, with what they sent since they have had the same for a while."""
    async with (
        pair.principal_alone() as principal,
        pair.agent_alone() as agent,
        connected(principal, agent, extensions=PLAIN) as (here, there),
    ):
        await asyncio.sleep(INTERVAL)
        here.sent.clear()
        there.sent.clear()
        yield here, there


@pytest.mark.parametrize("mapped_by", list(AgentMapping))
def test_a_managed_pair_in_agreement_exchanges_questions_and_no_specs(mapped_by: AgentMapping) -> None:
    """Also where an Application lives in another namespace at the agent."""

    async def program() -> None:
        pair = Pair(
            hub={"mapped_by": mapped_by},
            agent={"mapped_by": mapped_by, "allowed_namespaces": ("team-*",)},
            hub_store=EmbeddedStore(namespaces=[ARGOCD, AGENT, "team-1"]),
            workload=EmbeddedStore(namespaces=["argocd-agent", "team-1"]),
            agent_namespace="argocd-agent",
            runtime=runtime(),
        )
        if mapped_by is AgentMapping.DESTINATION:
            pair.hub.settings = replace(pair.hub.settings, allowed_namespaces=("team-*",))
            await pair.hub.store.create(APPLICATIONS, application("own"), namespace=ARGOCD)
            await pair.hub.store.create(APPLICATIONS, application("team"), namespace="team-1")
        await with_everything(pair.hub)
        async with settled(pair) as (here, there):
            await asyncio.sleep(4 * ROUND)
            said_here = Counter(said(event).message for event in here.sent if not event.is_acknowledgement)
            said_there = Counter(said(event).message for event in there.sent if not event.is_acknowledgement)
        assert said_here["request-resource-resync"] >= 3
        assert not {"create", "spec-update", "delete"} & set(said_here)
        assert said_there["request-update"] >= 9
        assert set(said_there) <= {"request-update", "request-synced-resource-list", "status-update"}

    run(program())


def test_an_autonomous_pair_in_agreement_exchanges_questions_and_no_specs_but_silent_ones() -> None:
    async def program() -> None:
        pair = Pair(mode=Mode.AUTONOMOUS, runtime=runtime())
        await pair.hub.know(AGENT)
        await pair.workload.create(APP_PROJECTS, project(), namespace=ARGOCD)
        await pair.workload.create(APPLICATIONS, application(), namespace=ARGOCD)
        async with settled(pair) as (here, there):
            mirror = await pair.hub.store.get(APPLICATIONS, name="shop", namespace=AGENT)
            await asyncio.sleep(4 * ROUND)
            assert {said(event).target for event in here.sent if not event.is_acknowledgement} == {
                "resourceResync"
            }
            told = {said(event).key for event in there.sent if event.target == "application"}
            assert {word[0] for word in told} <= {"create", "spec-update"}
            assert not [event for event in there.sent if event.target == "appproject"]
            # Told again or not: what is the same is not written.
            assert await pair.hub.store.get(APPLICATIONS, name="shop", namespace=AGENT) == mirror

    run(program())
