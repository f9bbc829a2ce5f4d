"""Applications of an autonomous agent and their mirrors in the namespace of the agent's name."""

from datetime import datetime

from argocd import names
from argocd.agents.vocabulary import Mode
from kube.embedded import EmbeddedStore
from kube.resources import APPLICATIONS, NAMESPACES
from tests.sidecars.pair_in_memory import ARGOCD, Pair, application, change, until

AGENT = "agent-a"
SYNC = {"sync": {"revision": "main"}}


async def known(pair: Pair) -> None:
    await pair.hub.know(AGENT)


async def test_an_application_is_mirrored_with_its_status_and_vanishes_with_its_source() -> None:
    pair = Pair(mode=Mode.AUTONOMOUS)
    await known(pair)
    async with pair.together():
        await pair.workload.create(APPLICATIONS, application(), namespace=ARGOCD)
        there = await until(pair.hub.store, APPLICATIONS, lambda there: "shop" in there, namespace=AGENT)
        mirror = there["shop"]
        assert mirror["spec"]["project"] == "agent-a-web"
        assert mirror["spec"]["destination"] == {"name": AGENT, "namespace": "shop"}
        assert (
            datetime.fromisoformat(mirror["metadata"]["annotations"][names.LAST_UPDATED]).tzinfo is not None
        )
        await change(pair.workload, APPLICATIONS, "shop", status={"health": {"status": "Healthy"}})
        await until(pair.hub.store, APPLICATIONS, lambda there: there["shop"].get("status"), namespace=AGENT)
        await pair.workload.delete(APPLICATIONS, name="shop", namespace=ARGOCD)
        await until(pair.hub.store, APPLICATIONS, lambda there: not there, namespace=AGENT)


async def test_a_sync_and_a_refresh_on_the_hub_reach_the_agent() -> None:
    pair = Pair(mode=Mode.AUTONOMOUS)
    await known(pair)
    async with pair.together():
        await pair.workload.create(APPLICATIONS, application(), namespace=ARGOCD)
        await until(pair.hub.store, APPLICATIONS, lambda there: "shop" in there, namespace=AGENT)
        await change(pair.hub.store, APPLICATIONS, "shop", namespace=AGENT, operation=SYNC)
        await until(pair.workload, APPLICATIONS, lambda there: there["shop"].get("operation") == SYNC)
        hub = await pair.hub.store.get(APPLICATIONS, name="shop", namespace=AGENT)
        refresh = {"annotations": {**hub["metadata"]["annotations"], names.REFRESH: "normal"}}
        await change(pair.hub.store, APPLICATIONS, "shop", namespace=AGENT, metadata=refresh)
        await until(
            pair.workload,
            APPLICATIONS,
            lambda there: names.REFRESH in there["shop"]["metadata"].get("annotations", {}),
        )


async def test_a_spec_changed_on_the_hub_is_written_back_and_never_reaches_the_agent() -> None:
    pair = Pair(mode=Mode.AUTONOMOUS)
    await known(pair)
    async with pair.together():
        await pair.workload.create(APPLICATIONS, application(), namespace=ARGOCD)
        there = await until(pair.hub.store, APPLICATIONS, lambda there: "shop" in there, namespace=AGENT)
        spec = there["shop"]["spec"]
        await change(
            pair.hub.store, APPLICATIONS, "shop", namespace=AGENT, spec={**spec, "project": "agent-a-x"}
        )
        await until(
            pair.hub.store,
            APPLICATIONS,
            lambda there: there["shop"]["spec"]["project"] == "agent-a-web",
            namespace=AGENT,
        )
        source = await pair.workload.get(APPLICATIONS, name="shop", namespace=ARGOCD)
        assert source["spec"]["project"] == "web"


async def test_the_namespace_is_made_where_that_is_allowed() -> None:
    store = EmbeddedStore(namespaces=[ARGOCD])
    pair = Pair(mode=Mode.AUTONOMOUS, name="agent-b", hub={"create_namespaces": True}, hub_store=store)
    await pair.hub.know("agent-b")
    async with pair.together():
        await pair.workload.create(APPLICATIONS, application(), namespace=ARGOCD)
        await until(pair.hub.store, APPLICATIONS, lambda there: "shop" in there, namespace="agent-b")
    made = await store.get(NAMESPACES, name="agent-b")
    assert made["metadata"]["labels"][names.TIPHYS_AGENT] == "agent-b"
