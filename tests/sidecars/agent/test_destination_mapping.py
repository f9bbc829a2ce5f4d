"""Applications that go to the agent that their destination names, whatever namespace they live in."""

from typing import Any

from argocd import names
from argocd.agents.routing import AgentMapping
from argocd.agents.vocabulary import Mode
from kube.embedded import EmbeddedStore
from kube.resources import APPLICATIONS
from tests.sidecars.pair_in_memory import Hub, Pair, application, change, connected, running_agent, until

BY_DESTINATION: dict[str, Any] = {"mapped_by": AgentMapping.DESTINATION}


def mapped(**agent: Any) -> Pair:
    return Pair(
        hub={**BY_DESTINATION, "allowed_namespaces": ("team-*",)},
        agent={**BY_DESTINATION, **agent},
        hub_store=EmbeddedStore(namespaces=["argocd", "team-1"]),
        agent_namespace="argocd-agent",
    )


async def test_one_of_the_principals_own_namespace_goes_to_the_agents_and_its_status_comes_back() -> None:
    pair = mapped()
    async with pair.together():
        await pair.hub.store.create(APPLICATIONS, application(), namespace="argocd")
        there = await until(
            pair.workload, APPLICATIONS, lambda there: "shop" in there, namespace="argocd-agent"
        )
        assert there["shop"]["metadata"]["annotations"][names.NAMESPACE_REMAPPED] == "true"
        await change(
            pair.workload,
            APPLICATIONS,
            "shop",
            namespace="argocd-agent",
            status={"sync": {"status": "Synced"}},
        )
        await until(
            pair.hub.store, APPLICATIONS, lambda there: there["shop"].get("status"), namespace="argocd"
        )


async def test_another_namespace_is_made_where_it_is_allowed() -> None:
    pair = mapped(allowed_namespaces=("team-*",), create_namespaces=True)
    async with pair.together():
        await pair.hub.store.create(APPLICATIONS, application(), namespace="team-1")
        await until(pair.workload, APPLICATIONS, lambda there: "shop" in there, namespace="team-1")


async def test_one_outside_of_the_agents_namespaces_is_refused_and_says_so() -> None:
    pair = mapped()
    async with pair.together():
        await pair.hub.store.create(APPLICATIONS, application(), namespace="team-1")
        there = await until(
            pair.hub.store, APPLICATIONS, lambda there: there["shop"].get("status"), namespace="team-1"
        )
        assert "--allowed-namespaces" in there["shop"]["status"]["conditions"][0]["message"]


async def test_an_application_moves_with_its_destination() -> None:
    hub = Hub(EmbeddedStore(namespaces=["argocd"]), **BY_DESTINATION)
    first, second = (EmbeddedStore(namespaces=["argocd"]) for _ in range(2))
    async with (
        hub.running() as principal,
        running_agent(first, mode=Mode.MANAGED, **BY_DESTINATION) as one,
        running_agent(second, mode=Mode.MANAGED, **BY_DESTINATION) as two,
        connected(principal, one, name="agent-a"),
        connected(principal, two, name="agent-b"),
    ):
        created = await hub.store.create(APPLICATIONS, application(), namespace="argocd")
        await until(first, APPLICATIONS, lambda there: "shop" in there)
        spec = {**created["spec"], "destination": {"name": "agent-b", "namespace": "shop"}}
        await change(hub.store, APPLICATIONS, "shop", spec=spec)
        await until(second, APPLICATIONS, lambda there: "shop" in there)
        await until(first, APPLICATIONS, lambda there: not there)


async def test_an_agent_cannot_write_the_status_of_another_agents_application() -> None:
    hub = Hub(EmbeddedStore(namespaces=["argocd"]), **BY_DESTINATION)
    store = EmbeddedStore(namespaces=["argocd"])
    foreign = await hub.store.create(
        APPLICATIONS,
        {**application("foreign"), "spec": {"destination": {"name": "agent-b"}}},
        namespace="argocd",
    )
    pretended = application("foreign", metadata={"annotations": {names.SOURCE_UID: "x"}})
    async with (
        hub.running() as principal,
        running_agent(store, mode=Mode.MANAGED, **BY_DESTINATION) as agent,
        connected(principal, agent, name="agent-a"),
    ):
        await hub.store.create(APPLICATIONS, application(), namespace="argocd")
        await store.create(APPLICATIONS, {**pretended, "status": {"stolen": True}}, namespace="argocd")
        await until(store, APPLICATIONS, lambda there: "shop" in there)
        await change(store, APPLICATIONS, "shop", status={"done": True})
        there = await until(hub.store, APPLICATIONS, lambda there: there["shop"].get("status"))
        assert there["foreign"] == foreign
