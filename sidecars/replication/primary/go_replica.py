"""argocd-agent's own replicas: a numbering of their own without gaps, events and snapshots in their words.

A Go replica takes a skipped number for a loss and fetches everything again, so only what it is sent has a number. It
forgets at each restart what it had: what is gone is kept here until it has acknowledged that.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from argocd import names
from argocd.agents.vocabulary import Message, Target
from argocd.reading import text
from kube import queries
from kube.errors import ApiError
from kube.resources import SECRETS
from kube.store import Object, Store
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
from sidecars.replication.primary.go_deletions import UnacknowledgedDeletions
from sidecars.replication.primary.go_objects import go_object, go_resource
from sidecars.replication.primary.log import LogEntry, ReplicationLog, TruncatedError
from sidecars.wire.envelopes import to_cloudevent
from sidecars.wire.errors import MalformedError
from sidecars.wire.events import object_event
from sidecars.wire.generated.cloudevents_pb2 import CloudEvent
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
LIST_SECONDS = 20.0
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
    gone: UnacknowledgedDeletions
    number: int = 0
    """Of the last event that it was sent."""
    acknowledged: int = 0
    stream: "GoReplicaStream | None" = None
    """The newest: one that lingers would use up its numbers."""
    repositories: set[ObjectKey] = field(default_factory=set)
    """Those that it was told of: it has them still when no agent does any more."""


class GoReplicas:
    def __init__(
        self,
        objects: ReplicatedObjects,
        *,
        store: Store,
        current_log: Callable[[], ReplicationLog | None],
        routing: GoRouting,
        principal_uid: str,
        now: Callable[[], datetime],
        holding: Callable[[], bool] = lambda: False,
    ) -> None:
        """`holding`: since a promotion, what this primary does not know may be the last creations of the old one."""
        self._objects = objects
        self._store = store
        self._current_log = current_log
        self._routing = routing
        self._principal_uid = principal_uid
        self._now = now
        self._holding = holding
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
            replica.gone.discard(key)
            if copy is None and former is not None and key.kind in _TARGETS:
                agents = self._agents_of(key, former)
                if not agents and key in replica.repositories:
                    agents = [""]  # nobody's any more, but the replica has it
                if agents:
                    replica.gone.add(key, former, agents)

    def _replica(self, identity: str) -> _GoReplica:
        return self._replicas.setdefault(identity, _GoReplica(UnacknowledgedDeletions(identity)))

    # The stream.

    async def serve(self, identity: str, stream: GoReplicaStream) -> None:
        replication_log = self._current_log()
        if replication_log is None:
            raise SurroundingsError("nothing is replicated from here now")
        replica = self._replica(identity)
        cursor, replica.stream = replication_log.last, stream
        replica.gone.begin()
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
                tasks = (
                    group.create_task(self._send_all(replica, stream, replication_log, cursor)),
                    group.create_task(_until_overflow(replica.gone)),
                )
                while (acknowledged := await stream.receive()) is not None:
                    self._note(replica, acknowledged)
                for task in tasks:
                    task.cancel()
        except* (SurroundingsError, MalformedError) as errors:
            raise SurroundingsError(str(errors.exceptions[0])) from None

    def _note(self, replica: _GoReplica, acknowledged: int) -> None:
        """The same again and lower ones are usual."""
        replica.acknowledged = min(max(replica.acknowledged, acknowledged), replica.number)
        replica.repositories.difference_update(replica.gone.acknowledge(replica.acknowledged))

    async def _send_all(
        self, replica: _GoReplica, stream: GoReplicaStream, replication_log: ReplicationLog, cursor: int
    ) -> None:
        for key in replica.gone:
            await self._send_gone(replica, stream, key)
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
            return  # clusters are in snapshots only, and it takes nothing else
        item = self._objects.get(entry.key)
        if item is None:
            await self._send_gone(replica, stream, entry.key)
            return
        agents = self._agents_of(entry.key, item)
        if agents and entry.key.kind == REPOSITORY.name:
            replica.repositories.add(entry.key)
        event = self._event(Message.SPEC_UPDATE, entry.key, go_object(item))
        await self._send(replica, stream, event, agents)

    async def _send_gone(self, replica: _GoReplica, stream: GoReplicaStream, key: ObjectKey) -> None:
        deletion = replica.gone.get(key)
        if deletion is None:
            return
        event = self._event(Message.DELETE, key, deletion.item)
        await self._send(replica, stream, event, deletion.agents)
        deletion.number = replica.number

    def _event(self, message: Message, key: ObjectKey, item: Mapping[str, Any]) -> CloudEvent:
        target = _TARGETS[key.kind]
        return to_cloudevent(
            object_event(message, target=target, obj=item, principal_uid=self._principal_uid)
        )

    async def _send(
        self, replica: _GoReplica, stream: GoReplicaStream, event: CloudEvent, agents: Iterable[str]
    ) -> None:
        """Once for each agent that has it."""
        for agent in agents:
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
        replica = self._replica(identity)
        replica.repositories = {
            key for key in replica.repositories if key in replica.gone or self._objects.get(key) is not None
        }
        by_agent: dict[str, list[Resource]] = {name: [] for name, _ in self._routing.agents()}
        for _, item in self._objects.items(APPLICATION):
            by_agent.setdefault(self._routing.agent_of(item), []).append(go_resource("Application", item))
        for key, item in self._objects.items(REPOSITORY):
            for agent in self._routing.agents_of_repository(item):
                by_agent.setdefault(agent, []).append(go_resource("Repository", item))
                replica.repositories.add(key)
        home = self._objects.scope.namespace
        projects = [go_resource("AppProject", item) for _, item in self._objects.items(PROJECT)]
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
            yield go_resource("ApplicationSet", item)
        for _, item in self._objects.items(CLUSTER):
            if text(item, "metadata", "labels", names.SELF_REGISTERED_CLUSTER):
                yield go_resource("ClusterSecret", item)

    async def confirm(
        self, identity: str, request: ConfirmMissingResourcesRequest
    ) -> ConfirmMissingResourcesResponse:
        """Of what is replicated only, and of the agent's own: whoever asks for any other Secret learns nothing.

        It deletes what it is told to be deleted, asks again about what is unknown.
        """
        secrets = (
            await self._secrets() if any(each.kind == "Repository" for each in request.resources) else None
        )
        number = self.number(identity) or 0
        results = []
        for asked in request.resources:
            if request.snapshot_sequence_num != number:
                reason = f"the sequence has moved on to {number}"
                results.append(ConfirmMissingResourceResult(resource=asked, status="unknown", reason=reason))
            else:
                replica = self._replicas.get(identity)
                results.append(self._confirm(asked, request.agent_name, replica, secrets))
        return ConfirmMissingResourcesResponse(results=results)

    async def _secrets(self) -> frozenset[str] | None:
        """The names of all that there are, of whatever sort; None where nobody can tell."""
        found: set[str] = set()
        listing = queries.pages(
            self._store, SECRETS, namespace=self._objects.scope.namespace, metadata_only=True
        )
        try:
            async with asyncio.timeout(LIST_SECONDS), aclosing(listing) as pages:
                async for page in pages:
                    found.update(text(item, "metadata", "name") for item in page)
        except (ApiError, TimeoutError) as error:
            log.warning("missing repositories are not confirmed", **{logs.ERROR: str(error) or "no answer"})
            return None
        return frozenset(found)

    def _confirm(
        self, asked: Resource, agent: str, replica: _GoReplica | None, secrets: frozenset[str] | None
    ) -> ConfirmMissingResourceResult:
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
            if self._holding() and (replica is None or key not in replica.gone):
                reason = "not known here since a promotion: `tiphys ha release` lets it go"
                return ConfirmMissingResourceResult(resource=asked, status="unknown", reason=reason)
            if kind is REPOSITORY and (secrets is None or asked.name in secrets):
                reason = (
                    "a Secret of that name is no repository" if secrets else "the API server does not tell"
                )
                return ConfirmMissingResourceResult(resource=asked, status="unknown", reason=reason)
            return ConfirmMissingResourceResult(resource=asked, status="deleted")
        if agent not in self._agents_of(key, item):
            reason = f"not of agent {agent}"
            return ConfirmMissingResourceResult(resource=asked, status="unknown", reason=reason)
        return ConfirmMissingResourceResult(resource=go_resource(asked.kind, item), status="exists")


async def _until_overflow(gone: UnacknowledgedDeletions) -> None:
    """It comes back with the list of what it has, of which it is told what is gone."""
    await gone.overflowed.wait()
    raise SurroundingsError("the replica has not acknowledged too many deletions")
