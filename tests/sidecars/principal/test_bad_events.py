"""What a peer sends that makes no sense, or that an API server refuses for ever: acknowledged, without effect, and
what comes after it is as good as ever.
"""

from dataclasses import replace
from typing import Any

import orjson
import pytest

from argocd import names
from argocd.agents.vocabulary import PREFIX, Message, Mode, Target
from kube.embedded import AdmissionRequest, Admitted, EmbeddedStore, Hooks
from kube.errors import InvalidError
from kube.resources import APP_PROJECTS, APPLICATIONS, SECRETS
from sidecars.wire.events import Event, heartbeat, object_event
from tests.sidecars.pair_in_memory import ARGOCD, Pair, application, project, until
from tests.sidecars.scripted_ends import AGENT, acknowledged, scripted, scripted_agent


def raw(payload: bytes, *, kind: str = Message.SPEC_UPDATE, target: str = Target.PROJECT) -> Event:
    return Event(type=kind, target=target, resource_id="r", event_id=f"e-{hash(payload)}", payload=payload)


BAD: list[Any] = [
    raw(b"not json"),
    raw(b"[]"),
    raw(b"{}"),
    raw(orjson.dumps({"metadata": {"name": 7}})),
    raw(orjson.dumps({"metadata": {"name": "x", "labels": {"a": 1}}})),
    raw(orjson.dumps({"metadata": {"name": "x"}, "spec": []})),
    raw(orjson.dumps({"metadata": {"name": "../../x"}, "spec": {}})),
    raw(orjson.dumps({"metadata": {"name": "x" * 300}, "spec": {}})),
    raw(b"{}", kind=PREFIX + "dance"),
    raw(b"{}", kind=PREFIX + "request-update", target=Target.RESOURCE_RESYNC),
    raw(b"[1]", kind=PREFIX + "response-synced-resource", target=Target.RESOURCE_RESYNC),
    raw(b"{}", kind="GET", target="resource"),
    raw(b"?", kind=PREFIX + "error", target=Target.APPLICATION),
    raw(b"{}", kind="dev.tiphys.event.compare", target="tiphysComparison"),
    raw(b"", kind=PREFIX + "unheard-of", target="unheard-of"),
]


@pytest.mark.parametrize("event", BAD, ids=range(len(BAD)))
async def test_nonsense_is_acknowledged_and_disturbs_nothing(event: Event) -> None:
    async with scripted(Mode.AUTONOMOUS) as (hub, pipe):
        await acknowledged(pipe, event)
        good = project("sample")
        good["metadata"] |= {"uid": "u", "resourceVersion": "1"}
        await acknowledged(pipe, object_event(Message.CREATE, target=Target.PROJECT, obj=good))
        there = await until(hub.store, APP_PROJECTS, lambda there: "agent-a-sample" in there)
        assert set(there) == {"agent-a-sample"}


