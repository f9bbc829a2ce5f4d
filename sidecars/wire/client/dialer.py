"""An agent's way to its principal: dial, ask the version, log in, open the stream.

A Go principal lets in only agents of its own version, so the version is asked for first and, unless the
principal is one of ours, sent back as our own.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from grpc import aio

from argocd.agents.vocabulary import Mode
from certs.key_pair import Material
from sidecars.wire import capabilities
from sidecars.wire.auth.passwords import Login
from sidecars.wire.auth.tokens import Holder, TokenError, issued_at, peek
from sidecars.wire.capabilities import VERSION_PREFIX, Capabilities, grouped
from sidecars.wire.client.pinning import pinned
from sidecars.wire.data_streams import OpenedDataStream
from sidecars.wire.events import AGENT_SOURCE, Event
from sidecars.wire.generated.auth_pb2 import AuthRequest, AuthResponse, RefreshTokenRequest
from sidecars.wire.generated.version_pb2 import VersionRequest, VersionResponse
from sidecars.wire.streams import DEFAULT_MAX_MESSAGE_BYTES, EventStream, StreamLostError
from sidecars.wire.tls import channel_credentials
from tiphys.errors import CallError, SurroundingsError

# What Go agents call themselves; proxies may tell agents apart by it.
USER_AGENT = "argocd-agent/v0.0.1"

# For one call of the handshake. A principal that restarts answers a thousand logins within 15 s; who gives up
# before makes it begin anew.
CALL_SECONDS = 30.0
# Clocks differ, and a call takes a moment to arrive.
TOKEN_MARGIN_SECONDS = 60.0
# A Go principal closes the connection of whoever pings more often than every five minutes.
DEFAULT_KEEPALIVE_SECONDS = 360.0

# How grpc's servers, in Go and in C, say that a message is more than they take.
_TOO_LARGE = re.compile(r"larger than max \(\d{1,12} vs\. (\d{1,12})\)")

# Trying again does not help before somebody has changed something.
_HOPELESS = {
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.UNIMPLEMENTED,
}


class DialError(SurroundingsError):
    """`hopeless` where the principal answered and did not like what it saw."""

    def __init__(self, message: str, *, code: str, hopeless: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.hopeless = hopeless


@dataclass(frozen=True, slots=True, kw_only=True)
class DialOptions:
    """`material` None means plaintext. `skip_verification` believes whatever certificate is shown."""

    host: str
    port: int = 443
    material: Material | None = None
    skip_verification: bool = False
    method: str = "mtls"
    login: Login | None = None
    mode: Mode
    namespace: str
    version: str
    compression: bool = False
    keepalive_seconds: float = 0
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    principal_takes: int = 0
    """Bytes of one message, where an earlier stream has shown it and the principal does not announce it."""
    announcement: Capabilities = field(default_factory=lambda: Capabilities(capabilities.OURS))

    admit: Callable[[Capabilities], Awaitable[None]] | None = None
    """Raises DialError where a principal that announces this must not be obeyed."""

    def check(self) -> None:
        if not self.host:
            raise CallError("--server-address: the principal's name is needed")
        if self.method == "userpass" and self.login is None:
            raise CallError("--creds userpass:<file>: the file with the agent's login is needed")
        if self.method == "mtls" and (self.material is None or self.material.pair is None):
            raise CallError("--creds mtls: needs TLS and a client certificate")
        if self.method == "header" and self.material is not None:
            raise CallError("--creds header: needs --insecure-plaintext: the mesh does the rest")

    @property
    def target(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class PrincipalInfo:
    """What it said of itself."""

    version: str
    namespace: str
    announced: Capabilities


class AgentConnection:
    """An open stream to the principal."""

    def __init__(
        self, dialing: DialOptions, channel: Any, principal: PrincipalInfo, tokens: AuthResponse
    ) -> None:
        self._dialing = dialing
        self._channel = channel
        self._closed = False
        self._tokens = tokens
        self._renewing = asyncio.Lock()
        self.principal = principal
        self.me = _holder(tokens)
        self.extensions = dialing.announcement.common(principal.announced)
        self._call = channel.stream_stream("/eventstreamapi.EventStream/Subscribe")(
            metadata=[("authorization", tokens.accessToken), *self._announcement().metadata()]
        )
        self._stream = EventStream(
            read=lambda: self._unless_closed(self._call.read()),
            write=lambda raw: self._unless_closed(self._call.write(raw)),
            extensions=self.extensions,
            label=dialing.target,
            source=AGENT_SOURCE,
            max_message_bytes=dialing.max_message_bytes,
            peer_takes=principal.announced.max_message_bytes or dialing.principal_takes,
        )

    async def announced(self) -> Capabilities:
        """With this stream, by a principal of ours; argocd-agent's says nothing before its first event."""
        try:
            async with asyncio.timeout(CALL_SECONDS):
                metadata = await self._unless_closed(self._call.initial_metadata())
        except (TimeoutError, StreamLostError) as error:
            raise DialError("Subscribe: no answer in time", code="DEADLINE_EXCEEDED") from error
        return Capabilities.of(grouped(metadata))

    async def send(self, event: Event) -> None:
        await self._stream.send(event)

    async def send_many(self, events: Iterable[Event]) -> None:
        await self._stream.send_many(events)

    async def receive(self) -> Event | None:
        return await self._stream.receive()

    async def refused_size(self) -> int:
        """What the principal takes in one message, where that is why it ended the stream; else 0.

        Our own limit gives the same words about what the principal sent, and then says nothing of this.
        """
        if not self._call.done() or await self._call.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
            return 0
        found = _TOO_LARGE.search(await self._call.details() or "")
        limit = int(found[1]) if found else 0
        return limit if limit < self._dialing.max_message_bytes else 0

    async def open_data_stream(self, path: str) -> OpenedDataStream:
        """A call beside the stream of events; raises DialError where the login cannot be renewed."""
        await self._renew_token()
        call = self._channel.stream_stream(f"/{path}")(metadata=[("authorization", self._tokens.accessToken)])
        return OpenedDataStream(call, label=self._dialing.target, closed=lambda: self._closed)

    async def _renew_token(self) -> None:
        """An access token is good for five minutes, the stream for a day."""
        async with self._renewing:
            if peek(self._tokens.accessToken)[1] > time.time() + TOKEN_MARGIN_SECONDS:
                return
            self._tokens, _ = await _called(
                self._channel,
                "/authapi.Authentication/RefreshToken",
                RefreshTokenRequest(refreshToken=self._tokens.refreshToken),
                AuthResponse,
            )

    async def close(self) -> None:
        self._closed = True
        self._call.cancel()
        await self._channel.close()

    async def _unless_closed(self, waiting: Awaitable[Any]) -> Any:
        """Grpc answers who waits on a closed call with a cancellation; only the task's own is one."""
        try:
            return await waiting
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._closed or (task is not None and task.cancelling()):
                raise
        raise StreamLostError("the stream was closed on our side", code="CANCELLED")

    def _announcement(self) -> Capabilities:
        ours = replace(self._dialing.announcement, max_message_bytes=self._dialing.max_message_bytes)
        if self._dialing.compression:
            return replace(ours, extensions=ours.extensions | {capabilities.GZIP})
        return ours


