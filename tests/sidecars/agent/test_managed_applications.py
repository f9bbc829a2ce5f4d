"""The life of an Application of the control plane on a managed agent's cluster, and its way back."""

from typing import Any

import orjson
import pytest

from argocd import names
from argocd.agents.replication import PENDING_OPERATION
from kube.resources import APPLICATIONS
from kube.store import Object
from tests.sidecars.pair_in_memory import ARGOCD, OURS, PLAIN, Pair, application, change, until

PEERS = pytest.mark.parametrize("extensions", [OURS, PLAIN], ids=["ours", "plain"])
AGENT = "agent-a"
SYNC = {"sync": {"revision": "main"}}


async def given(pair: Pair, **more: Any) -> Object:
    """An Application that has arrived; its copy."""
    await pair.hub.store.create(APPLICATIONS, application(**more), namespace=AGENT)
    return (await until(pair.workload, APPLICATIONS, lambda there: "shop" in there))["shop"]


@PEERS
async def test_an_application_arrives_changes_and_is_deleted(extensions: frozenset[str]) -> None:
    pair = Pair(extensions=extensions)
    async with pair.together():
        copy = await given(pair)
        assert copy["spec"]["destination"] == {"name": "in-cluster", "namespace": "shop"}
        assert copy["metadata"]["annotations"][names.PRINCIPAL_UID] == "principal-1"
        spec = application()["spec"]
        spec["source"]["targetRevision"] = "v2"
        await change(pair.hub.store, APPLICATIONS, "shop", namespace=AGENT, spec=spec)
        await until(
            pair.workload,
            APPLICATIONS,
            lambda there: there["shop"]["spec"]["source"]["targetRevision"] == "v2",
        )
        await pair.hub.store.delete(APPLICATIONS, name="shop", namespace=AGENT)
        await until(pair.workload, APPLICATIONS, lambda there: not there)


async def test_its_status_comes_back_and_nothing_else_does() -> None:
    pair = Pair()
    async with pair.together():
        copy = await given(pair)
        labels = {"labels": {"local": "yes"}}
        status = {"health": {"status": "Healthy"}}
        await change(pair.workload, APPLICATIONS, "shop", status=status, metadata=labels)
        hub = (
            await until(
                pair.hub.store, APPLICATIONS, lambda there: there["shop"].get("status"), namespace=AGENT
            )
        )["shop"]
        assert hub["status"] == status
        assert "labels" not in hub["metadata"]
        assert hub["spec"]["destination"]["name"] == AGENT
        assert copy["metadata"]["uid"] != hub["metadata"]["uid"]


async def test_an_operation_is_given_once_and_its_end_clears_the_hubs() -> None:
    pair = Pair()
    async with pair.together():
        await given(pair)
        await change(pair.hub.store, APPLICATIONS, "shop", namespace=AGENT, operation=SYNC)
        await until(pair.workload, APPLICATIONS, lambda there: there["shop"].get("operation") == SYNC)
        await _controller_runs(pair)
        hub = await until(
            pair.hub.store, APPLICATIONS, lambda there: "operation" not in there["shop"], namespace=AGENT
        )
        assert hub["shop"]["status"]["operationState"]["phase"] == "Succeeded"
        again = await change(pair.hub.store, APPLICATIONS, "shop", namespace=AGENT, operation=SYNC)
        assert again["operation"] == SYNC
        await until(pair.workload, APPLICATIONS, lambda there: there["shop"].get("operation") == SYNC)


async def _controller_runs(pair: Pair, phase: str = "Succeeded") -> None:
    there = await pair.workload.get(APPLICATIONS, name="shop", namespace=ARGOCD)
    there.pop("operation", None)
    await pair.workload.replace(APPLICATIONS, {**there, "status": {"operationState": {"phase": phase}}})


async def test_an_operation_that_was_carried_out_is_not_run_again_after_a_restart_of_the_principal() -> None:
    pair = Pair()
    async with pair.agent_alone() as agent:
        async with pair.principal_alone() as principal, pair.connection(principal, agent):
            await given(pair)
            await change(pair.hub.store, APPLICATIONS, "shop", namespace=AGENT, operation=SYNC)
            await until(pair.workload, APPLICATIONS, lambda there: there["shop"].get("operation") == SYNC)
        await _controller_runs(pair)
        async with pair.principal_alone() as principal, pair.connection(principal, agent):
            await until(
                pair.hub.store, APPLICATIONS, lambda there: "operation" not in there["shop"], namespace=AGENT
            )
        copy = await pair.workload.get(APPLICATIONS, name="shop", namespace=ARGOCD)
        assert "operation" not in copy


