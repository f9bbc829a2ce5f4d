"""A primary of argocd-agent, followed as if it were one of ours: its words turned into ours.

It has no epoch and no history, its sequence begins anew with each of its restarts, and it says in no call whether it is
active: only its health page does. What it forwards are messages, not stored state; so an object that a message does not
show as it is stored is asked for, a deletion counts once the primary confirms it, and nothing is deleted by absence: a
copy that a snapshot lacks is asked about, and nothing but a copy.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import aiohttp
import grpc
import orjson
from google.protobuf.message import DecodeError
from grpc import aio

from argocd.agents.identity import is_managed, source_uid
from argocd.agents.project_copies import prefixed_name
from argocd.agents.replication import replicated_copy
from argocd.agents.vocabulary import Message, Target
from argocd.reading import text
from kube.store import Object
from sidecars.replication.kinds import APPLICATION, APPLICATION_SET, CLUSTER, PROJECT, REPOSITORY, ObjectKey
from sidecars.replication.messages import (
    MOST_ABSENT,
    Absences,
    PrimaryMessage,
    PrimaryWord,
    ReplicaMessage,
    ReplicaStart,
    ReplicatedItem,
    RunningHash,
    SnapshotEnd,
    checksum,
    encode,
    encode_items,
)
from sidecars.replication.objects import ReplicatedObjects
from sidecars.wire.envelopes import from_cloudevent
from sidecars.wire.errors import MalformedError
from sidecars.wire.events import Event
from sidecars.wire.generated.replication_pb2 import (
    ConfirmMissingResourcesRequest,
    ConfirmMissingResourcesResponse,
    ReplicatedEvent,
    ReplicationAck,
    ReplicationSnapshot,
    ReplicationStatus,
    Resource,
)
from sidecars.wire.json_objects import read_object
from tiphys.errors import SurroundingsError

SERVICE = "/replicationapi.Replication/"
CALL_SECONDS = 60.0
TICK_SECONDS = 5.0
"""Between two words of progress where the primary says nothing; then what it could not confirm is asked again."""
HEALTH_SECONDS = 5.0
MOST_ASKED = 500
"""Objects in one question: the answer, with those that exist, stays below 4 MiB."""
HISTORY = "argocd-agent"
"""What the name of each history of such a primary begins with."""

_KINDS = {
    Target.APPLICATION: (APPLICATION, "Application"),
    Target.PROJECT: (PROJECT, "AppProject"),
    Target.APPLICATION_SET: (APPLICATION_SET, "ApplicationSet"),
    Target.REPOSITORY: (REPOSITORY, "Repository"),
}
_BY_RESOURCE = {
    "Application": APPLICATION,
    "AppProject": PROJECT,
    "ApplicationSet": APPLICATION_SET,
    "Repository": REPOSITORY,
    "ClusterSecret": CLUSTER,
}
_STORED = {Message.CREATE, Message.SPEC_UPDATE, Message.TERMINATE_OPERATION}

HealthCheck = Callable[[], Awaitable[str]]
"""The state that the primary's health page shows; raises SurroundingsError."""


def health_page(url: str) -> HealthCheck:
    """`http://<peer>:8003/healthz`: the one place where argocd-agent says what it is."""

    async def check() -> str:
        if not url:
            raise SurroundingsError(
                "the peer is argocd-agent's, which is followed only where --ha-peer-health-url shows that it is active"
            )
        try:
            timeout = aiohttp.ClientTimeout(total=HEALTH_SECONDS)
            async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as answer:
                return answer.headers.get("X-HA-State", "")
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise SurroundingsError(f"{url}: {error or 'no answer'}") from error

    return check


def lost(error: BaseException) -> SurroundingsError:
    if isinstance(error, aio.AioRpcError):
        words = f"{error.code().name}: {(error.details() or 'no answer')[:300]}"
    else:
        words = str(error)[:300] or "closed"
    return SurroundingsError(f"the stream from the primary is lost: {words}")


