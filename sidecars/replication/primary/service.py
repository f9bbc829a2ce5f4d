"""argocd-agent's Replication service, on the port of the agents: who calls, whether it may, and what it is told."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

import grpc
from google.protobuf.message import DecodeError
from grpc import aio

from sidecars.process.serving_gate import REJECTED
from sidecars.replication import metrics
from sidecars.replication.envelopes import MAX_START_BYTES, START_KEY, decode_replica, encode_primary
from sidecars.replication.handshake import Handshake, differences
from sidecars.replication.messages import PrimaryMessage, ReplicaMessage, ReplicaStart
from sidecars.replication.primary.go_replica import GoReplicas, SnapshotTooLargeError
from sidecars.replication.primary.source import ReplicaRefusedError, ReplicationSource
from sidecars.replication.report import PeerReport
from sidecars.wire.auth.caller import Caller, caller_of
from sidecars.wire.errors import MalformedError
from sidecars.wire.generated.replication_pb2 import (
    ConfirmMissingResourcesRequest,
    ReplicatedEvent,
    ReplicationAck,
    ReplicationStatus,
)
from sidecars.wire.refusals import RefusalLog, RefusedError
from tiphys import logs
from tiphys.errors import SurroundingsError

SERVICE = "replicationapi.Replication"
RECHECK_SECONDS = 2.0
"""A stream lives for months: whoever loses its authority, or its certificate its time, loses it within this."""
GO_PAUSE_SECONDS = 1.0
"""Before a replica of argocd-agent's is turned away: it is back at once, a thousand times a second."""

log = logs.get_logger()


class ServiceController(Protocol):
    """Whoever decides what this principal is."""

    @property
    def handshake(self) -> Handshake:
        """As of now."""
        ...

    @property
    def serves_replicas(self) -> bool: ...

    def called(self, identity: str, caller: Handshake) -> None:
        """What somebody who is allowed to call says of itself."""
        ...


class CallerAccess(Protocol):
    async def check(self, caller: Caller) -> str:
        """Who it is, by its certificate; raises RefusedError."""
        ...


