"""Projects of the control plane and their copies on a managed agent's cluster."""

import pytest

from argocd import names
from argocd.agents.routing import AgentMapping
from kube.resources import APP_PROJECTS
from tests.sidecars.pair_in_memory import (
    ARGOCD,
    OURS,
    PLAIN,
    Pair,
    change,
    describe,
    described,
    project,
    until,
)

PEERS = pytest.mark.parametrize("extensions", [OURS, PLAIN], ids=["ours", "plain"])


@PEERS
async def test_a_project_appears_changes_and_vanishes_at_the_agent(extensions: frozenset[str]) -> None:
    pair = Pair(extensions=extensions)
    async with pair.together():
        await pair.hub.know("agent-a")
        hub = await pair.hub.store.create(APP_PROJECTS, project(), namespace=ARGOCD)
        copy = (await until(pair.workload, APP_PROJECTS, lambda there: "web" in there))["web"]
        assert copy["spec"] == {
            "destinations": [
                {"name": "in-cluster", "server": "https://kubernetes.default.svc", "namespace": "*"}
            ],
            "sourceRepos": ["*"],
        }
        assert copy["metadata"]["annotations"][names.SOURCE_UID] == hub["metadata"]["uid"]
        await describe(pair.hub.store, "web", "new")
        await until(pair.workload, APP_PROJECTS, described("web", "new"))
        await pair.hub.store.delete(APP_PROJECTS, name="web", namespace=ARGOCD)
        await until(pair.workload, APP_PROJECTS, lambda there: not there)


async def test_destination_mapping_keeps_the_source_namespaces() -> None:
    by_destination = {"mapped_by": AgentMapping.DESTINATION}
    pair = Pair(hub=by_destination, agent=by_destination)
    async with pair.together():
        await pair.hub.store.create(APP_PROJECTS, project(), namespace=ARGOCD)
        copy = (await until(pair.workload, APP_PROJECTS, lambda there: "web" in there))["web"]
        assert copy["spec"]["sourceNamespaces"] == ["agent-*"]


async def test_what_somebody_changes_or_deletes_at_the_agent_comes_back() -> None:
    pair = Pair()
    async with pair.together():
        await pair.hub.store.create(APP_PROJECTS, project(description="ours"), namespace=ARGOCD)
        await until(pair.workload, APP_PROJECTS, described("web", "ours"))
        changed = await describe(pair.workload, "web", "theirs")
        await until(
            pair.workload,
            APP_PROJECTS,
            lambda there: (
                described("web", "ours")(there)
                and there["web"]["metadata"]["resourceVersion"] != changed["metadata"]["resourceVersion"]
            ),
        )
        uid = changed["metadata"]["uid"]
        await pair.workload.delete(APP_PROJECTS, name="web", namespace=ARGOCD)
        await until(
            pair.workload,
            APP_PROJECTS,
            lambda there: "web" in there and there["web"]["metadata"]["uid"] != uid,
        )


async def test_the_pre_installed_default_project_is_adopted() -> None:
    pair = Pair()
    await pair.workload.create(APP_PROJECTS, project("default"), namespace=ARGOCD)
    await pair.hub.store.create(APP_PROJECTS, project("default"), namespace=ARGOCD)
    async with pair.together():
        await describe(pair.hub.store, "default", "from the hub")
        await until(pair.workload, APP_PROJECTS, described("default", "from the hub"))


async def test_a_project_that_no_longer_matches_is_withdrawn_and_comes_back() -> None:
    pair = Pair()
    async with pair.together():
        await pair.hub.store.create(APP_PROJECTS, project(), namespace=ARGOCD)
        await until(pair.workload, APP_PROJECTS, lambda there: "web" in there)
        await change(pair.hub.store, APP_PROJECTS, "web", spec=project(agents="other-*")["spec"])
        await until(pair.workload, APP_PROJECTS, lambda there: not there)
        await change(pair.hub.store, APP_PROJECTS, "web", spec=project()["spec"])
        await until(pair.workload, APP_PROJECTS, lambda there: "web" in there)


async def test_the_label_that_keeps_a_project_out_withdraws_it_and_its_removal_brings_it_back() -> None:
    pair = Pair()
    async with pair.together():
        await pair.hub.store.create(APP_PROJECTS, project(), namespace=ARGOCD)
        await until(pair.workload, APP_PROJECTS, lambda there: "web" in there)
        await change(pair.hub.store, APP_PROJECTS, "web", metadata={"labels": {names.IGNORE_SYNC: "true"}})
        await until(pair.workload, APP_PROJECTS, lambda there: not there)
        await change(pair.hub.store, APP_PROJECTS, "web", metadata={"labels": {}})
        await until(pair.workload, APP_PROJECTS, lambda there: "web" in there)


@PEERS
async def test_what_happened_while_the_agent_was_down_is_made_up_for(extensions: frozenset[str]) -> None:
    pair = Pair(extensions=extensions)
    for name in ("stays", "goes"):
        await pair.hub.store.create(APP_PROJECTS, project(name), namespace=ARGOCD)
    async with pair.principal_alone() as principal:
        async with pair.agent_alone() as agent, pair.connection(principal, agent):
            await until(pair.workload, APP_PROJECTS, lambda there: set(there) == {"stays", "goes"})
        await pair.hub.store.delete(APP_PROJECTS, name="goes", namespace=ARGOCD)
        await pair.hub.store.create(APP_PROJECTS, project("comes"), namespace=ARGOCD)
        await describe(pair.hub.store, "stays", "changed")
        async with pair.agent_alone() as agent, pair.connection(principal, agent):
            await until(
                pair.workload,
                APP_PROJECTS,
                lambda there: set(there) == {"stays", "comes"} and described("stays", "changed")(there),
            )


@PEERS
async def test_what_happened_while_the_principal_was_down_is_made_up_for(extensions: frozenset[str]) -> None:
    pair = Pair(extensions=extensions)
    for name in ("stays", "goes"):
        await pair.hub.store.create(APP_PROJECTS, project(name), namespace=ARGOCD)
    async with pair.agent_alone() as agent:
        async with pair.principal_alone() as principal, pair.connection(principal, agent):
            await until(pair.workload, APP_PROJECTS, lambda there: set(there) == {"stays", "goes"})
        await pair.hub.store.delete(APP_PROJECTS, name="goes", namespace=ARGOCD)
        await pair.hub.store.create(APP_PROJECTS, project("comes"), namespace=ARGOCD)
        await describe(pair.hub.store, "stays", "changed")
        async with pair.principal_alone() as principal, pair.connection(principal, agent):
            await until(
                pair.workload,
                APP_PROJECTS,
                lambda there: set(there) == {"stays", "comes"} and described("stays", "changed")(there),
            )


async def test_a_project_recreated_with_another_uid_is_recreated_at_the_agent() -> None:
    pair = Pair()
    async with pair.together():
        await pair.hub.store.create(APP_PROJECTS, project(), namespace=ARGOCD)
        first = (await until(pair.workload, APP_PROJECTS, lambda there: "web" in there))["web"]
        await pair.hub.store.delete(APP_PROJECTS, name="web", namespace=ARGOCD)
        await pair.hub.store.create(APP_PROJECTS, project(), namespace=ARGOCD)
        await until(
            pair.workload,
            APP_PROJECTS,
            lambda there: "web" in there and there["web"]["metadata"]["uid"] != first["metadata"]["uid"],
        )