async def test_a_go_agent_s_answer_without_destinations_leaves_those_that_are_mirrored() -> None:
    """Asked for a project, argocd-agent's autonomous agent sends it as to a managed one, without them."""
    told = project("sample")
    told["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    told["spec"]["destinations"] = [{"server": names.IN_CLUSTER_SERVER, "namespace": "shop"}]
    answer = {**told, "spec": {"sourceRepos": ["*"], "description": "newer"}}
    async with scripted(Mode.AUTONOMOUS) as (hub, pipe):
        await acknowledged(pipe, object_event(Message.CREATE, target=Target.PROJECT, obj=told))
        await until(hub.store, APP_PROJECTS, lambda there: "agent-a-sample" in there)
        await acknowledged(pipe, object_event(Message.SPEC_UPDATE, target=Target.PROJECT, obj=answer))
        found = await until(
            hub.store,
            APP_PROJECTS,
            lambda there: there["agent-a-sample"]["spec"].get("description") == "newer",
        )
        destination = {"name": "agent-a", "server": "*", "namespace": "shop"}
        assert found["agent-a-sample"]["spec"]["destinations"] == [destination]


@pytest.mark.parametrize("message", [Message.CREATE, Message.SPEC_UPDATE, Message.DELETE])
async def test_a_managed_agent_has_no_say_in_projects(message: Message) -> None:
    async with scripted(Mode.MANAGED) as (hub, pipe):
        own = await hub.store.create(APP_PROJECTS, project("web"), namespace=ARGOCD)
        told = {**own, "spec": {"description": "the agent's"}}
        await acknowledged(pipe, object_event(message, target=Target.PROJECT, obj=told))
        assert await hub.store.get(APP_PROJECTS, name="web", namespace=ARGOCD) == own


async def test_a_managed_agents_deletion_counts_only_while_the_hub_deletes() -> None:
    async with scripted(Mode.MANAGED) as (hub, pipe):
        own = await hub.store.create(APPLICATIONS, application(), namespace=AGENT)
        await acknowledged(pipe, object_event(Message.DELETE, target=Target.APPLICATION, obj=own))
        assert await hub.store.get(APPLICATIONS, name="shop", namespace=AGENT) == own


async def test_an_autonomous_agent_cannot_touch_another_ones_mirrors_or_native_projects() -> None:
    async with scripted(Mode.AUTONOMOUS) as (hub, pipe):
        native = await hub.store.create(APP_PROJECTS, project("agent-a-web"), namespace=ARGOCD)
        told = project("web")
        told["metadata"] |= {"uid": "u", "resourceVersion": "1"}
        for message in (Message.CREATE, Message.SPEC_UPDATE, Message.DELETE):
            await acknowledged(pipe, object_event(message, target=Target.PROJECT, obj=told))
        assert await hub.store.get(APP_PROJECTS, name="agent-a-web", namespace=ARGOCD) == native


async def test_an_agent_cannot_take_the_mirror_of_another_one_by_its_uid() -> None:
    """`agent-a` + `b-c` is the name of `agent-a-b` + `c`, and a uid stands in the mirror for every reader."""
    async with scripted(Mode.AUTONOMOUS) as (hub, pipe):
        mirror = project("agent-a-b-c")
        mirror["metadata"]["annotations"] = {names.SOURCE_UID: "the-uid"}
        mirror["spec"] |= {"sourceNamespaces": ["agent-a-b"]}
        own = await hub.store.create(APP_PROJECTS, mirror, namespace=ARGOCD)
        told = project("b-c")
        told["metadata"] |= {"uid": "the-uid", "resourceVersion": "1"}
        for message in (Message.CREATE, Message.SPEC_UPDATE, Message.DELETE):
            await acknowledged(pipe, object_event(message, target=Target.PROJECT, obj=told))
        assert await hub.store.get(APP_PROJECTS, name="agent-a-b-c", namespace=ARGOCD) == own


async def test_an_agent_takes_no_secret_that_is_not_a_repositorys() -> None:
    store = EmbeddedStore(namespaces=[ARGOCD])
    async with scripted_agent(store, mode=Mode.MANAGED) as pipe:
        for kind in ("cluster", "repository"):
            secret = {
                "metadata": {
                    "name": kind,
                    "uid": kind,
                    "resourceVersion": "1",
                    "labels": {names.SECRET_TYPE: kind},
                },
                "data": {"url": "aHR0cHM6Ly9naXQ="},
            }
            await acknowledged(pipe, object_event(Message.CREATE, target=Target.REPOSITORY, obj=secret))
        there = await store.list(SECRETS, namespace=ARGOCD)
        assert [item["metadata"]["name"] for item in there.items] == ["repository"]


async def test_a_heartbeat_and_a_counter_are_taken() -> None:
    async with scripted(Mode.MANAGED) as (_, pipe):
        await acknowledged(pipe, heartbeat())
        counters = raw(
            b'{"applicationsCount":1}',
            kind=Message.CLUSTER_CACHE_INFO_UPDATE,
            target="clusterCacheInfoUpdate",
        )
        await acknowledged(pipe, counters)


async def test_an_object_that_the_api_server_refuses_for_ever_is_shown_and_holds_up_nothing() -> None:
    async def refuse(request: AdmissionRequest) -> Admitted:
        if request.name == "bad":
            raise InvalidError("spec.source: this is not possible")
        return Admitted()

    pair = Pair(workload=EmbeddedStore(namespaces=[ARGOCD], hooks=Hooks(admission=refuse)))
    async with pair.together():
        await pair.hub.store.create(APPLICATIONS, application("bad"), namespace=AGENT)
        await pair.hub.store.create(APPLICATIONS, application("good"), namespace=AGENT)
        await until(pair.workload, APPLICATIONS, lambda there: "good" in there)
        there = await until(
            pair.hub.store, APPLICATIONS, lambda there: there["bad"].get("status"), namespace=AGENT
        )
        status = there["bad"]["status"]
        assert status["health"]["status"] == "Degraded"
        assert "this is not possible" in status["conditions"][0]["message"]


async def test_a_message_without_its_prefix_is_taken_too() -> None:
    async with scripted(Mode.AUTONOMOUS) as (hub, pipe):
        good = project("sample")
        good["metadata"] |= {"uid": "u", "resourceVersion": "1"}
        event = object_event(Message.CREATE, target=Target.PROJECT, obj=good)
        await acknowledged(pipe, replace(event, type=Message.CREATE.word))
        await until(hub.store, APP_PROJECTS, lambda there: "agent-a-sample" in there)