class GoConnector:
    """A `standby.follower.Connect` to a primary of argocd-agent."""

    def __init__(
        self, channel: Callable[[], Any], *, objects: ReplicatedObjects, health: HealthCheck
    ) -> None:
        self._channel = channel
        self._objects = objects
        self._health = health

    @asynccontextmanager
    async def __call__(self, _start: ReplicaStart) -> AsyncIterator["GoPrimaryStream"]:
        await self._check()
        call = self._channel().stream_stream(SERVICE + "Subscribe")()
        try:
            snapshot = await self._called("GetSnapshot", b"", ReplicationSnapshot)
            yield GoPrimaryStream(call, snapshot, objects=self._objects, ask=self._called, check=self._check)
        finally:
            call.cancel()

    async def _check(self) -> None:
        state = await self._health()
        if state != "active":
            raise SurroundingsError(f"the peer is {state or 'in no known state'}, not active")

    async def _called(self, name: str, request: bytes, kind: type[Any]) -> Any:
        try:
            raw = await self._channel().unary_unary(SERVICE + name)(request, timeout=CALL_SECONDS)
            return kind.FromString(raw)
        except aio.AioRpcError as error:
            raise SurroundingsError(
                f"{name}: {error.code().name}: {(error.details() or '')[:300]}"
            ) from error
        except DecodeError as error:
            raise SurroundingsError(f"{name}: the answer is no {kind.__name__}") from error


