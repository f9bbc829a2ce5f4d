"""An Application comes to an agent after the project and the repositories that it needs."""

import asyncio
from typing import Any

import pytest

from argocd import names
from argocd.agents.vocabulary import Target
from kube.embedded import EmbeddedStore
from kube.resources import APP_PROJECTS, APPLICATIONS, SECRETS
from kube.store import Object, Resource
from tests.sidecars.pair_in_memory import ARGOCD, OURS, PLAIN, Pair, application, pipes, project, until
from tests.sidecars.principal.test_repositories import repository

SHOPS = 20
TURNS = 200  # of the loop: a stream of memory needs a few
PEERS = pytest.mark.parametrize("extensions", [OURS, PLAIN], ids=["ours", "plain"])


def needing(name: str = "shop", *, of: str = "web") -> dict[str, object]:
    thing = application(name)
    return {**thing, "spec": {**thing["spec"], "project": of}}


class SlowProjects(EmbeddedStore):
    """Where a project takes much longer to be written than an Application."""

    def __init__(self) -> None:
        super().__init__(namespaces=[ARGOCD])
        self.written: list[str] = []

    async def create(self, resource: Resource, body: Object, **how: Any) -> Object:
        if resource is not APPLICATIONS:
            for _ in range(TURNS):
                await asyncio.sleep(0)
        stored = await super().create(resource, body, **how)
        self.written.append(stored["metadata"]["name"])
        return stored


async def created(pair: Pair) -> None:
    await pair.hub.store.create(SECRETS, repository(), namespace=ARGOCD)
    await pair.hub.store.create(APP_PROJECTS, project(), namespace=ARGOCD)
    for number in range(SHOPS):
        await pair.hub.store.create(APPLICATIONS, needing(f"shop-{number}"), namespace=pair.name)


@PEERS
@pytest.mark.parametrize("when", ["before the agent comes", "while it is there"])
async def test_projects_and_repositories_are_written_first(extensions: frozenset[str], when: str) -> None:
    workload = SlowProjects()
    pair = Pair(extensions=extensions, workload=workload)
    if when == "before the agent comes":
        await created(pair)
    async with pair.together():
        if when == "while it is there":
            await created(pair)
        await until(workload, APPLICATIONS, lambda there: len(there) == SHOPS)
    assert sorted(workload.written[:2]) == ["repo", "web"]


@PEERS
async def test_an_application_whose_project_comes_later_is_looked_at_again(
    extensions: frozenset[str],
) -> None:
    pair = Pair(extensions=extensions)
    async with pair.together():
        await pair.hub.store.create(APPLICATIONS, needing(), namespace=pair.name)
        await pair.hub.store.create(APPLICATIONS, needing("other", of="elsewhere"), namespace=pair.name)
        await until(pair.workload, APPLICATIONS, lambda there: {"shop", "other"} <= set(there))
        await pair.hub.store.create(APP_PROJECTS, project(), namespace=ARGOCD)
        there = await until(
            pair.workload,
            APPLICATIONS,
            lambda there: names.REFRESH in there["shop"]["metadata"].get("annotations", {}),
        )
        assert names.REFRESH not in there["other"]["metadata"].get("annotations", {})
        assert [item["metadata"]["name"] for item in (await pair.workload.list(APP_PROJECTS)).items] == [
            "web"
        ]


async def test_an_agent_that_says_nothing_of_a_project_still_gets_its_applications() -> None:
    """Whoever holds the other end of the stream: a project must not keep Applications away for ever."""
    pair = Pair(extensions=PLAIN)
    async with pair.principal_alone() as principal:
        here, there = pipes()
        serving = asyncio.ensure_future(principal.serve(pair.name, pair.mode, here, extensions=PLAIN))
        try:
            await pair.hub.store.create(APP_PROJECTS, project(), namespace=ARGOCD)
            await pair.hub.store.create(APPLICATIONS, needing(), namespace=pair.name)
            told: list[str] = []
            async with asyncio.timeout(30):
                while Target.APPLICATION not in told:
                    event = await there.receive()
                    assert event is not None
                    told.append(event.target)
        finally:
            here.close()
            await asyncio.gather(serving, return_exceptions=True)
    assert told.index(Target.PROJECT) < told.index(Target.APPLICATION)
