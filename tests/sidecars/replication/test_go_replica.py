"""A replica of argocd-agent at our primary: scripted as a recorded one spoke."""

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import orjson
import pytest
from grpc import aio

from argocd import names
from kube.embedded import EmbeddedStore
from kube.errors import ForbiddenError
from kube.resources import APP_PROJECTS, APPLICATION_SETS, APPLICATIONS, SECRETS
from kube.store import ListPage, Object, Store
from kube.store import Resource as KubeResource
from sidecars.replication.primary import go_deletions, go_replica
from sidecars.replication.states import HaState
from sidecars.wire.generated.replication_pb2 import (
    ConfirmMissingResourcesRequest,
    ConfirmMissingResourcesResponse,
    ReplicatedEvent,
    ReplicationAck,
    ReplicationSnapshot,
    ReplicationStatus,
    Resource,
)
from sidecars.wire.tls import channel_credentials
from tests.sidecars.captured_logs import logged
from tests.sidecars.replication.hubs import (
    ARGOCD,
    Hub,
    Pair,
    application,
    certificate,
    create,
    embedded,
    figure,
    fill,
    until,
)

SERVICE = "/replicationapi.Replication/"
RECORDING = Path(__file__).resolve().parents[4] / "shared" / "oracle" / "wire" / "replication.jsonl"


class OneAgent:
    """`reached`: whether projects let it have repositories."""

    reached = True

    def agents(self) -> Iterable[tuple[str, str]]:
        return [("agent-a", "managed")]

    def agent_of(self, item: Object) -> str:
        return str(item["metadata"]["namespace"])

    def agents_of_repository(self, _secret: Object) -> Iterable[str]:
        return ["agent-a"] if self.reached else []


class ScriptedGoReplica:
    """Subscribe, snapshot, first acknowledgement; then it acknowledges each event, or does not."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel
        self._stream: Any = None
        self.snapshot = ReplicationSnapshot()

    async def call(self, name: str, request: bytes, kind: type[Any]) -> Any:
        return kind.FromString(await self._channel.unary_unary(SERVICE + name)(request, timeout=20))

    async def begin(self) -> None:
        self._stream = self._channel.stream_stream(SERVICE + "Subscribe")()
        await self._stream.initial_metadata()
        self.snapshot = await self.call("GetSnapshot", b"", ReplicationSnapshot)
        await self.acknowledge(self.snapshot.last_sequence_num)

    async def acknowledge(self, number: int) -> None:
        await self._stream.write(ReplicationAck(acked_sequence_num=number).SerializeToString())

    async def receive(self, *, acknowledges: bool = True) -> ReplicatedEvent:
        event = ReplicatedEvent.FromString(await self._stream.read())
        if acknowledges:
            await self.acknowledge(event.sequence_num)
        return event

    async def listen(self) -> None:
        """To whatever comes, and acknowledges nothing."""
        while await self._stream.read() is not aio.EOF:
            pass

    def leave(self) -> None:
        self._stream.cancel()


@asynccontextmanager
async def replica_of(pair: Pair) -> AsyncIterator[ScriptedGoReplica]:
    target = f"localhost:{pair.listening.port}"
    async with aio.secure_channel(target, channel_credentials(certificate("standby"))) as channel:
        replica = ScriptedGoReplica(channel)
        await replica.begin()
        yield replica
        replica.leave()
    await until(lambda: not len(pair.listening.service._go_replicas or ()))


def primary_of(store: Store) -> Pair:
    return Pair(Hub(store), Hub(embedded()), routing=OneAgent())


def told(event: ReplicatedEvent) -> tuple[str, str, str, str]:
    return (
        event.event.type.rpartition(".")[2],
        event.event.attributes["dataschema"].ce_uri,
        event.agent_name,
        event.direction,
    )


def body_of(event: ReplicatedEvent) -> Any:
    return orjson.loads(event.event.binary_data)


async def recorded_scene(store: Store) -> None:
    """What the recording's primary had at the start."""
    await create(store, APP_PROJECTS, {"metadata": {"name": "team"}, "spec": {"sourceRepos": ["*"]}})
    await create(store, APPLICATIONS, application("web"), namespace="agent-a")