async def connect(dialing: DialOptions) -> AgentConnection:
    """One attempt; raises DialError with the reason."""
    dialing.check()
    channel = await _channel(dialing)
    try:
        principal, tokens = await _logged_in(dialing, channel)
        if dialing.admit is not None:
            await dialing.admit(principal.announced)
        connection = AgentConnection(dialing, channel, principal, tokens)
        if dialing.admit is not None and principal.announced.extensions:
            # Its role may have changed since it told its version, which it does in every role.
            announced = await connection.announced()
            if announced != principal.announced:
                await dialing.admit(announced)
        return connection
    except BaseException:
        await channel.close()
        raise


@dataclass(frozen=True, slots=True)
class TrialLogin:
    """`clock` is the principal's time when it issued the token, in seconds since 1970."""

    me: Holder
    principal: PrincipalInfo
    clock: float


async def try_login(dialing: DialOptions) -> TrialLogin:
    """The whole way but for the stream: one that an agent has open stays as it is."""
    dialing.check()
    channel = await _channel(dialing)
    try:
        principal, tokens = await _logged_in(dialing, channel)
        return TrialLogin(_holder(tokens), principal, issued_at(tokens.accessToken))
    except TokenError as error:
        raise DialError(f"the principal's answer: {error}", code="INTERNAL", hopeless=True) from error
    finally:
        await channel.close()


