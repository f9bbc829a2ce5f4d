"""Projects of an autonomous agent and their mirrors on the control plane."""

import pytest

from argocd.agents.vocabulary import Mode
from kube.resources import APP_PROJECTS, EVENTS
from tests.sidecars.pair_in_memory import ARGOCD, OURS, PLAIN, Pair, describe, described, project, until

PEERS = pytest.mark.parametrize("extensions", [OURS, PLAIN], ids=["ours", "plain"])
MIRROR = "agent-a-sample"


async def test_a_project_is_mirrored_under_its_prefixed_name() -> None:
    pair = Pair(mode=Mode.AUTONOMOUS)
    async with pair.together():
        sample = project("sample", agents="production", roles=[{"name": "r", "policies": []}])
        await pair.workload.create(APP_PROJECTS, sample, namespace=ARGOCD)
        mirror = (await until(pair.hub.store, APP_PROJECTS, lambda there: MIRROR in there))[MIRROR]
        assert mirror["spec"]["sourceNamespaces"] == ["agent-a"]
        assert mirror["spec"]["destinations"] == [{"name": "agent-a", "server": "*", "namespace": "*"}]
        await describe(pair.workload, "sample", "new")
        await until(pair.hub.store, APP_PROJECTS, described(MIRROR, "new"))
        await pair.workload.delete(APP_PROJECTS, name="sample", namespace=ARGOCD)
        await until(pair.hub.store, APP_PROJECTS, lambda there: not there)


async def test_roles_arrive_with_rewritten_lines() -> None:
    pair = Pair(mode=Mode.AUTONOMOUS)
    line = "p, proj:sample:r, applications, get, sample/*, allow"
    async with pair.together():
        sample = project("sample", roles=[{"name": "r", "policies": [line]}])
        await pair.workload.create(APP_PROJECTS, sample, namespace=ARGOCD)
        mirror = (await until(pair.hub.store, APP_PROJECTS, lambda there: MIRROR in there))[MIRROR]
        assert mirror["spec"]["roles"][0]["policies"] == [
            "p, proj:agent-a-sample:r, applications, get, agent-a-sample/agent-a/*, allow"
        ]


async def test_a_mirror_that_somebody_changes_or_deletes_comes_back() -> None:
    pair = Pair(mode=Mode.AUTONOMOUS)
    async with pair.together():
        await pair.workload.create(APP_PROJECTS, project("sample", description="agent's"), namespace=ARGOCD)
        await until(pair.hub.store, APP_PROJECTS, described(MIRROR, "agent's"))
        changed = await describe(pair.hub.store, MIRROR, "hub's")
        await until(
            pair.hub.store,
            APP_PROJECTS,
            lambda there: (
                described(MIRROR, "agent's")(there)
                and there[MIRROR]["metadata"]["resourceVersion"] != changed["metadata"]["resourceVersion"]
            ),
        )
        await pair.hub.store.delete(APP_PROJECTS, name=MIRROR, namespace=ARGOCD)
        await until(
            pair.hub.store,
            APP_PROJECTS,
            lambda there: MIRROR in there and there[MIRROR]["metadata"]["uid"] != changed["metadata"]["uid"],
        )


async def test_the_agents_default_leaves_the_hubs_default_alone() -> None:
    pair = Pair(mode=Mode.AUTONOMOUS)
    await pair.hub.store.create(APP_PROJECTS, project("default", description="hub's"), namespace=ARGOCD)
    async with pair.together():
        await pair.workload.create(APP_PROJECTS, project("default", description="its"), namespace=ARGOCD)
        there = await until(pair.hub.store, APP_PROJECTS, described("agent-a-default", "its"))
        assert there["default"]["spec"]["description"] == "hub's"


async def test_a_name_that_is_taken_on_the_hub_is_not_overwritten() -> None:
    pair = Pair(mode=Mode.AUTONOMOUS)
    native = await pair.hub.store.create(APP_PROJECTS, project(MIRROR), namespace=ARGOCD)
    async with pair.together():
        await pair.workload.create(APP_PROJECTS, project("sample"), namespace=ARGOCD)
        await pair.workload.create(APP_PROJECTS, project("other"), namespace=ARGOCD)
        there = await until(pair.hub.store, APP_PROJECTS, lambda there: "agent-a-other" in there)
        assert there[MIRROR] == native
        events = await until(pair.hub.store, EVENTS, lambda there: there)
        (event,) = events.values()
        assert event["involvedObject"]["name"] == MIRROR
        assert "rename one of the two" in event["message"]


@PEERS
@pytest.mark.parametrize("away", ["principal", "agent"])
async def test_changes_on_either_side_while_one_was_down(extensions: frozenset[str], away: str) -> None:
    pair = Pair(mode=Mode.AUTONOMOUS, extensions=extensions)
    for name in ("kept", "meddled", "changed", "gone", "lost"):
        await pair.workload.create(APP_PROJECTS, project(name, description="agent's"), namespace=ARGOCD)
    all_there = {f"agent-a-{name}" for name in ("kept", "meddled", "changed", "gone", "lost")}

    async def meddle() -> None:
        await describe(pair.hub.store, "agent-a-meddled", "hub's")
        await describe(pair.workload, "changed", "new")
        await pair.workload.delete(APP_PROJECTS, name="gone", namespace=ARGOCD)
        await pair.hub.store.delete(APP_PROJECTS, name="agent-a-lost", namespace=ARGOCD)

    async def repaired() -> None:
        await until(
            pair.hub.store,
            APP_PROJECTS,
            lambda there: (
                set(there) == all_there - {"agent-a-gone"}
                and described("agent-a-meddled", "agent's")(there)
                and described("agent-a-changed", "new")(there)
                and described("agent-a-lost", "agent's")(there)
            ),
        )

    if away == "principal":
        async with pair.agent_alone() as agent:
            async with pair.principal_alone() as principal, pair.connection(principal, agent):
                await until(pair.hub.store, APP_PROJECTS, lambda there: set(there) == all_there)
            await meddle()
            async with pair.principal_alone() as principal, pair.connection(principal, agent):
                await repaired()
    else:
        async with pair.principal_alone() as principal:
            async with pair.agent_alone() as agent, pair.connection(principal, agent):
                await until(pair.hub.store, APP_PROJECTS, lambda there: set(there) == all_there)
            await meddle()
            async with pair.agent_alone() as agent, pair.connection(principal, agent):
                await repaired()
