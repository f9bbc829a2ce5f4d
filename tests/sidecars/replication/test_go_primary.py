"""A primary of argocd-agent, followed: scripted, and once as recorded."""

import json
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import orjson
import pytest
from grpc import aio

from argocd import names
from argocd.agents.vocabulary import Message, Target
from kube import queries
from kube.embedded import EmbeddedStore
from kube.resources import APP_PROJECTS, APPLICATION_SETS, APPLICATIONS, SECRETS
from sidecars.replication.standby.follower import Follower
from sidecars.replication.standby.go_primary import GoConnector, health_page
from sidecars.replication.states import HaState
from sidecars.wire.envelopes import to_cloudevent
from sidecars.wire.events import object_event
from sidecars.wire.generated.replication_pb2 import (
    AgentState,
    ConfirmMissingResourceResult,
    ConfirmMissingResourcesRequest,
    ConfirmMissingResourcesResponse,
    ReplicatedEvent,
    ReplicationAck,
    ReplicationSnapshot,
    ReplicationStatus,
    Resource,
)
from tests.sidecars.replication.hubs import (
    ARGOCD,
    Hub,
    ScriptedController,
    application,
    create,
    embedded,
    until,
)
from tiphys.errors import SurroundingsError

RECORDING = Path(__file__).resolve().parents[4] / "shared" / "oracle" / "wire" / "replication.jsonl"


class ScriptedGoPrimary:
    """Answers as it is told; events go out once the replica has acknowledged the snapshot."""

    def __init__(self, snapshot: bytes, *events: bytes) -> None:
        self.snapshot = snapshot
        self.events = list(events)
        self.deleted: set[tuple[str, str]] = set()
        self.exists: dict[tuple[str, str], Resource] = {}
        self.acknowledged: list[int] = []
        self.asked: list[tuple[str, str]] = []
        self.state = "active"
        self.sequence = 0
        self.port = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator["ScriptedGoPrimary"]:
        server = aio.server()
        calls = {
            "Subscribe": grpc.stream_stream_rpc_method_handler(self._subscribe),
            "GetSnapshot": grpc.unary_unary_rpc_method_handler(self._snapshot),
            "Status": grpc.unary_unary_rpc_method_handler(self._status),
            "ConfirmMissingResources": grpc.unary_unary_rpc_method_handler(self._confirm),
        }
        handler = grpc.method_handlers_generic_handler("replicationapi.Replication", calls)
        server.add_generic_rpc_handlers((handler,))
        self.port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            yield self
        finally:
            await server.stop(0)

    async def _subscribe(self, _requests: Any, context: Any) -> None:
        first = await context.read()
        self.acknowledged.append(ReplicationAck.FromString(first).acked_sequence_num)
        for event in self.events:
            await context.write(event)
        while (raw := await context.read()) is not aio.EOF:
            self.acknowledged.append(ReplicationAck.FromString(raw).acked_sequence_num)

    async def _snapshot(self, _request: bytes, _context: Any) -> bytes:
        return self.snapshot

    async def _status(self, _request: bytes, _context: Any) -> bytes:
        return ReplicationStatus(current_sequence_num=self.sequence).SerializeToString()

    async def _confirm(self, raw: bytes, _context: Any) -> bytes:
        request = ConfirmMissingResourcesRequest.FromString(raw)
        results = []
        for asked in request.resources:
            key = (asked.kind, asked.name)
            self.asked.append(key)
            if key in self.exists:
                results.append(ConfirmMissingResourceResult(resource=self.exists[key], status="exists"))
            else:
                status = "deleted" if key in self.deleted else "unknown"
                results.append(ConfirmMissingResourceResult(resource=asked, status=status))
        return ConfirmMissingResourcesResponse(results=results).SerializeToString()

    async def health(self) -> str:
        return self.state


@asynccontextmanager
async def following(store: EmbeddedStore, primary: ScriptedGoPrimary) -> AsyncIterator[Follower]:
    async with primary.running(), Hub(store).running() as hub:
        channel = aio.insecure_channel(f"127.0.0.1:{primary.port}")
        connector = GoConnector(lambda: channel, objects=hub.objects, health=primary.health)
        controller = ScriptedController("two", HaState.SYNCING)
        follower = Follower(store, hub.objects, controller=controller, connect=connector, timing=hub.timing)
        await follower.load()
        await follower.start()
        try:
            yield follower
        finally:
            await follower.stop()
            await channel.close()


def stored(name: str, *, revision: str = "v1", **fields: Any) -> dict[str, Any]:
    item = application(name, revision=revision, **fields)
    item["metadata"].update({"namespace": "agent-a", "uid": f"uid-{name}", "resourceVersion": "1"})
    return {"apiVersion": names.API_VERSION, "kind": "Application", **item}


def resource(kind: str, item: dict[str, Any]) -> Resource:
    metadata = item["metadata"]
    return Resource(
        kind=kind, namespace=metadata["namespace"], name=metadata["name"], data=orjson.dumps(item)
    )


def snapshot_of(*items: dict[str, Any], sequence: int = 7) -> bytes:
    resources = [resource("Application", item) for item in items]
    agent = AgentState(name="agent-a", mode="managed", resources=resources)
    return ReplicationSnapshot(agents=[agent], last_sequence_num=sequence).SerializeToString()


def event(number: int, message: Message, item: dict[str, Any], *, direction: str = "outbound") -> bytes:
    told = object_event(message, target=Target.APPLICATION, obj=item)
    return ReplicatedEvent(
        event=to_cloudevent(told), agent_name="agent-a", direction=direction, sequence_num=number
    ).SerializeToString()