class GoPrimaryStream:
    """A `standby.follower.FollowedStream`; each connection is a history of its own."""

    def __init__(
        self,
        call: Any,
        snapshot: ReplicationSnapshot,
        *,
        objects: ReplicatedObjects,
        ask: Callable[[str, bytes, type[Any]], Awaitable[Any]],
        check: Callable[[], Awaitable[None]],
    ) -> None:
        self.history = f"{HISTORY} {uuid4()}"
        self._call = call
        self._objects = objects
        self._ask = ask
        self._check = check
        self._sequence = int(snapshot.last_sequence_num)
        self._number = 0
        self._said: deque[PrimaryMessage] = deque()
        self._unconfirmed: dict[ObjectKey, tuple[str, str]] = {}
        """Deletions that the primary has told of and not confirmed: the resource's kind and the agent."""
        self._absent: dict[ObjectKey, str] = {}
        """Copies that the snapshot lacks, and their resource's kind: whether they are gone is asked."""
        self._present: dict[str, int] = {}
        self._acknowledged = -1
        self._reading: asyncio.Future[Any] | None = None
        self._ticks = 0
        self._tell_snapshot(snapshot)

    async def send(self, message: ReplicaMessage) -> None:
        """Its first word lets the stream begin; the same again is left out."""
        if message.acknowledged < self._sequence and self._acknowledged < 0:
            return  # the snapshot is not written yet
        if message.acknowledged == self._acknowledged:
            return
        self._acknowledged = message.acknowledged
        try:
            await self._call.write(
                ReplicationAck(acked_sequence_num=message.acknowledged).SerializeToString()
            )
        except (grpc.RpcError, aio.BaseError, asyncio.InvalidStateError) as error:
            raise lost(error) from error

    async def receive(self) -> PrimaryMessage | None:
        if self._said:
            return self._said.popleft()
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._call.read())
        done, _ = await asyncio.wait({self._reading}, timeout=TICK_SECONDS)
        if not done:
            await self._tick()
            return self._said.popleft()
        reading, self._reading = self._reading, None
        try:
            raw = reading.result()
        except (grpc.RpcError, aio.BaseError, asyncio.InvalidStateError) as error:
            raise lost(error) from error
        if raw is aio.EOF:
            return None
        await self._translate(ReplicatedEvent.FromString(raw))
        return self._said.popleft()

    # A snapshot, in our words.

    def _tell_snapshot(self, snapshot: ReplicationSnapshot) -> None:
        self._tell(PrimaryWord.BEHIND)
        resources = [*snapshot.principal_resources]
        resources += [each for agent in snapshot.agents for each in agent.resources]
        items = [item for each in resources if (item := self._item(each)) is not None]
        self._find_absent(resources)
        for kind in _BY_RESOURCE.values():
            of_kind = [item for item in items if item.key.kind == kind.name]
            running = RunningHash()
            for item in of_kind:
                running.add(item)
                self._tell(PrimaryWord.OBJECTS, encode_items([item]))
            if of_kind:
                end = SnapshotEnd(kind=kind.name, count=running.count, hash=running.text)
                self._tell(PrimaryWord.COMPLETE, encode(end))
        self._tell(PrimaryWord.SYNCED, complete=True)

    def _item(self, resource: Resource) -> ReplicatedItem | None:
        """None for what came without its data: it is neither written nor taken for gone."""
        kind = _BY_RESOURCE.get(resource.kind)
        if kind is None or not resource.data:
            return None
        body = orjson.dumps(replicated_copy(read_object(resource.data)))
        return ReplicatedItem(ObjectKey(kind.name, resource.namespace, resource.name), self._sequence, body)

    def _find_absent(self, resources: list[Resource]) -> None:
        """Of what some primary has sent before; what was made here, nobody else need know."""
        told = {
            ObjectKey(kind.name, each.namespace, each.name)
            for each in resources
            if (kind := _BY_RESOURCE.get(each.kind)) is not None
        }
        for kind, called in _KINDS.values():
            self._present[kind.name] = sum(1 for key in told if key.kind == kind.name)
            for key, item in self._objects.items(kind):
                is_copy = is_managed(item) and source_uid(item) != text(item, "metadata", "uid")
                if is_copy and key not in told:
                    self._absent[key] = called

    # Events, in our words.

    async def _translate(self, replicated: ReplicatedEvent) -> None:
        if replicated.sequence_num > self._sequence + 1:
            raise SurroundingsError(
                f"event {replicated.sequence_num} came where {self._sequence + 1} was due: a snapshot helps"
            )
        self._sequence = max(self._sequence, int(replicated.sequence_num))
        items: list[ReplicatedItem] = []
        try:
            event = from_cloudevent(replicated.event)
            items = await self._items(event, replicated.agent_name, inbound=replicated.direction == "inbound")
        except MalformedError:
            pass  # Go forwards much that nobody needs
        self._tell(PrimaryWord.ENTRIES, encode_items(items), complete=True)

    async def _items(self, event: Event, agent: str, *, inbound: bool) -> list[ReplicatedItem]:
        kinds = _KINDS.get(Target(event.target)) if event.target in set(Target) else None
        if kinds is None:
            return []
        kind, called = kinds
        item = read_object(event.payload)
        namespace, name = text(item, "metadata", "namespace"), text(item, "metadata", "name")
        if inbound:
            # An agent's own names: where the principal keeps it follows from whose it is.
            namespace = self._objects.scope.home(kind, agent=agent, namespace=namespace)
            name = prefixed_name(agent, name) if kind is PROJECT else name
        key = ObjectKey(kind.name, namespace, name)
        self._absent.pop(key, None)
        if not inbound and event.type in _STORED:
            self._unconfirmed.pop(key, None)
            return [self._stored(key, item)]
        if inbound and event.type == Message.STATUS_UPDATE:
            there = self._objects.get(key)
            if there is not None and kind is APPLICATION:
                return [self._stored(key, {**there, "status": item.get("status")})]
        if not inbound and event.type != Message.DELETE:
            return []
        self._unconfirmed[key] = (called, agent)
        return await self._confirm([key], agent=agent)

    def _stored(self, key: ObjectKey, item: Object) -> ReplicatedItem:
        return ReplicatedItem(key, self._sequence, orjson.dumps(replicated_copy(item)))

    async def _confirm(self, keys: Sequence[ObjectKey], *, agent: str) -> list[ReplicatedItem]:
        """As the primary has them now; what it cannot tell is asked again."""
        items: list[ReplicatedItem] = []
        results = await self._confirmed({key: self._unconfirmed[key][0] for key in keys}, agent=agent)
        for key, resource in results.items():
            del self._unconfirmed[key]
            item = ReplicatedItem(key, self._sequence, None) if resource is None else self._item(resource)
            if item is not None:
                items.append(item)
        return items

    async def _confirm_all(self) -> list[ReplicatedItem]:
        """A question names one agent."""
        by_agent: dict[str, list[ObjectKey]] = {}
        for key, (_, agent) in self._unconfirmed.items():
            by_agent.setdefault(agent, []).append(key)
        return [
            item
            for agent, keys in by_agent.items()
            for start in range(0, len(keys), MOST_ASKED)
            for item in await self._confirm(keys[start : start + MOST_ASKED], agent=agent)
        ]

    async def _confirmed(
        self, asked: Mapping[ObjectKey, str], *, agent: str = ""
    ) -> dict[ObjectKey, Resource | None]:
        """What the primary can tell: the object, or None where it is gone."""
        request = ConfirmMissingResourcesRequest(
            agent_name=agent,
            snapshot_sequence_num=self._sequence,
            resources=[
                Resource(kind=called, namespace=key.namespace, name=key.name) for key, called in asked.items()
            ],
        )
        answer = await self._ask(
            "ConfirmMissingResources", request.SerializeToString(), ConfirmMissingResourcesResponse
        )
        results: dict[ObjectKey, Resource | None] = {}
        for result in answer.results:
            kind = _BY_RESOURCE.get(result.resource.kind)
            key = ObjectKey(kind.name if kind else "", result.resource.namespace, result.resource.name)
            if key in asked and result.status in {"exists", "deleted"}:
                results[key] = result.resource if result.status == "exists" else None
        return results

    async def _confirm_absent(self) -> None:
        """Many of them wait for an operator, as after a comparison of ours."""
        await self._check()
        gone: dict[str, list[str]] = {}
        asked = list(self._absent.items())
        for start in range(0, len(asked), MOST_ASKED):
            results = await self._confirmed(dict(asked[start : start + MOST_ASKED]))
            for key, resource in results.items():
                del self._absent[key]
                if resource is None:
                    gone.setdefault(key.kind, []).append(key.text)
                elif (item := self._item(resource)) is not None:
                    self._tell(PrimaryWord.ENTRIES, encode_items([item]))
        for kind, names in gone.items():
            for start in range(0, len(names), MOST_ABSENT):
                absences = Absences(
                    kind=kind,
                    total=len(names),
                    present=self._present[kind],
                    names=names[start : start + MOST_ABSENT],
                )
                self._tell(PrimaryWord.ABSENT, encode(absences))

    async def _tick(self) -> None:
        """Nothing came: what is open is asked, and whether the primary is still one."""
        self._ticks += 1
        items = await self._confirm_all()
        if items:
            self._tell(PrimaryWord.ENTRIES, encode_items(items), complete=True)
            return
        if self._absent:
            await self._confirm_absent()
        if self._ticks % 6 == 0:
            await self._check()
            status = await self._ask("Status", b"", ReplicationStatus)
            if status.current_sequence_num > self._sequence:
                raise SurroundingsError(
                    f"the primary is at {status.current_sequence_num}, {self._sequence} came: a snapshot helps"
                )
        self._tell(PrimaryWord.PROGRESS)

    def _tell(self, word: PrimaryWord, payload: bytes = b"", *, complete: bool = False) -> None:
        self._number += 1
        # What waits to be confirmed holds up what counts as written.
        done = complete and not self._unconfirmed
        self._said.append(
            PrimaryMessage(
                word=word,
                number=self._number,
                sequence=self._sequence,
                complete=self._sequence if done else 0,
                payload=payload,
                checksum=checksum(payload),
            )
        )
