"""The way to the other principal of the pair, with our own certificate."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from grpc import aio

from certs.key_pair import Material
from sidecars.replication.handshake import Handshake
from sidecars.replication.report import PeerReport
from sidecars.wire.client.dialer import DEFAULT_KEEPALIVE_SECONDS, USER_AGENT
from sidecars.wire.generated.replication_pb2 import ReplicationStatus, StatusRequest
from sidecars.wire.streams import DEFAULT_MAX_MESSAGE_BYTES
from sidecars.wire.tls import channel_credentials
from tiphys.errors import CallError, SurroundingsError

STATUS = "/replicationapi.Replication/Status"
# Two regions are 0.3 s apart; a peer that is busy answers this first.
ASK_SECONDS = 5.0
# Whoever answers with one of these has done nothing. Anything else may come from a call that was half done.
_REFUSALS = {
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.UNIMPLEMENTED,
}


class PeerUnreachableError(SurroundingsError):
    """No answer, or one that says nothing: what the peer is, and whether it did what it was asked to, is not known."""


class PeerRefusedError(SurroundingsError):
    """It answered, and did not like us; `handshake` is what it said of itself all the same."""

    def __init__(self, message: str, handshake: Handshake | None) -> None:
        super().__init__(message)
        self.handshake = handshake


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerAnswer:
    handshake: Handshake | None
    """None from a principal of argocd-agent's."""
    sequence: int = 0
    replicas: int = 0
    report: PeerReport | None = None
    plain_state: str = ""
    """Of one of argocd-agent's, where its health check tells it."""


class PeerLink:
    """One channel, made anew when the certificates change."""

    def __init__(self, address: str, material: Material | None, *, mine: Callable[[], Handshake]) -> None:
        host, colon, port = address.rpartition(":")
        if not (colon and host and port.isdecimal() and 0 < int(port) < 65536):  # noqa: PLR2004 - of TCP
            raise CallError(f"--ha-peer-address {address}: write host:port")
        self.address = address
        self._material = material
        self._mine = mine
        self._channel: Any = None
        self._old: set[asyncio.Task[None]] = set()

    def swap(self, material: Material) -> None:
        """Calls under way go on over the old channel for a while."""
        self._material = material
        if self._channel is not None:
            task = asyncio.get_running_loop().create_task(self._channel.close(grace=ASK_SECONDS))
            self._old.add(task)
            task.add_done_callback(self._old.discard)
            self._channel = None

    def channel(self) -> Any:
        if self._channel is None:
            options = [
                ("grpc.primary_user_agent", USER_AGENT),
                ("grpc.max_receive_message_length", DEFAULT_MAX_MESSAGE_BYTES),
                ("grpc.max_send_message_length", DEFAULT_MAX_MESSAGE_BYTES),
                ("grpc.keepalive_time_ms", int(DEFAULT_KEEPALIVE_SECONDS * 1000)),
                # Found again soon after it was away: an operator may be waiting.
                ("grpc.max_reconnect_backoff_ms", int(ASK_SECONDS * 1000)),
            ]
            if self._material is None:
                self._channel = aio.insecure_channel(self.address, options=options)
            else:
                credentials = channel_credentials(self._material)
                self._channel = aio.secure_channel(self.address, credentials, options=options)
        return self._channel

    async def call(self, path: str, request: bytes, *, seconds: float) -> tuple[bytes, Any]:
        """The answer and its trailing metadata. Raises PeerUnreachableError or PeerRefusedError."""
        call = self.channel().unary_unary(path)(request, metadata=self._mine().metadata(), timeout=seconds)
        try:
            return await call, await call.trailing_metadata()
        except aio.AioRpcError as error:
            words = f"{self.address}: {error.code().name}: {error.details() or 'no answer'}"
            if error.code() in _REFUSALS:
                raise PeerRefusedError(words, Handshake.of(error.trailing_metadata())) from error
            raise PeerUnreachableError(words) from error

    async def ask(self, *, seconds: float = ASK_SECONDS) -> PeerAnswer:
        """Answered in every state."""
        raw, trailing = await self.call(STATUS, StatusRequest().SerializeToString(), seconds=seconds)
        try:
            status = ReplicationStatus.FromString(raw)
        except DecodeError as error:
            raise PeerUnreachableError(f"{self.address}: answers something else") from error
        return PeerAnswer(
            handshake=Handshake.of(trailing),
            sequence=status.current_sequence_num,
            replicas=status.connected_replicas,
            report=PeerReport.read(status.report),
        )

    async def close(self) -> None:
        if self._channel is not None:
            channel, self._channel = self._channel, None
            await channel.close()