async def test_an_operation_that_a_promotion_begins_while_its_agent_is_there_is_not_run_again() -> None:
    pair = Pair()
    async with pair.together():
        await given(pair)
        await change(pair.hub.store, APPLICATIONS, "shop", namespace=AGENT, operation=SYNC)
        await until(pair.workload, APPLICATIONS, lambda there: there["shop"].get("operation") == SYNC)
        await _controller_runs(pair)
        await until(
            pair.hub.store, APPLICATIONS, lambda there: "operation" not in there["shop"], namespace=AGENT
        )
        # A standby that had not heard of that yet has it as a mark, and makes an operation of it later.
        marked = {"annotations": {PENDING_OPERATION: orjson.dumps(SYNC).decode()}}
        await change(pair.hub.store, APPLICATIONS, "shop", namespace=AGENT, metadata=marked)
        adopted: Object = {"annotations": {}}
        await change(pair.hub.store, APPLICATIONS, "shop", namespace=AGENT, operation=SYNC, metadata=adopted)
        await until(
            pair.hub.store, APPLICATIONS, lambda there: "operation" not in there["shop"], namespace=AGENT
        )
        copy = await pair.workload.get(APPLICATIONS, name="shop", namespace=ARGOCD)
        assert "operation" not in copy
        # The next one looks the same and is a new one.
        await change(pair.hub.store, APPLICATIONS, "shop", namespace=AGENT, operation=SYNC)
        await until(pair.workload, APPLICATIONS, lambda there: there["shop"].get("operation") == SYNC)


async def test_an_operation_given_while_the_agent_was_away_arrives() -> None:
    pair = Pair()
    async with pair.principal_alone() as principal:
        async with pair.agent_alone() as agent, pair.connection(principal, agent):
            await given(pair)
        await change(pair.hub.store, APPLICATIONS, "shop", namespace=AGENT, operation=SYNC)
        async with pair.agent_alone() as agent, pair.connection(principal, agent):
            await until(pair.workload, APPLICATIONS, lambda there: there["shop"].get("operation") == SYNC)


async def test_a_running_operation_is_terminated() -> None:
    pair = Pair()
    async with pair.together():
        await given(pair)
        await change(pair.workload, APPLICATIONS, "shop", status={"operationState": {"phase": "Running"}})
        await until(pair.hub.store, APPLICATIONS, lambda there: there["shop"].get("status"), namespace=AGENT)
        terminating = {"operationState": {"phase": "Terminating"}}
        await change(pair.hub.store, APPLICATIONS, "shop", namespace=AGENT, status=terminating)
        await until(pair.workload, APPLICATIONS, lambda there: there["shop"]["status"] == terminating)


async def test_a_refresh_arrives_and_its_answer_removes_it_from_the_hub() -> None:
    pair = Pair()
    async with pair.together():
        await given(pair)
        # As argocd-server writes them.
        asked = {names.REFRESH: "hard", names.HYDRATE: "normal"}
        refresh = {"annotations": asked}
        await change(pair.hub.store, APPLICATIONS, "shop", namespace=AGENT, metadata=refresh)
        there = await until(
            pair.workload,
            APPLICATIONS,
            lambda there: asked.items() <= there["shop"]["metadata"]["annotations"].items(),
        )
        annotations = there["shop"]["metadata"]["annotations"]
        answered = {key: text for key, text in annotations.items() if key not in asked}
        await change(
            pair.workload, APPLICATIONS, "shop", metadata={"annotations": answered}, status={"done": True}
        )
        await until(
            pair.hub.store,
            APPLICATIONS,
            lambda there: not asked.keys() & (there["shop"]["metadata"].get("annotations") or {}).keys(),
            namespace=AGENT,
        )


async def test_a_deletion_with_a_finalizer_waits_for_the_agents_controller() -> None:
    pair = Pair()
    async with pair.together():
        await given(pair, metadata={"finalizers": [names.RESOURCES_FINALIZER]})
        await pair.hub.store.delete(APPLICATIONS, name="shop", namespace=AGENT)
        await until(
            pair.workload,
            APPLICATIONS,
            lambda there: there["shop"]["metadata"].get("deletionTimestamp") is not None,
        )
        hub = await pair.hub.store.get(APPLICATIONS, name="shop", namespace=AGENT)
        assert hub["metadata"]["finalizers"] == [names.RESOURCES_FINALIZER]
        await change(pair.workload, APPLICATIONS, "shop", metadata={"finalizers": []})
        await until(pair.workload, APPLICATIONS, lambda there: not there)
        await until(pair.hub.store, APPLICATIONS, lambda there: not there, namespace=AGENT)