async def _logged_in(dialing: DialOptions, channel: Any) -> tuple[PrincipalInfo, AuthResponse]:
    answer, metadata = await _called(
        channel, "/versionapi.Version/Version", VersionRequest(), VersionResponse
    )
    announced = Capabilities.of(metadata)
    version = answer.version.removeprefix(VERSION_PREFIX)
    tokens, _ = await _called(
        channel,
        "/authapi.Authentication/Authenticate",
        AuthRequest(
            method=dialing.method,
            credentials=_credentials(dialing),
            mode=dialing.mode,
            version=dialing.version if announced.extensions else version or dialing.version,
            agentNamespace=dialing.namespace,
        ),
        AuthResponse,
    )
    return PrincipalInfo(version, tokens.principalNamespace, announced), tokens


def _credentials(dialing: DialOptions) -> dict[str, str]:
    if dialing.login is None:
        return {}
    return {"clientid": dialing.login.name, "clientsecret": dialing.login.password}


async def _channel(dialing: DialOptions) -> Any:
    keepalive = dialing.keepalive_seconds or DEFAULT_KEEPALIVE_SECONDS
    options: list[tuple[str, Any]] = [
        ("grpc.max_receive_message_length", dialing.max_message_bytes),
        ("grpc.max_send_message_length", dialing.max_message_bytes),
        ("grpc.keepalive_time_ms", int(keepalive * 1000)),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.primary_user_agent", USER_AGENT),
        # Channels would share connections and their waiting times: ours begins afresh each time.
        ("grpc.use_local_subchannel_pool", 1),
        # Retrying is this module's business; grpc's own would resend a login.
        ("grpc.enable_retries", 0),
    ]
    compression = grpc.Compression.Gzip if dialing.compression else None
    if dialing.material is None:
        return aio.insecure_channel(dialing.target, options=options, compression=compression)
    material = dialing.material
    if dialing.skip_verification:
        try:
            async with asyncio.timeout(CALL_SECONDS):
                roots, name = await pinned(dialing.host, dialing.port)
        except (OSError, TimeoutError) as error:
            raise DialError(f"cannot reach {dialing.target}: {error}", code="UNAVAILABLE") from error
        material = replace(material, roots=roots)
        options.append(("grpc.ssl_target_name_override", name))
    credentials = channel_credentials(material)
    return aio.secure_channel(dialing.target, credentials, options=options, compression=compression)


async def _called(channel: Any, path: str, request: Any, kind: type[Any]) -> tuple[Any, dict[str, list[str]]]:
    call = channel.unary_unary(path)(request.SerializeToString(), timeout=CALL_SECONDS)
    name = path.rpartition("/")[2]
    try:
        raw = await call
        return kind.FromString(raw), grouped(await call.initial_metadata())
    except aio.AioRpcError as error:
        code = error.code()
        raise DialError(
            f"{name} failed: {code.name}: {(error.details() or '')[:500]}",
            code=code.name,
            hopeless=code in _HOPELESS,
        ) from error
    except DecodeError as error:
        raise DialError(
            f"{name}: the answer is no {kind.__name__}", code="INTERNAL", hopeless=True
        ) from error


def _holder(tokens: AuthResponse) -> Holder:
    try:
        peek(tokens.refreshToken)
        return peek(tokens.accessToken)[0]
    except TokenError as error:
        raise DialError(f"the principal's answer: {error}", code="INTERNAL", hopeless=True) from error
