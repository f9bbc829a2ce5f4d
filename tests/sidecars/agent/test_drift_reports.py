"""What a managed agent undoes again and again its principal hears of: what, how often, where; never a value."""

import asyncio
from datetime import timedelta
from functools import partial
from typing import Any

import orjson
import pytest

from argocd.agents.routing import AgentMapping
from argocd.agents.vocabulary import Mode
from kube.resources import APP_PROJECTS, APPLICATIONS
from sidecars.agent.drift_reports import PAUSE
from sidecars.mirroring import repeated_drift
from sidecars.wire import capabilities
from sidecars.wire.events import message_event
from tests.sidecars.pair_in_memory import (
    ARGOCD,
    OURS,
    Pair,
    application,
    change,
    connected,
    describe,
    described,
    project,
    until,
)
from tests.sidecars.scripted_ends import AGENT, acknowledged, scripted
from tests.sidecars.virtual_clock import runtime
from tests.simulation import virtual_time

SECRET = "hunter2"


async def undone(pair: Pair, times: int) -> None:
    for number in range(times):
        await describe(pair.workload, "web", f"{SECRET} {number}")
        await until(pair.workload, APP_PROJECTS, described("web", "as told"))


async def given(pair: Pair) -> None:
    await pair.hub.store.create(APP_PROJECTS, project("web", description="as told"), namespace=ARGOCD)
    await until(pair.workload, APP_PROJECTS, lambda there: "web" in there)


def test_the_third_time_is_told_then_at_most_twice_a_minute_and_quiet_ends_it() -> None:
    async def story() -> None:
        pair = Pair(runtime=runtime())
        await pair.hub.know(AGENT)
        async with (
            pair.principal_alone() as principal,
            pair.agent_alone() as agent,
            connected(principal, agent) as (_, pipe),
        ):

            def reports() -> list[Any]:
                return [
                    orjson.loads(each.payload) for each in pipe.sent if each.target == repeated_drift.TARGET
                ]

            await given(pair)
            await undone(pair, 2)
            assert reports() == []
            await undone(pair, 20)
            await agent.link.outbox.settled()
            assert reports() == [
                {
                    "target": "appproject",
                    "namespace": ARGOCD,
                    "name": "web",
                    "times": 3,
                    "seconds": 0,
                    "deleted": False,
                    "fields": ["spec.description"],
                }
            ]
            await asyncio.sleep(PAUSE.total_seconds())
            await undone(pair, 1)
            await agent.link.outbox.settled()
            assert [(each["times"], each["seconds"]) for each in reports()] == [(3, 0), (23, 30)]
            (found,) = principal.record.stuck.of(AGENT)
            assert found.reason.value == "drift at the agent"
            assert (found.kind, found.place) == ("AppProject", f"{ARGOCD}/web")
            assert "changed on the agent's cluster and put back 23 times" in found.words
            assert found.words.endswith("UTC: spec.description.")
            assert principal.record.last_errors == {}
            assert SECRET not in str(reports()) + str(list(principal.record.stuck))
            await asyncio.sleep((repeated_drift.WITHIN + timedelta(seconds=1)).total_seconds())
            principal.record.calm()
            assert principal.record.stuck.of(AGENT) == []

    virtual_time.run(story())


async def test_who_has_not_announced_it_is_told_nothing() -> None:
    pair = Pair(extensions=OURS - {capabilities.DRIFT})
    await pair.hub.know(AGENT)
    async with (
        pair.principal_alone() as principal,
        pair.agent_alone() as agent,
        connected(principal, agent, extensions=OURS - {capabilities.DRIFT}) as (_, pipe),
    ):
        await given(pair)
        await undone(pair, 5)
        await agent.link.outbox.settled()
        assert all(event.target != repeated_drift.TARGET for event in pipe.sent)
        assert principal.record.stuck.of(AGENT) == []