def repository(name: str) -> Object:
    labels = {names.SECRET_TYPE: names.SECRET_TYPE_REPOSITORY}
    return {
        "metadata": {"name": name, "labels": labels},
        "stringData": {"url": "https://git", "project": "team"},
    }


async def revise(store: Store, revision: str) -> None:
    web = await store.get(APPLICATIONS, name="web", namespace="agent-a")
    web["spec"]["source"]["targetRevision"] = revision
    await store.replace(APPLICATIONS, web)


@pytest.mark.oracle
@pytest.mark.skipif(not RECORDING.exists(), reason="the recording is not beside the repository")
async def test_it_is_told_what_the_recorded_one_was_told() -> None:
    """But for statuses, which come with the stored object, and `create`, which it takes as an update."""
    lines = [json.loads(line) for line in RECORDING.read_text().splitlines()]
    events = [
        line["decoded"] for line in lines if line["what"] == "response" and "event" in line.get("decoded", {})
    ]
    recorded = [
        (
            event["event"]["type"].rpartition(".")[2].replace("create", "spec-update"),
            event["event"]["attributes"]["dataschema"]["ce_uri"],
            event.get("agent_name", ""),
            event["direction"],
        )
        for event in events
        if event["direction"] == "outbound"
    ]
    store = embedded()
    await recorded_scene(store)
    async with primary_of(store).running(following=False) as pair, replica_of(pair) as replica:
        agents = {agent.name: [each.kind for each in agent.resources] for agent in replica.snapshot.agents}
        assert agents == {"agent-a": ["Application"], ARGOCD: ["AppProject"]}
        await revise(store, "v2")
        ours = [await replica.receive()]
        await create(store, APP_PROJECTS, {"metadata": {"name": "team2"}, "spec": {}})
        ours.append(await replica.receive())
        await create(store, APPLICATION_SETS, {"metadata": {"name": "set"}, "spec": {"generators": []}})
        ours.append(await replica.receive())
        await create(store, SECRETS, repository("repo-9"))
        ours.append(await replica.receive())
        await store.delete(APP_PROJECTS, name="team2", namespace=ARGOCD)
        ours.append(await replica.receive())
        assert [told(event) for event in ours] == recorded
        assert [event.sequence_num for event in ours] == [1, 2, 3, 4, 5]
        assert body_of(ours[-1])["metadata"]["name"] == "team2"
        status = await replica.call("Status", b"", ReplicationStatus)
        assert (status.current_sequence_num, status.connected_replicas) == (5, 1)


async def test_what_was_deleted_while_it_was_away_is_told_until_it_acknowledges() -> None:
    store = embedded()
    await recorded_scene(store)
    await create(store, SECRETS, repository("repo-9"))
    async with primary_of(store).running(following=False) as pair:
        async with replica_of(pair):
            pass
        await store.delete(SECRETS, name="repo-9", namespace=ARGOCD)
        await until(lambda: pair.source.last_sequence == 1)
        async with replica_of(pair) as replica:
            event = await replica.receive(acknowledges=False)
            assert told(event)[:2] == ("delete", "repository")
        async with replica_of(pair) as replica:
            assert replica.snapshot.last_sequence_num == 1
            await revise(store, "v3")
            first, second = await replica.receive(), await replica.receive()
        kinds = sorted(told(event)[:2] for event in (first, second))
        assert kinds == [("delete", "repository"), ("spec-update", "application")]
        assert (first.sequence_num, second.sequence_num) == (2, 3)


async def test_a_repository_that_no_agent_has_any_more_is_told_to_be_gone_when_it_is() -> None:
    """While it is there nobody says so: it is only un-routed. One that the replica was never told of is not its own."""
    store, routing = embedded(), OneAgent()
    await create(store, SECRETS, repository("repo-9"))
    pair = Pair(Hub(store), Hub(embedded()), routing=routing)
    async with pair.running(following=False):
        async with replica_of(pair) as replica:
            routing.reached = False
            await create(store, SECRETS, repository("never-told"))
            for name in ("never-told", "repo-9"):
                await store.delete(SECRETS, name=name, namespace=ARGOCD)
            event = await replica.receive(acknowledges=False)
            assert told(event) == ("delete", "repository", "", "outbound")
            assert (event.sequence_num, body_of(event)["metadata"]["name"]) == (1, "repo-9")
            assert "data" not in body_of(event)
        async with replica_of(pair) as replica:
            assert body_of(await replica.receive())["metadata"]["name"] == "repo-9"


