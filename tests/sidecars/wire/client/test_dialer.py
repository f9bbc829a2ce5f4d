"""An agent's way in: to our principal, to one that behaves like Go's, and to those that want neither."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import bcrypt
import grpc
import pytest
from grpc import aio

from argocd.agents.vocabulary import Mode
from certs.key_pair import Material
from sidecars.wire.auth.methods import header_method
from sidecars.wire.auth.passwords import Accounts, Login, PasswordMethod
from sidecars.wire.auth.tokens import Holder, Tokens
from sidecars.wire.capabilities import Capabilities
from sidecars.wire.client.dialer import DialError, connect
from sidecars.wire.envelopes import decode, encode
from sidecars.wire.events import AGENT_SOURCE, Event, heartbeat
from sidecars.wire.generated.auth_pb2 import AuthRequest, AuthResponse
from sidecars.wire.generated.version_pb2 import VersionResponse
from sidecars.wire.streams import StreamLostError
from tests.sidecars.wire.listening_principal import (
    AGENT,
    AUTHORITY,
    KEY,
    OTHER_AUTHORITY,
    PATIENCE,
    PRINCIPAL,
    Principal,
)
from tests.sidecars.wire.pki import CLIENT, SERVER, issue
from tiphys.errors import CallError


@asynccontextmanager
async def connected(dialing: Any) -> AsyncIterator[Any]:
    async with asyncio.timeout(PATIENCE):
        connection = await connect(dialing)
    try:
        yield connection
    finally:
        await connection.close()


async def test_an_agent_connects_and_talks(principal: Principal) -> None:
    async with connected(principal.dialing()) as connection:
        assert connection.me == Holder("agent-1", Mode.MANAGED)
        assert connection.principal.namespace == "argocd"
        assert connection.extensions == {"batches", "drift", "ranges", "reads", "requests"}
        beat = heartbeat()
        await connection.send(beat)
        assert await principal.recorder.event() == beat
        peer, stream = await principal.recorder.stream()
        assert peer.announced.extensions == connection.extensions
        await stream.send_many([beat, beat])
        assert [await connection.receive() for _ in range(2)] == [beat, beat]


@pytest.mark.parametrize("known", [1, 7])
async def test_an_epoch_that_begins_during_the_login_is_obeyed_or_refused_like_any_other(
    principal: Principal, known: int
) -> None:
    told: list[Capabilities] = []

    async def admit(announced: Capabilities) -> None:
        told.append(announced)
        principal.server.announce(epoch=3, pair="pair-1")
        if announced.epoch and announced.epoch < known:
            raise DialError("deposed", code="FAILED_PRECONDITION", hopeless=True)

    dialing = principal.dialing(admit=admit)
    if known > 3:
        with pytest.raises(DialError, match="deposed"):
            await connect(dialing)
    else:
        async with connected(dialing) as connection:
            assert connection.me.agent == "agent-1"
    assert [(each.epoch, each.pair) for each in told] == [(0, ""), (3, "pair-1")]


async def test_compression_is_asked_for_and_given(principal: Principal) -> None:
    async with connected(principal.dialing(compression=True)) as connection:
        large = replace(heartbeat(), target="redis", payload=b"x" * 1_000_000)
        await connection.send(large)
        assert await principal.recorder.event() == large
        peer, stream = await principal.recorder.stream()
        assert "gzip" in peer.announced.extensions
        await stream.send(large)
        assert await connection.receive() == large


@dataclass
class GoPrincipal:
    """Lets in its own version only, announces nothing, and keeps what it was told."""

    version: str = "99.9.9-unreleased"
    logins: list[AuthRequest] = field(default_factory=list)
    metadata: dict[str, str] = field(default_factory=dict)
    received: asyncio.Queue[Event] = field(default_factory=asyncio.Queue)
    tokens: Tokens = field(default_factory=lambda: Tokens(KEY, now=time.time))
    spoiled: bool = False

    async def answer_version(self, _request: bytes, _context: Any) -> bytes:
        return VersionResponse(version="argocd-agent-" + self.version).SerializeToString()

    async def authenticate(self, request: bytes, context: Any) -> bytes:
        self.logins.append(AuthRequest.FromString(request))
        if self.logins[-1].version != self.version:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "version mismatch")
        pair = self.tokens.issue(Holder("agent-1", Mode.AUTONOMOUS))
        access = "not.a.token" if self.spoiled else pair.access
        return AuthResponse(
            accessToken=access, refreshToken=pair.refresh, principalNamespace="argocd"
        ).SerializeToString()

    async def subscribe(self, _requests: Any, context: Any) -> None:
        self.metadata = dict(context.invocation_metadata())
        while (raw := await context.read()) is not aio.EOF:
            self.received.put_nowait(decode(raw))
            await context.write(raw)

    async def start(self) -> tuple[Any, int]:
        server = aio.server()
        unary = grpc.unary_unary_rpc_method_handler
        calls = {
            "versionapi.Version": {"Version": unary(self.answer_version)},
            "authapi.Authentication": {"Authenticate": unary(self.authenticate)},
            "eventstreamapi.EventStream": {
                "Subscribe": grpc.stream_stream_rpc_method_handler(self.subscribe)
            },
        }
        handlers = [grpc.method_handlers_generic_handler(name, methods) for name, methods in calls.items()]
        server.add_generic_rpc_handlers(handlers)
        credentials = grpc.ssl_server_credentials(
            [(PRINCIPAL.pair().key, PRINCIPAL.pem)],
            root_certificates=AUTHORITY.pem,
            require_client_auth=True,
        )
        port = server.add_secure_port("127.0.0.1:0", credentials)
        await server.start()
        return server, port


@pytest.fixture
async def go() -> AsyncIterator[tuple[GoPrincipal, int]]:
    principal = GoPrincipal()
    server, port = await principal.start()
    yield principal, port
    await server.stop(0)


async def test_a_go_principal_sees_an_agent_of_its_own_version(
    principal: Principal, go: tuple[GoPrincipal, int]
) -> None:
    go_principal, port = go
    dialing = principal.dialing(port=port, mode=Mode.AUTONOMOUS, version="0.9.0")
    async with connected(dialing) as connection:
        (login,) = go_principal.logins
        assert (login.method, login.mode, login.agentNamespace) == ("mtls", "autonomous", "argocd")
        assert login.version == "99.9.9-unreleased"
        assert dict(login.credentials) == {}
        assert connection.extensions == frozenset()
        assert connection.principal.version == "99.9.9-unreleased"
        await connection.send_many([heartbeat(), heartbeat()])
        async with asyncio.timeout(PATIENCE):
            first = await go_principal.received.get()
            assert (await go_principal.received.get()).source == first.source == AGENT_SOURCE
    assert go_principal.tokens.verify(go_principal.metadata["authorization"]).agent == "agent-1"
    assert go_principal.metadata["user-agent"].startswith("argocd-agent/v0.0.1 ")


async def test_an_answer_without_readable_tokens_is_refused(
    principal: Principal, go: tuple[GoPrincipal, int]
) -> None:
    go_principal, port = go
    go_principal.spoiled = True
    with pytest.raises(DialError, match="the principal's answer") as caught:
        await connect(principal.dialing(port=port))
    assert caught.value.hopeless


async def test_a_refusal_is_told_from_an_absence(principal: Principal) -> None:
    principal.gate.objection = "unknown"
    with pytest.raises(DialError, match="Authenticate failed: UNAUTHENTICATED") as caught:
        await connect(principal.dialing())
    assert caught.value.hopeless
    await principal.server.stop(grace=0)
    with pytest.raises(DialError, match="Version failed: UNAVAILABLE") as caught:
        await connect(principal.dialing())
    assert not caught.value.hopeless


async def test_a_principal_of_another_authority_or_name_is_not_believed(principal: Principal) -> None:
    for changes in (
        {"material": Material(AGENT.pair(), OTHER_AUTHORITY.pem)},
        {"host": "127.0.0.2"},
    ):
        with pytest.raises(DialError) as caught:
            await connect(principal.dialing(**changes))
        assert caught.value.code == "UNAVAILABLE"


async def test_a_principal_with_an_expired_certificate_is_not_believed(start: Any) -> None:
    expired = issue("principal", AUTHORITY, usage=[SERVER], ends=timedelta(seconds=-5))
    principal = await start(listening={"material": Material(expired.pair(), AUTHORITY.pem)})
    with pytest.raises(DialError, match="UNAVAILABLE"):
        await connect(principal.dialing())


async def test_verification_can_be_switched_off_by_name(start: Any) -> None:
    stranger = issue("principal", OTHER_AUTHORITY, usage=[SERVER])
    principal = await start(listening={"material": Material(stranger.pair(), AUTHORITY.pem)})
    async with connected(principal.dialing(host="127.0.0.1", skip_verification=True)) as connection:
        await connection.send(heartbeat())
        assert await principal.recorder.event() is not None
    await principal.server.stop(grace=0)
    with pytest.raises(DialError, match="cannot reach"):
        await connect(principal.dialing(skip_verification=True))


async def test_an_agent_logs_in_with_a_password(start: Any) -> None:
    accounts = Accounts.parse(f"agent-2:{bcrypt.hashpw(b'right', bcrypt.gensalt(4)).decode()}")
    principal = await start(
        method=PasswordMethod(accounts),
        listening={"require_client_certificates": False},
        rules={"trust": None},
    )
    changes = {"method": "userpass", "material": Material(None, AUTHORITY.pem)}
    async with connected(principal.dialing(login=Login("agent-2", "right"), **changes)) as connection:
        assert connection.me.agent == "agent-2"
    with pytest.raises(DialError, match="authentication failed"):
        await connect(principal.dialing(login=Login("agent-2", "wrong"), **changes))


async def test_an_agent_dials_in_plaintext_for_a_mesh(start: Any) -> None:
    principal = await start(
        method=header_method("user-agent:^(argocd)-agent"),
        listening={"material": None},
        rules={"trust": None, "namespace": "elsewhere"},
    )
    async with connected(principal.dialing(method="header", material=None)) as connection:
        assert connection.me.agent == "argocd"


@pytest.mark.parametrize(
    "changes",
    [
        {"host": ""},
        {"method": "userpass"},
        {"material": None},
        {"material": Material(None, AUTHORITY.pem)},
        {"method": "header"},
    ],
)
async def test_settings_that_do_not_fit_are_refused_before_dialling(
    principal: Principal, changes: dict[str, Any]
) -> None:
    with pytest.raises(CallError, match="--"):
        await connect(principal.dialing(**changes))


async def test_a_stream_closed_on_our_side_is_lost_and_not_a_cancellation(principal: Principal) -> None:
    async with connected(principal.dialing()) as connection:
        await principal.recorder.stream()
        waiting = asyncio.ensure_future(connection.receive())
        await asyncio.sleep(0)
        await connection.close()
        with pytest.raises(StreamLostError, match="closed on our side"):
            await waiting


async def test_waiting_for_an_event_can_be_cancelled(principal: Principal) -> None:
    async with connected(principal.dialing()) as connection:
        await principal.recorder.stream()
        waiting = asyncio.ensure_future(connection.receive())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_a_cut_stream_says_why(principal: Principal) -> None:
    async with connected(principal.dialing(issue("agent-9", AUTHORITY, usage=[CLIENT]))) as connection:
        await principal.recorder.stream()
        principal.gate.strangers.add("agent-9")
        await principal.server.recheck()
        with pytest.raises(StreamLostError, match="UNAUTHENTICATED") as caught:
            await connection.receive()
    assert caught.value.code == "UNAUTHENTICATED"


async def test_encoded_events_are_what_the_other_end_reads(principal: Principal) -> None:
    async with connected(principal.dialing()) as connection:
        beat = heartbeat()
        await connection.send(beat)
        assert encode((await principal.recorder.event()) or heartbeat()) == encode(beat)
