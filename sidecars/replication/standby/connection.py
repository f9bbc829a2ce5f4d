"""The standby's way to its primary over grpc."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

import grpc
from grpc import aio

from sidecars.replication.envelopes import START_KEY, decode_primary, encode_replica
from sidecars.replication.handshake import Handshake, differences
from sidecars.replication.messages import PrimaryMessage, ReplicaMessage, ReplicaStart
from sidecars.replication.peer import PeerAnswer
from sidecars.replication.standby.go_primary import GoConnector, GoPrimaryStream, lost
from sidecars.wire.capabilities import grouped
from tiphys.errors import SurroundingsError

SUBSCRIBE = "/replicationapi.Replication/Subscribe"
CONNECT_SECONDS = 20.0
"""Until the primary has said who it is."""


class ConnectionController(Protocol):
    @property
    def handshake(self) -> Handshake: ...

    def heard(self, peer: Handshake) -> None: ...


class PeerConnector:
    """To whichever sort of primary the peer is, which its answer shows: argocd-agent's says nothing of itself."""

    def __init__(
        self, ask: Callable[[], Awaitable[PeerAnswer]], *, ours: "GrpcConnector", go: GoConnector
    ) -> None:
        self._ask = ask
        self._ours = ours
        self._go = go

    @asynccontextmanager
    async def __call__(self, start: ReplicaStart) -> AsyncIterator["GrpcReplicaStream | GoPrimaryStream"]:
        is_ours = (await self._ask()).handshake is not None
        async with (self._ours if is_ours else self._go)(start) as stream:
            yield stream


class GrpcReplicaStream:
    def __init__(self, call: Any, history: str) -> None:
        self._call = call
        self.history = history

    async def send(self, message: ReplicaMessage) -> None:
        try:
            await self._call.write(encode_replica(message))
        except (grpc.RpcError, aio.BaseError, asyncio.InvalidStateError) as error:
            raise lost(error) from error

    async def receive(self) -> PrimaryMessage | None:
        try:
            raw = await self._call.read()
        except (grpc.RpcError, aio.BaseError, asyncio.InvalidStateError) as error:
            raise lost(error) from error
        return None if raw is aio.EOF else decode_primary(raw)


class GrpcConnector:
    """`channel` is the peer link's; it belongs to the link and stays open."""

    def __init__(self, channel: Callable[[], Any], *, controller: ConnectionController) -> None:
        self._channel = channel
        self._controller = controller

    @asynccontextmanager
    async def __call__(self, start: ReplicaStart) -> AsyncIterator[GrpcReplicaStream]:
        mine = self._controller.handshake
        call = self._channel().stream_stream(SUBSCRIBE)(
            metadata=[*mine.metadata(), (START_KEY, start.text())]
        )
        try:
            yield GrpcReplicaStream(call, await self._begun(call))
        finally:
            call.cancel()

    async def _begun(self, call: Any) -> str:
        """The primary's history, once it has said that it is one and ours."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                initial = await call.initial_metadata()
                theirs = Handshake.of(grouped(initial))
                if theirs is None:
                    # A refusal: its words come with the end of the call.
                    code, words = await call.code(), await call.details()
                    self._hear(Handshake.of(grouped(await call.trailing_metadata())))
                    raise SurroundingsError(f"the primary does not replicate to us: {code.name}: {words}")
        except TimeoutError as error:
            raise SurroundingsError(f"the primary has not answered for {CONNECT_SECONDS:.0f} s") from error
        except aio.AioRpcError as error:
            self._hear(Handshake.of(grouped(error.trailing_metadata())))
            raise lost(error) from error
        self._hear(theirs)
        mine = self._controller.handshake
        if found := differences(mine, theirs):
            raise SurroundingsError(f"these two are no pair: {'; '.join(found)}")
        if not theirs.state.serves:
            raise SurroundingsError(f"the peer is {theirs.state.value}, not active")
        if theirs.epoch < mine.epoch:
            raise SurroundingsError(f"the peer's epoch {theirs.epoch} is lower than ours, {mine.epoch}")
        return theirs.history

    def _hear(self, theirs: Handshake | None) -> None:
        """Also what a refusal says: a higher epoch counts wherever it is told."""
        if theirs is not None and not differences(self._controller.handshake, theirs):
            self._controller.heard(theirs)