async def applications(store: EmbeddedStore) -> dict[str, str]:
    page = await store.list(APPLICATIONS)
    return {each["metadata"]["name"]: each["spec"]["source"]["targetRevision"] for each in page.items}


async def test_a_snapshot_and_the_events_after_it_are_written_and_then_acknowledged() -> None:
    store = embedded()
    changed = event(8, Message.SPEC_UPDATE, stored("web", revision="v2"))
    # An agent's status names the agent's own namespace.
    status = stored("web", revision="older", status={"sync": {"status": "Synced"}})
    status["metadata"]["namespace"] = "argocd"
    told = event(9, Message.STATUS_UPDATE, status, direction="inbound")
    primary = ScriptedGoPrimary(snapshot_of(stored("web")), changed, told)
    async with following(store, primary):
        await until(lambda: primary.acknowledged[-1:] == [9])
        web = await store.get(APPLICATIONS, name="web", namespace="agent-a")
        assert web["spec"]["source"]["targetRevision"] == "v2"
        assert web["status"] == {"sync": {"status": "Synced"}}
        assert web["metadata"]["annotations"][names.SOURCE_UID] == "uid-web"
        assert primary.acknowledged[0] == 7


async def test_a_deletion_counts_once_the_primary_confirms_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sidecars.replication.standby.go_primary.TICK_SECONDS", 0.1)
    store = embedded()
    primary = ScriptedGoPrimary(
        snapshot_of(stored("web"), stored("kept")), event(8, Message.DELETE, stored("web"))
    )
    async with following(store, primary):
        await until(lambda: len(primary.asked) > 2)
        assert await applications(store) == {"web": "v1", "kept": "v1"}
        assert primary.acknowledged[-1] == 7
        primary.deleted.add(("Application", "web"))
        await until(lambda: primary.acknowledged[-1] == 8)
        assert await applications(store) == {"kept": "v1"}


async def test_a_refused_deletion_of_an_agent_deletes_nothing() -> None:
    """argocd-agent forwards a managed agent's delete although its primary keeps the object."""
    store = embedded()
    primary = ScriptedGoPrimary(
        snapshot_of(stored("web")), event(8, Message.DELETE, stored("web"), direction="inbound")
    )
    primary.exists["Application", "web"] = resource("Application", stored("web", revision="v3"))
    async with following(store, primary):
        await until(lambda: primary.acknowledged[-1:] == [8])
        assert await applications(store) == {"web": "v3"}


async def test_nothing_is_deleted_because_a_snapshot_lacks_it() -> None:
    store = embedded()
    for name in ("mine", "too"):
        await create(store, APPLICATIONS, application(name), namespace="agent-a")
    primary = ScriptedGoPrimary(snapshot_of(stored("web")))
    async with following(store, primary) as follower:
        await until(lambda: primary.acknowledged == [7])
        assert set(await applications(store)) == {"mine", "too", "web"}
        assert not follower.progress().is_complete  # nobody has compared anything: a promotion needs force


@pytest.mark.parametrize("state", ["replicating", ""])
async def test_a_primary_that_is_not_active_is_not_followed(state: str) -> None:
    store = embedded()
    primary = ScriptedGoPrimary(snapshot_of(stored("web")))
    primary.state = state
    async with following(store, primary) as follower:
        await until(lambda: "not active" in follower.progress().problem)
        assert await applications(store) == {}


async def test_without_a_health_page_it_waits_and_says_why() -> None:
    with pytest.raises(SurroundingsError, match="--ha-peer-health-url"):
        await health_page("")()


async def test_a_gap_ends_the_stream_and_begins_with_a_snapshot() -> None:
    store = embedded()
    primary = ScriptedGoPrimary(
        snapshot_of(stored("web")), event(10, Message.SPEC_UPDATE, stored("web", revision="v9"))
    )
    async with following(store, primary) as follower:
        await until(lambda: "event 10 came where 8 was due" in follower.progress().problem)
        primary.snapshot, primary.events = snapshot_of(stored("web", revision="v9"), sequence=10), []
        await until(lambda: primary.acknowledged[-1:] == [10])
        assert await applications(store) == {"web": "v9"}


@pytest.mark.oracle
@pytest.mark.skipif(not RECORDING.exists(), reason="the recording is not beside the repository")
async def test_the_recorded_primary_s_words_leave_what_it_stored() -> None:
    lines = [json.loads(line) for line in RECORDING.read_text().splitlines()]
    first = [line for line in lines if line.get("what") == "response" and line.get("call") in {1, 2}]
    snapshot = b64decode(first[0]["raw"])
    events = [b64decode(line["raw"]) for line in first[1:]]
    store = EmbeddedStore(namespaces=(ARGOCD, "agent-a"))
    primary = ScriptedGoPrimary(snapshot, *events)
    primary.deleted.add(("AppProject", "team2"))
    async with following(store, primary):
        await until(lambda: primary.acknowledged[-1:] == [17])
        web = await store.get(APPLICATIONS, name="web", namespace="agent-a")
        assert web["spec"]["source"]["targetRevision"] == "v2"
        assert web["status"]["health"] == {"status": "Healthy"}
        projects = {each["metadata"]["name"] for each in (await store.list(APP_PROJECTS)).items}
        assert projects == {"elsewhere", "team"}
        assert await queries.find(store, APPLICATION_SETS, name="set", namespace=ARGOCD) is not None
        assert await queries.find(store, SECRETS, name="repo-9", namespace=ARGOCD) is not None