async def test_deletions_that_are_too_many_to_be_kept_are_said_and_found_by_what_the_replica_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(go_deletions, "DELETION_BYTES", 600)  # of three
    store, said = embedded(), logged()
    await fill(store, 5)
    forgotten = figure("tiphys_replication_go_deletions_forgotten_total")
    async with primary_of(store).running(following=False) as pair:
        async with replica_of(pair) as replica:
            for number in range(5):
                await store.delete(APPLICATIONS, name=f"app-{number:05}", namespace="agent-a")
            with pytest.raises(aio.AioRpcError, match="has not acknowledged too many deletions"):
                await replica.listen()
        assert figure("tiphys_replication_go_deletions_forgotten_total") == forgotten + 2
        assert len(said("deletions that a Go replica has not acknowledged are forgotten")) == 1
        # It is back with a snapshot, and with what it has.
        async with replica_of(pair) as replica:
            events = [await replica.receive() for _ in range(3)]
            gone = [body_of(event)["metadata"]["name"] for event in events]
            assert gone == ["app-00002", "app-00003", "app-00004"]
            number = events[-1].sequence_num
            assert await confirmed(replica, "Application", "app-00000", number=number) == "deleted"


async def test_an_object_has_the_identity_that_agents_know_and_no_marks() -> None:
    store = embedded()
    body = application("web", operation={"sync": {}})
    body["metadata"]["annotations"] = {names.SOURCE_UID: "first-uid"}
    body["metadata"]["finalizers"] = [names.RESOURCES_FINALIZER]
    await create(store, APPLICATIONS, body, namespace="agent-a")
    async with primary_of(store).running(following=False) as pair, replica_of(pair) as replica:
        await store.delete(APPLICATIONS, name="web", namespace="agent-a")
        metadata = body_of(await replica.receive())["metadata"]
        assert metadata["uid"] == "first-uid"
        assert "deletionTimestamp" not in metadata
        assert metadata["annotations"] == {}


async def test_missing_resources_are_confirmed_for_what_is_replicated_alone() -> None:
    store = embedded()
    await recorded_scene(store)
    await create(store, SECRETS, {"metadata": {"name": "argocd-secret"}, "stringData": {"key": "of the hub"}})
    await create(store, SECRETS, repository("repo-9"))
    asked = [
        ("Application", "agent-a", "web", "agent-a", "exists"),
        ("Application", "agent-a", "gone", "agent-a", "deleted"),
        ("Application", "agent-a", "web", "agent-b", "unknown"),
        ("Repository", ARGOCD, "repo-9", "agent-a", "exists"),
        ("Repository", "kube-system", "anything", "agent-a", "unknown"),
        ("Secret", ARGOCD, "argocd-secret", "agent-a", "unknown"),
        ("AppProject", ARGOCD, "team", ARGOCD, "exists"),
    ]
    async with primary_of(store).running(following=False) as pair, replica_of(pair) as replica:

        async def confirm(kind: str, namespace: str, name: str, agent: str, *, number: int = 0) -> Any:
            request = ConfirmMissingResourcesRequest(
                agent_name=agent,
                snapshot_sequence_num=number,
                resources=[Resource(kind=kind, namespace=namespace, name=name)],
            )
            raw = request.SerializeToString()
            answer = await replica.call("ConfirmMissingResources", raw, ConfirmMissingResourcesResponse)
            return answer.results[0]

        for kind, namespace, name, agent, status in asked:
            assert (await confirm(kind, namespace, name, agent)).status == status, (kind, name, agent)
        # A Secret of another sort shows nothing, and is not said to be gone: it would be deleted over there.
        hidden = await confirm("Repository", ARGOCD, "argocd-secret", "agent-a")
        assert (hidden.status, hidden.resource.data) == ("unknown", b"")
        moved = await confirm("Application", "agent-a", "web", "agent-a", number=7)
        assert moved.status == "unknown"


