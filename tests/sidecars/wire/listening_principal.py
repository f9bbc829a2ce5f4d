"""A principal on loopback that does nothing but listen, and the calls of an agent one by one."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
from cryptography.hazmat.primitives.asymmetric import rsa
from grpc import aio

from argocd.agents.vocabulary import Mode
from certs.key_pair import Material
from sidecars.wire.auth.authenticator import Admission, Rules
from sidecars.wire.auth.methods import Method, NamePattern, SubjectMethod
from sidecars.wire.auth.tokens import Tokens
from sidecars.wire.auth.trust import Trust
from sidecars.wire.client.dialer import DialOptions
from sidecars.wire.events import Event
from sidecars.wire.generated.auth_pb2 import AuthRequest, AuthResponse, RefreshTokenRequest
from sidecars.wire.generated.version_pb2 import VersionResponse
from sidecars.wire.server.listener import ListenOptions
from sidecars.wire.server.server import Server
from sidecars.wire.server.sessions import AuthenticatedAgent
from sidecars.wire.streams import EventStream
from sidecars.wire.tls import channel_credentials
from tests.sidecars.wire.pki import CLIENT, SERVER, Issued, issue

PATIENCE = 30.0  # machines are busy; nothing here waits so long
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
AUTHORITY = issue("authority", authority=True, ends=timedelta(days=100))
OTHER_AUTHORITY = issue("other authority", authority=True, ends=timedelta(days=100))
PRINCIPAL = issue("principal", AUTHORITY, usage=[SERVER])
AGENT = issue("agent-1", AUTHORITY, usage=[CLIENT])


@dataclass
class OpenGate:
    """Lets everybody in, unless told otherwise."""

    objection: str | None = None
    strangers: set[str] = field(default_factory=set)
    state: str | None = None
    admitted: list[Admission] = field(default_factory=list)
    broken: bool = False

    async def admit(self, admission: Admission) -> str | None:
        if self.broken:
            raise ConnectionError("the API server with password hunter2 is away")
        self.admitted.append(admission)
        return self.objection

    def knows(self, agent: str, mode: Mode) -> str | None:
        return f"{agent} is no agent of ours" if agent in self.strangers else None

    def refusal(self, call: str) -> str | None:
        return self.state and f"not accepting connections in state {self.state}"


class Recorder:
    """Keeps what arrives on streams; `failing` makes them fail instead."""

    def __init__(self) -> None:
        self.streams: asyncio.Queue[tuple[AuthenticatedAgent, EventStream]] = asyncio.Queue()
        self.received: asyncio.Queue[Event | None] = asyncio.Queue()
        self.ended: asyncio.Queue[str] = asyncio.Queue()
        self.failing: Exception | None = None

    async def serve(self, peer: AuthenticatedAgent, stream: EventStream) -> None:
        try:
            self.streams.put_nowait((peer, stream))
            if self.failing:
                raise self.failing
            while (event := await stream.receive()) is not None:
                self.received.put_nowait(event)
            self.received.put_nowait(None)
        finally:
            self.ended.put_nowait(peer.name)

    async def stream(self) -> tuple[AuthenticatedAgent, EventStream]:
        async with asyncio.timeout(PATIENCE):
            return await self.streams.get()

    async def event(self) -> Event | None:
        async with asyncio.timeout(PATIENCE):
            return await self.received.get()

    async def end(self) -> str:
        async with asyncio.timeout(PATIENCE):
            return await self.ended.get()


@dataclass
class Principal:
    server: Server
    port: int
    gate: OpenGate
    tokens: Tokens
    recorder: Recorder

    def channel(
        self, agent: Issued | None = AGENT, *, chain: Sequence[Issued] = (), options: Sequence[Any] = ()
    ) -> Any:
        """An agent's connection with any certificate."""
        material = Material(agent.pair(*chain) if agent else None, AUTHORITY.pem)
        all_options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1), *options]
        return aio.secure_channel(
            f"localhost:{self.port}", channel_credentials(material), options=all_options
        )

    def plain_channel(self) -> Any:
        return aio.insecure_channel(f"127.0.0.1:{self.port}", options=[("grpc.use_local_subchannel_pool", 1)])

    def dialing(self, agent: Issued = AGENT, **changes: Any) -> DialOptions:
        usual = DialOptions(
            host="localhost",
            port=self.port,
            material=Material(agent.pair(), AUTHORITY.pem),
            mode=Mode.MANAGED,
            namespace="argocd",
            version="0.9.0",
        )
        return replace(usual, **changes)


async def started(
    *,
    method: Method | None = None,
    gate: OpenGate | None = None,
    listening: dict[str, Any] | None = None,
    rules: dict[str, Any] | None = None,
) -> Principal:
    recorder, open_gate = Recorder(), gate or OpenGate()
    tokens = Tokens(KEY, now=time.time)
    full = Rules(
        method=method or SubjectMethod(NamePattern("CN=([^,]+)")),
        tokens=tokens,
        trust=Trust(AUTHORITY.pem, now=lambda: datetime.now(UTC)),
        namespace="argocd",
        version="0.9.0",
        gate=open_gate,
    )
    where = ListenOptions(host="127.0.0.1", port=0, material=Material(PRINCIPAL.pair(), AUTHORITY.pem))
    server = Server(replace(where, **(listening or {})), replace(full, **(rules or {})), recorder.serve)
    return Principal(server, await server.start(), open_gate, tokens, recorder)


async def login(channel: Any, *, metadata: Sequence[tuple[str, str]] = (), **changes: Any) -> AuthResponse:
    fields = {"method": "mtls", "mode": "managed", "version": "0.9.0", "agentNamespace": "argocd", **changes}
    raw = await channel.unary_unary("/authapi.Authentication/Authenticate")(
        AuthRequest(**fields).SerializeToString(), timeout=PATIENCE, metadata=metadata
    )
    return AuthResponse.FromString(raw)


async def refresh(channel: Any, token: str) -> AuthResponse:
    raw = await channel.unary_unary("/authapi.Authentication/RefreshToken")(
        RefreshTokenRequest(refreshToken=token).SerializeToString(), timeout=PATIENCE
    )
    return AuthResponse.FromString(raw)


async def version(channel: Any) -> str:
    raw = await channel.unary_unary("/versionapi.Version/Version")(b"", timeout=PATIENCE)
    return VersionResponse.FromString(raw).version


def subscribe(channel: Any, *metadata: tuple[str, str]) -> Any:
    return channel.stream_stream("/eventstreamapi.EventStream/Subscribe")(metadata=metadata)


async def refusal(awaited: Any) -> tuple[grpc.StatusCode, str]:
    """How a call ended that should not have gone well."""
    try:
        async with asyncio.timeout(PATIENCE):
            answer = await awaited
    except aio.AioRpcError as error:
        return error.code(), error.details() or ""
    raise AssertionError(f"the call went well: {answer!r}")


async def until(condition: Callable[[], bool]) -> None:
    """What follows from an event that the test cannot see itself."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - grpc tells nobody when it has tidied up
            await asyncio.sleep(0.005)