@pytest.mark.parametrize("mapped_by", list(AgentMapping))
async def test_an_application_is_named_as_the_hub_knows_it_and_a_new_status_does_not_end_its_drift(
    mapped_by: AgentMapping,
) -> None:
    by_destination = mapped_by is AgentMapping.DESTINATION
    there = ARGOCD if by_destination else AGENT
    pair = Pair(
        hub={"mapped_by": mapped_by},
        agent={"mapped_by": mapped_by, "namespace": "gitops"},
        agent_namespace="gitops",
    )
    await pair.hub.know(AGENT)
    async with pair.together() as (principal, agent):
        await pair.hub.store.create(APPLICATIONS, application(), namespace=there)
        copies = await until(pair.workload, APPLICATIONS, lambda there: "shop" in there, namespace="gitops")
        meant = copies["shop"]["spec"]
        for number in range(3):
            source = {**meant["source"], "targetRevision": f"{SECRET}-{number}"}
            await change(
                pair.workload,
                APPLICATIONS,
                "shop",
                namespace="gitops",
                spec={**meant, "source": source},
                status={"health": {"status": f"Healthy-{number}"}},
            )
            await until(
                pair.workload, APPLICATIONS, lambda there: there["shop"]["spec"] == meant, namespace="gitops"
            )
        await until(
            pair.hub.store,
            APPLICATIONS,
            lambda there: there["shop"].get("status") == {"health": {"status": "Healthy-2"}},
            namespace=there,
        )
        await agent.link.outbox.settled()
        (found,) = principal.record.stuck.of(AGENT)
        assert found.place == f"{there}/shop"
        assert found.words.endswith("UTC: spec.source.targetRevision.")
        await pair.hub.store.delete(APPLICATIONS, name="shop", namespace=there)
        await until(pair.workload, APPLICATIONS, lambda there: not there, namespace="gitops")
        await next(iter(principal.known_agents)).link.outbox.settled()
        assert principal.record.stuck.of(AGENT) == []


async def test_a_copy_that_somebody_deletes_again_and_again_is_told_as_such() -> None:
    pair = Pair()
    await pair.hub.know(AGENT)
    async with pair.together() as (principal, agent):
        await given(pair)
        for _ in range(3):
            before = await pair.workload.get(APP_PROJECTS, name="web", namespace=ARGOCD)
            await pair.workload.delete(APP_PROJECTS, name="web", namespace=ARGOCD)
            await until(pair.workload, APP_PROJECTS, partial(_is_another, before["metadata"]["uid"]))
        await agent.link.outbox.settled()
        (found,) = principal.record.stuck.of(AGENT)
        assert "deleted on the agent's cluster and put back 3 times" in found.words


def _is_another(uid: str, there: dict[str, Any]) -> bool:
    return "web" in there and there["web"]["metadata"]["uid"] != uid


def report(**fields: Any) -> Any:
    told = {"target": "appproject", "namespace": ARGOCD, "name": "web", "times": 3, "fields": [], **fields}
    return message_event(
        repeated_drift.TYPE,
        target=repeated_drift.TARGET,
        payload=orjson.dumps(told),
        new_id=lambda: str(told),
    )


@pytest.mark.parametrize(
    ("mode", "fields"),
    [
        (Mode.AUTONOMOUS, {}),
        (Mode.MANAGED, {"name": "another-agents"}),
        (Mode.MANAGED, {"target": "application", "name": "no-such"}),
        (Mode.MANAGED, {"target": "unheard-of"}),
    ],
    ids=["autonomous", "not-its-own", "not-there", "no-such-kind"],
)
async def test_an_agent_speaks_of_what_it_has_from_the_hub_only(mode: Mode, fields: dict[str, Any]) -> None:
    async with scripted(mode) as (hub, pipe):
        await hub.store.create(APP_PROJECTS, project("web"), namespace=ARGOCD)
        other = project("another-agents", agents="other-*")
        await hub.store.create(APP_PROJECTS, other, namespace=ARGOCD)
        await acknowledged(pipe, report(**fields))
        assert hub.principal is not None
        assert hub.principal.record.stuck.of(AGENT) == []


@pytest.mark.parametrize("number", [-(2**63), 2**63 - 1])
async def test_no_number_is_too_large_to_be_shown(number: int) -> None:
    async with scripted(Mode.MANAGED) as (hub, pipe):
        await hub.store.create(APP_PROJECTS, project("web"), namespace=ARGOCD)
        await acknowledged(pipe, report(times=number, seconds=number))
        assert hub.principal is not None
        (found,) = hub.principal.record.stuck.of(AGENT)
        assert len(found.words) < 120