@pytest.mark.parametrize("last", [[], [names.RESOURCES_FINALIZER]], ids=["alone", "with all"])
async def test_a_deletion_takes_what_was_deployed_only_where_the_hub_still_said_so_at_its_end(
    last: list[str],
) -> None:
    """As argocd-server deletes: the finalizer is taken away a moment before, which no agent need have heard."""
    pair = Pair()
    async with pair.principal_alone() as principal:
        async with pair.agent_alone() as agent, pair.connection(principal, agent):
            await given(pair, metadata={"finalizers": [names.RESOURCES_FINALIZER]})
        await change(pair.hub.store, APPLICATIONS, "shop", namespace=AGENT, metadata={"finalizers": last})
        await pair.hub.store.delete(APPLICATIONS, name="shop", namespace=AGENT)
        async with pair.agent_alone() as agent, pair.connection(principal, agent):
            there = await until(
                pair.workload,
                APPLICATIONS,
                lambda there: not there or there["shop"]["metadata"].get("deletionTimestamp"),
            )
    assert bool(there) is bool(last)


async def test_a_deletion_that_a_principal_hears_of_when_it_starts_leaves_what_was_deployed() -> None:
    """With a finalizer it would be there still, and wait for the agent."""
    pair = Pair()
    async with pair.together():
        await given(pair, metadata={"finalizers": [names.RESOURCES_FINALIZER]})
    await change(pair.hub.store, APPLICATIONS, "shop", namespace=AGENT, metadata={"finalizers": []})
    await pair.hub.store.delete(APPLICATIONS, name="shop", namespace=AGENT)
    async with pair.together():
        await until(pair.workload, APPLICATIONS, lambda there: not there)


async def test_one_that_is_withdrawn_and_stays_on_the_hub_takes_what_was_deployed_with_it() -> None:
    pair = Pair()
    async with pair.together():
        await given(pair, metadata={"finalizers": [names.RESOURCES_FINALIZER]})
    kept_out = {"labels": {names.IGNORE_SYNC: "true"}}
    await change(pair.hub.store, APPLICATIONS, "shop", namespace=AGENT, metadata=kept_out)
    async with pair.together():
        await until(
            pair.workload,
            APPLICATIONS,
            lambda there: there["shop"]["metadata"].get("deletionTimestamp") is not None,
        )
    there = await pair.workload.get(APPLICATIONS, name="shop", namespace=ARGOCD)
    assert there["metadata"]["finalizers"] == [names.RESOURCES_FINALIZER]


async def test_an_application_recreated_with_another_uid_is_recreated() -> None:
    pair = Pair()
    async with pair.together():
        first = await given(pair)
        await pair.hub.store.delete(APPLICATIONS, name="shop", namespace=AGENT)
        await pair.hub.store.create(APPLICATIONS, application(), namespace=AGENT)
        await until(
            pair.workload,
            APPLICATIONS,
            lambda there: "shop" in there and there["shop"]["metadata"]["uid"] != first["metadata"]["uid"],
        )


async def test_drift_and_deletion_at_the_agent_are_undone() -> None:
    pair = Pair()
    async with pair.together():
        copy = await given(pair)
        await change(pair.workload, APPLICATIONS, "shop", spec={**copy["spec"], "project": "other"})
        await until(pair.workload, APPLICATIONS, lambda there: there["shop"]["spec"]["project"] == "web")
        await pair.workload.delete(APPLICATIONS, name="shop", namespace=ARGOCD)
        await until(
            pair.workload,
            APPLICATIONS,
            lambda there: "shop" in there and there["shop"]["metadata"]["uid"] != copy["metadata"]["uid"],
        )


async def test_what_an_agent_refuses_is_shown_on_the_hub() -> None:
    pair = Pair()
    local = application(metadata={"annotations": {names.ADOPTION_POLICY: "never"}})
    await pair.workload.create(APPLICATIONS, local, namespace=ARGOCD)
    async with pair.together():
        await pair.hub.store.create(APPLICATIONS, application(), namespace=AGENT)
        there = await until(
            pair.hub.store, APPLICATIONS, lambda there: there["shop"].get("status"), namespace=AGENT
        )
        (condition,) = there["shop"]["status"]["conditions"]
        assert condition["type"] == "AgentError"
        assert "nobody's copy" in condition["message"]


async def test_status_that_changed_while_the_agent_was_down_is_told() -> None:
    pair = Pair()
    async with pair.principal_alone() as principal:
        async with pair.agent_alone() as agent, pair.connection(principal, agent):
            await given(pair)
        await change(pair.workload, APPLICATIONS, "shop", status={"health": {"status": "Degraded"}})
        async with pair.agent_alone() as agent, pair.connection(principal, agent):
            await until(
                pair.hub.store, APPLICATIONS, lambda there: there["shop"].get("status"), namespace=AGENT
            )