class ReplicationService:
    """`handlers` are registered once and answer in every state."""

    def __init__(
        self,
        source: ReplicationSource,
        *,
        controller: ServiceController,
        access: CallerAccess,
        monotonic: Callable[[], float],
        go_replicas: GoReplicas | None = None,
        report: Callable[[], PeerReport] = PeerReport,
    ) -> None:
        """`go_replicas`: where replicas of argocd-agent are served too. `report`: what a peer is told of us."""
        self._report = report
        self._source = source
        self._go_replicas = go_replicas
        self._controller = controller
        self._access = access
        self._said = RefusalLog(monotonic)

    def handlers(self) -> list[Any]:
        calls = {
            "Subscribe": grpc.stream_stream_rpc_method_handler(self._subscribe),
            "Status": grpc.unary_unary_rpc_method_handler(self._status),
            "GetSnapshot": grpc.unary_unary_rpc_method_handler(self._snapshot),
            "ConfirmMissingResources": grpc.unary_unary_rpc_method_handler(self._confirm),
        }
        return [grpc.method_handlers_generic_handler(SERVICE, calls)]

    async def _status(self, _request: bytes, context: Any) -> bytes:
        async def answer(identity: str, caller: Caller) -> bytes:
            is_ours = Handshake.of(caller.metadata) is not None
            replicas, go = self._source.replicas(), self._go_replicas
            number = go.number(identity) if go is not None else None
            return ReplicationStatus(
                current_sequence_num=self._source.last_sequence if number is None else number,
                pending_events=max((replica.lag_events for replica in replicas), default=0),
                connected_replicas=len(replicas) + (len(go) if go is not None else 0),
                report=self._report().encoded() if is_ours else b"",
            ).SerializeToString()

        return await self._answered(context, answer, call="Status", in_every_state=True)

    async def _snapshot(self, _request: bytes, context: Any) -> bytes:
        async def answer(identity: str, _caller: Caller) -> bytes:
            return self._go().snapshot(identity).SerializeToString()

        return await self._answered(context, answer, call="GetSnapshot")

    async def _confirm(self, request: bytes, context: Any) -> bytes:
        async def answer(identity: str, _caller: Caller) -> bytes:
            try:
                asked = ConfirmMissingResourcesRequest.FromString(request)
            except DecodeError as error:
                raise MalformedError("not the message of this call") from error
            return (await self._go().confirm(identity, asked)).SerializeToString()

        return await self._answered(context, answer, call="ConfirmMissingResources")

    def _go(self) -> GoReplicas:
        if self._go_replicas is None:
            raise _refused(
                grpc.StatusCode.UNIMPLEMENTED, "only replicas of Tiphys are served here", label="a Go replica"
            )
        return self._go_replicas

    async def _subscribe(self, _requests: Any, context: Any) -> None:
        async def serve(identity: str, caller: Caller) -> bytes:
            if START_KEY not in caller.metadata:
                go = self._go()
                await context.send_initial_metadata(self._controller.handshake.metadata())
                await self._while_trusted(caller, go.serve(identity, GrpcGoReplicaStream(context)))
                return b""
            theirs = Handshake.of(caller.metadata)
            if theirs is None:
                raise MalformedError("a replica that does not say who it is")
            start = _start(caller)
            self._source.resumes(start)
            await context.send_initial_metadata(self._controller.handshake.metadata())
            serving = self._source.serve(
                identity, caller.address, GrpcPrimaryStream(context), start, principal=theirs.principal
            )
            await self._while_trusted(caller, serving)
            return b""

        await self._answered(context, serve, call="Subscribe")

    async def _while_trusted(self, caller: Caller, serving: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(serving, name="replica")
        try:
            while not (await asyncio.wait({task}, timeout=RECHECK_SECONDS))[0]:
                await self._access.check(caller)
            task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
            if not task.cancelled():
                task.exception()  # it has ended for another reason, which nobody may ask for any more

    async def _answered(
        self,
        context: Any,
        answer: Callable[[str, Caller], Awaitable[bytes]],
        *,
        call: str,
        in_every_state: bool = False,
    ) -> bytes:
        """What we are stands in the trailing metadata whatever the answer is."""
        caller = caller_of(context)
        try:
            identity = await self._access.check(caller)
            self._admit(identity, caller, in_every_state=in_every_state)
            return await answer(identity, caller)
        except RefusedError as error:
            refusal = error
        except ReplicaRefusedError as error:
            refusal = _refused(grpc.StatusCode.FAILED_PRECONDITION, str(error), label="from the future")
        except SnapshotTooLargeError as error:
            refusal = _refused(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error), label="too large")
        except (SurroundingsError, MalformedError) as error:
            metrics.FORWARDING_ERRORS.inc()
            code = (
                grpc.StatusCode.INVALID_ARGUMENT
                if isinstance(error, MalformedError)
                else grpc.StatusCode.UNAVAILABLE
            )
            refusal = _refused(code, str(error), label="ended")
        finally:
            context.set_trailing_metadata(self._controller.handshake.metadata())
        self._note(caller, refusal, call=call)
        if Handshake.of(caller.metadata) is None and refusal.code is grpc.StatusCode.FAILED_PRECONDITION:
            await asyncio.sleep(GO_PAUSE_SECONDS)
        await context.abort(refusal.code, refusal.message, tuple(self._controller.handshake.metadata()))
        raise refusal  # never reached: aborting raises

    def _admit(self, identity: str, caller: Caller, *, in_every_state: bool) -> None:
        theirs = Handshake.of(caller.metadata)
        mine = self._controller.handshake
        if theirs is not None:
            if found := differences(mine, theirs):
                raise _refused(
                    grpc.StatusCode.FAILED_PRECONDITION,
                    f"these two are no pair: {'; '.join(found)}",
                    label="no pair",
                )
            self._controller.called(identity, theirs)
            mine = self._controller.handshake
        if in_every_state:
            return
        if not self._controller.serves_replicas:
            REJECTED.labels(mine.state.value, "replication").inc()
            raise _refused(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"not replicating in state {mine.state.value}",
                label="not active",
            )
        if theirs is not None and theirs.epoch > mine.epoch:
            raise _refused(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"epoch {mine.epoch} here is lower than {theirs.epoch} there",
                label="lower epoch",
            )

    def _note(self, caller: Caller, refusal: RefusedError, *, call: str) -> None:
        missed = self._said.turn((call, refusal.reason))
        if missed is not None:
            log.warning(
                "replication call ended",
                **{
                    logs.OPERATION: call,
                    logs.PEER: caller.address,
                    logs.REASON: refusal.reason,
                    "again": missed,
                },
            )


class GrpcPrimaryStream:
    def __init__(self, context: Any) -> None:
        self._context = context

    async def send(self, message: PrimaryMessage) -> None:
        try:
            await self._context.write(encode_primary(message))
        except (grpc.RpcError, aio.BaseError, asyncio.InvalidStateError) as error:
            raise SurroundingsError(f"the stream to the replica is lost: {error}") from error

    async def receive(self) -> ReplicaMessage | None:
        try:
            raw = await self._context.read()
        except (grpc.RpcError, aio.BaseError, asyncio.InvalidStateError) as error:
            raise SurroundingsError(f"the stream to the replica is lost: {error}") from error
        return None if raw is aio.EOF else decode_replica(raw)


class GrpcGoReplicaStream:
    def __init__(self, context: Any) -> None:
        self._context = context

    async def send(self, event: ReplicatedEvent) -> None:
        try:
            await self._context.write(event.SerializeToString())
        except (grpc.RpcError, aio.BaseError, asyncio.InvalidStateError) as error:
            raise SurroundingsError(f"the stream to the replica is lost: {error}") from error

    async def receive(self) -> int | None:
        try:
            raw = await self._context.read()
            return None if raw is aio.EOF else int(ReplicationAck.FromString(raw).acked_sequence_num)
        except (grpc.RpcError, aio.BaseError, asyncio.InvalidStateError) as error:
            raise SurroundingsError(f"the stream to the replica is lost: {error}") from error
        except DecodeError as error:
            raise MalformedError("the replica sent no acknowledgement") from error


def _start(caller: Caller) -> ReplicaStart:
    text = "".join(caller.metadata.get(START_KEY, ())[:1])
    if len(text) > MAX_START_BYTES:
        raise MalformedError(f"a start of {len(text)} bytes")
    return ReplicaStart.read(text)


def _refused(code: grpc.StatusCode, words: str, *, label: str) -> RefusedError:
    return RefusedError(code, words, reason=words, label=label)
