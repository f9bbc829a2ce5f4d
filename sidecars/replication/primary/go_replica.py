"""argocd-agent's own replicas: a numbering of their own without gaps, events and snapshots in their words.

A Go replica takes a skipped number for a loss and fetches everything again, so only what it is sent has a number. It
forgets at each restart what it had: what is gone is kept here until it has acknowledged that.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

import orjson

from argocd import names
from argocd.agents.identity import source_uid
from argocd.agents.replication import replicated_copy
from argocd.agents.vocabulary import Message, Target
from argocd.reading import mapping, text
from kube.store import Object
from sidecars.replication import metrics
from sidecars.replication.kinds import (
    APPLICATION,
    APPLICATION_SET,
    CLUSTER,
    PROJECT,
    REPOSITORY,
    ObjectKey,
    ReplicatedKind,
)
from sidecars.replication.objects import ReplicatedObjects
from sidecars.replication.primary.log import LogEntry, ReplicationLog, TruncatedError
from sidecars.wire.envelopes import to_cloudevent
from sidecars.wire.errors import MalformedError
from sidecars.wire.events import object_event
from sidecars.wire.generated.replication_pb2 import (
    AgentState,
    ConfirmMissingResourceResult,
    ConfirmMissingResourcesRequest,
    ConfirmMissingResourcesResponse,
    ReplicatedEvent,
    ReplicationSnapshot,
    Resource,
)
from tiphys import logs
from tiphys.errors import SurroundingsError

FIRST_ACK_SECONDS = 300.0
"""As argocd-agent: it writes a snapshot one object after the other before it says a word."""
MAX_SNAPSHOT_BYTES = 4 << 20
"""What a Go client takes in one message."""
MOST_GONE = 10_000
BATCH_BYTES = 256 << 10

_TARGETS: Mapping[str, Target] = {
    APPLICATION.name: Target.APPLICATION,
    PROJECT.name: Target.PROJECT,
    APPLICATION_SET.name: Target.APPLICATION_SET,
    REPOSITORY.name: Target.REPOSITORY,
}
_KINDS: Mapping[str, ReplicatedKind] = {
    "Application": APPLICATION,
    "AppProject": PROJECT,
    "ApplicationSet": APPLICATION_SET,
    "Repository": REPOSITORY,
}

log = logs.get_logger()


class GoRouting(Protocol):
    """Whose objects are whose: argocd-agent names the agent with each of them."""

    def agents(self) -> Iterable[tuple[str, str]]:
        """Names and modes."""
        ...

    def agent_of(self, application: Object) -> str: ...

    def agents_of_repository(self, secret: Object) -> Iterable[str]: ...


class GoReplicaStream(Protocol):
    async def send(self, event: ReplicatedEvent) -> None: ...

    async def receive(self) -> int | None:
        """The sequence that it acknowledges; None when it has left."""
        ...


class SnapshotTooLargeError(SurroundingsError):
    """A Go replica would refuse it, and ask again at once, for ever."""


@dataclass(slots=True)
class _GoReplica:
    number: int = 0
    """Of the last event that it was sent."""
    acknowledged: int = 0
    stream: "GoReplicaStream | None" = None
    """The newest: one that lingers would use up its numbers."""
    gone: OrderedDict[ObjectKey, tuple[int, Object]] = field(default_factory=OrderedDict)
    """What it may still have: the number under which it was told so, 0 before, and the last stored object."""


class GoReplicas:
    def __init__(
        self,
        objects: ReplicatedObjects,
        *,
        current_log: Callable[[], ReplicationLog | None],
        routing: GoRouting,
        principal_uid: str,
        now: Callable[[], datetime],
    ) -> None:
        self._objects = objects
        self._current_log = current_log
        self._routing = routing
        self._principal_uid = principal_uid
        self._now = now
        self._replicas: dict[str, _GoReplica] = {}
        objects.listen(self._changed)

    def __len__(self) -> int:
        return sum(1 for replica in self._replicas.values() if replica.stream is not None)

    def number(self, identity: str) -> int | None:
        """Of the last event; None for whoever is no Go replica."""
        replica = self._replicas.get(identity)
        return None if replica is None else replica.number

    def _changed(self, key: ObjectKey, copy: Object | None, former: Object | None) -> None:
        for replica in self._replicas.values():
            replica.gone.pop(key, None)
            if copy is None and former is not None and key.kind in _TARGETS:
                replica.gone[key] = (0, former)
                if len(replica.gone) > MOST_GONE:
                    replica.gone.popitem(last=False)

    # The stream.

    async def serve(self, identity: str, stream: GoReplicaStream) -> None:
        replication_log = self._current_log()
        if replication_log is None:
            raise SurroundingsError("nothing is replicated from here now")
        replica = self._replicas.setdefault(identity, _GoReplica())
        cursor, replica.stream = replication_log.last, stream
        # Its first word acknowledges a snapshot, which tells of nothing that is gone.
        replica.gone = OrderedDict((key, (0, former)) for key, (_, former) in replica.gone.items())
        try:
            first = await self._first_word(stream)
            if first is not None:
                self._note(replica, first)
                await self._stream(replica, stream, replication_log, cursor)
        finally:
            if replica.stream is stream:
                replica.stream = None

    async def _first_word(self, stream: GoReplicaStream) -> int | None:
        try:
            async with asyncio.timeout(FIRST_ACK_SECONDS):
                return await stream.receive()
        except TimeoutError as error:
            raise SurroundingsError("waiting for initial ACK: it did not come") from error

    async def _stream(
        self, replica: _GoReplica, stream: GoReplicaStream, replication_log: ReplicationLog, cursor: int
    ) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                sending = group.create_task(self._send_all(replica, stream, replication_log, cursor))
                while (acknowledged := await stream.receive()) is not None:
                    self._note(replica, acknowledged)
                sending.cancel()
        except* (SurroundingsError, MalformedError) as errors:
            raise SurroundingsError(str(errors.exceptions[0])) from None

    def _note(self, replica: _GoReplica, acknowledged: int) -> None:
        """The same again and lower ones are usual."""
        replica.acknowledged = min(max(replica.acknowledged, acknowledged), replica.number)
        for key in [key for key, (number, _) in replica.gone.items() if 0 < number <= replica.acknowledged]:
            del replica.gone[key]

    async def _send_all(
        self, replica: _GoReplica, stream: GoReplicaStream, replication_log: ReplicationLog, cursor: int
    ) -> None:
        for key, (_, former) in list(replica.gone.items()):
            await self._send_gone(replica, stream, key, former)
        while True:
            await replication_log.grown(cursor)
            try:
                entries = replication_log.after(cursor, limit=BATCH_BYTES)
            except TruncatedError as error:
                # It fetches a snapshot when it comes back.
                raise SurroundingsError(f"the replica is too slow: {error}") from error
            for entry in entries:
                await self._send_entry(replica, stream, entry)
            cursor = entries[-1].sequence

    async def _send_entry(self, replica: _GoReplica, stream: GoReplicaStream, entry: LogEntry) -> None:
        if entry.key.kind not in _TARGETS:
            return  # GPG keys and clusters are in snapshots only
        item = self._objects.get(entry.key)
        if item is not None:
            await self._send(replica, stream, Message.SPEC_UPDATE, entry.key, item)
        elif entry.key in replica.gone:
            await self._send_gone(replica, stream, entry.key, replica.gone[entry.key][1])

    async def _send_gone(
        self, replica: _GoReplica, stream: GoReplicaStream, key: ObjectKey, former: Object
    ) -> None:
        await self._send(replica, stream, Message.DELETE, key, former)
        if key in replica.gone:
            replica.gone[key] = (replica.number, former)

    async def _send(
        self, replica: _GoReplica, stream: GoReplicaStream, message: Message, key: ObjectKey, item: Object
    ) -> None:
        """Once for each agent that has it."""
        event = to_cloudevent(
            object_event(
                message, target=_TARGETS[key.kind], obj=_go_object(item), principal_uid=self._principal_uid
            )
        )
        for agent in self._agents_of(key, item):
            if replica.stream is not stream:
                raise SurroundingsError("another stream of this replica has begun")
            replica.number += 1
            await stream.send(
                ReplicatedEvent(
                    event=event,
                    agent_name=agent,
                    direction="outbound",
                    sequence_num=replica.number,
                    processed_at_unix=int(self._now().timestamp()),
                )
            )
            metrics.FORWARDED.inc()

    def _agents_of(self, key: ObjectKey, item: Object) -> list[str]:
        """One event for each; a project's is its namespace, an ApplicationSet has none."""
        if key.kind == APPLICATION.name:
            return [self._routing.agent_of(item)]
        if key.kind == REPOSITORY.name:
            return list(self._routing.agents_of_repository(item))
        return [key.namespace if key.kind == PROJECT.name else ""]

    # Calls.

    def snapshot(self, identity: str) -> ReplicationSnapshot:
        """Raises SnapshotTooLargeError."""
        replica = self._replicas.setdefault(identity, _GoReplica())
        by_agent: dict[str, list[Resource]] = {name: [] for name, _ in self._routing.agents()}
        for _, item in self._objects.items(APPLICATION):
            by_agent.setdefault(self._routing.agent_of(item), []).append(_resource("Application", item))
        for _, item in self._objects.items(REPOSITORY):
            for agent in self._routing.agents_of_repository(item):
                by_agent.setdefault(agent, []).append(_resource("Repository", item))
        home = self._objects.scope.namespace
        projects = [_resource("AppProject", item) for _, item in self._objects.items(PROJECT)]
        by_agent.setdefault(home, []).extend(projects)
        modes = {**dict(self._routing.agents()), home: "autonomous"}
        snapshot = ReplicationSnapshot(
            agents=[
                AgentState(name=name, mode=modes.get(name, "unknown"), resources=resources)
                for name, resources in by_agent.items()
            ],
            last_sequence_num=replica.number,
            principal_resources=list(self._principal_resources()),
        )
        if snapshot.ByteSize() > MAX_SNAPSHOT_BYTES:
            metrics.GO_REFUSED.inc()
            raise SnapshotTooLargeError(
                f"the snapshot has {snapshot.ByteSize()} bytes, a replica of argocd-agent takes"
                f" {MAX_SNAPSHOT_BYTES}: use a replica of Tiphys"
            )
        return snapshot

    def _principal_resources(self) -> Iterator[Resource]:
        for _, item in self._objects.items(APPLICATION_SET):
            yield _resource("ApplicationSet", item)
        for _, item in self._objects.items(CLUSTER):
            if text(item, "metadata", "labels", names.SELF_REGISTERED_CLUSTER):
                yield _resource("ClusterSecret", item)

    def confirm(
        self, identity: str, request: ConfirmMissingResourcesRequest
    ) -> ConfirmMissingResourcesResponse:
        """Of what is replicated only, and of the agent's own: whoever asks for any other Secret learns nothing."""
        number = self.number(identity) or 0
        results = []
        for asked in request.resources:
            if request.snapshot_sequence_num != number:
                reason = f"the sequence has moved on to {number}"
                results.append(ConfirmMissingResourceResult(resource=asked, status="unknown", reason=reason))
            else:
                results.append(self._confirm(asked, request.agent_name))
        return ConfirmMissingResourcesResponse(results=results)

    def _confirm(self, asked: Resource, agent: str) -> ConfirmMissingResourceResult:
        kind = _KINDS.get(asked.kind)
        if kind is None or not asked.name:
            return ConfirmMissingResourceResult(
                resource=asked, status="unknown", reason="resource could not be serialized"
            )
        key = ObjectKey(kind.name, asked.namespace, asked.name)
        item = self._objects.get(key)
        if item is None:
            if kind is not APPLICATION and asked.namespace != self._objects.scope.namespace:
                reason = "not a replicated resource"
                return ConfirmMissingResourceResult(resource=asked, status="unknown", reason=reason)
            return ConfirmMissingResourceResult(resource=asked, status="deleted")
        if agent not in self._agents_of(key, item):
            reason = f"not of agent {agent}"
            return ConfirmMissingResourceResult(resource=asked, status="unknown", reason=reason)
        return ConfirmMissingResourceResult(resource=_resource(asked.kind, item), status="exists")


def _resource(kind: str, item: Object) -> Resource:
    return Resource(
        name=text(item, "metadata", "name"),
        namespace=text(item, "metadata", "namespace"),
        kind=kind,
        uid=source_uid(item),
        data=orjson.dumps(_go_object(item)),
    )


def _go_object(item: Object) -> dict[str, Any]:
    """As it is stored but for what a Go replica stumbles over: a deletion that it cannot write, our marks, tokens. Its
    uid is the one that agents know.
    """
    copy = replicated_copy(item)
    metadata = {
        **copy["metadata"],
        "uid": source_uid(item),
        "resourceVersion": text(item, "metadata", "resourceVersion"),
        "annotations": {
            key: word
            for key, word in mapping(copy, "metadata", "annotations").items()
            if key != names.SOURCE_UID and not key.startswith("tiphys.dev/")
        },
    }
    return {
        **copy,
        "apiVersion": item.get("apiVersion", ""),
        "kind": item.get("kind", ""),
        "metadata": metadata,
    }