async def confirmed(replica: ScriptedGoReplica, kind: str, name: str, *, number: int) -> str:
    namespace = "agent-a" if kind == "Application" else ARGOCD
    request = ConfirmMissingResourcesRequest(
        agent_name="agent-a",
        snapshot_sequence_num=number,
        resources=[Resource(kind=kind, namespace=namespace, name=name)],
    )
    raw = request.SerializeToString()
    answer = await replica.call("ConfirmMissingResources", raw, ConfirmMissingResourcesResponse)
    return str(answer.results[0].status)


async def test_a_secret_that_is_no_repository_any_more_is_not_confirmed_to_be_deleted() -> None:
    store = embedded()
    for name in ("kept", "gone"):
        await create(store, SECRETS, repository(name))
    async with primary_of(store).running(following=False) as pair:
        kept = await store.get(SECRETS, name="kept", namespace=ARGOCD)
        del kept["metadata"]["labels"]
        await store.replace(SECRETS, kept)
        await store.delete(SECRETS, name="gone", namespace=ARGOCD)
        await until(lambda: pair.source.last_sequence == 2)
        async with replica_of(pair) as replica:
            assert await confirmed(replica, "Repository", "kept", number=0) == "unknown"
            assert await confirmed(replica, "Repository", "gone", number=0) == "deleted"


async def test_nothing_is_confirmed_to_be_deleted_while_nobody_can_tell_which_secrets_there_are() -> None:
    class Forbidding(EmbeddedStore):
        forbids = False

        async def list(self, resource: KubeResource, **more: Any) -> ListPage:
            if self.forbids:
                raise ForbiddenError("secrets is forbidden")
            return await super().list(resource, **more)

    store = Forbidding(namespaces=(ARGOCD, "agent-a"))
    async with primary_of(store).running(following=False) as pair, replica_of(pair) as replica:
        store.forbids = True
        assert await confirmed(replica, "Repository", "gone", number=0) == "unknown"
        store.forbids = False
        assert await confirmed(replica, "Repository", "gone", number=0) == "deleted"


async def test_what_a_promoted_primary_never_knew_is_not_told_to_be_deleted() -> None:
    """A Go primary that was demoted asks about its last creations, and deletes what it is told."""
    store = embedded()
    await recorded_scene(store)
    await fill(store, 1, prefix="known")
    pair = Pair(Hub(store), Hub(embedded()), routing=OneAgent(), holding=lambda: holding)
    holding = True

    async with pair.running(following=False), replica_of(pair) as replica:
        assert await confirmed(replica, "Application", "last-creation", number=0) == "unknown"
        await store.delete(APPLICATIONS, name="known-00000", namespace="agent-a")
        await replica.receive(acknowledges=False)
        assert await confirmed(replica, "Application", "known-00000", number=1) == "deleted"
        holding = False  # an operator has released it
        assert await confirmed(replica, "Application", "last-creation", number=1) == "deleted"


@pytest.mark.parametrize("call", ["GetSnapshot", "ConfirmMissingResources"])
async def test_a_passive_principal_tells_a_go_replica_nothing(call: str) -> None:
    async with primary_of(embedded()).running(following=False) as pair:
        pair.active.say(state=HaState.REPLICATING)
        target = f"localhost:{pair.listening.port}"
        async with aio.secure_channel(target, channel_credentials(certificate("standby"))) as channel:
            replica = ScriptedGoReplica(channel)
            with pytest.raises(aio.AioRpcError, match="not replicating in state replicating"):
                await replica.call(call, b"", ReplicationSnapshot)
            assert (await replica.call("Status", b"", ReplicationStatus)).connected_replicas == 0


async def test_a_snapshot_that_it_would_not_take_is_refused_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(go_replica, "MAX_SNAPSHOT_BYTES", 2_000)
    store = embedded()
    await fill(store, 10)
    refusals = figure("tiphys_replication_go_snapshots_refused_total")
    async with primary_of(store).running(following=False) as pair:
        target = f"localhost:{pair.listening.port}"
        async with aio.secure_channel(target, channel_credentials(certificate("standby"))) as channel:
            with pytest.raises(aio.AioRpcError) as refused:
                await ScriptedGoReplica(channel).call("GetSnapshot", b"", ReplicationSnapshot)
            assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "use a replica of Tiphys" in (refused.value.details() or "")
            assert figure("tiphys_replication_go_snapshots_refused_total") == refusals + 1
