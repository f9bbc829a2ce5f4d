"""The principal's listener: logins, versions and streams of agents, on one port.

What happens on a stream is the business of whoever is given as `serve_stream`. It returns when the stream has
ended and is cancelled when it is cut.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import grpc
from cryptography.hazmat.primitives.serialization import Encoding
from google.protobuf.message import DecodeError, Message
from grpc import aio

from certs.key_pair import Material
from sidecars.wire import capabilities
from sidecars.wire.auth.authenticator import Authenticator, LoginRequest, Rules
from sidecars.wire.auth.blocklist import Blocklist
from sidecars.wire.auth.caller import Caller, caller_of
from sidecars.wire.capabilities import VERSION_PREFIX, Capabilities
from sidecars.wire.data_streams import DataStream
from sidecars.wire.generated.auth_pb2 import AuthRequest, AuthResponse, RefreshTokenRequest
from sidecars.wire.generated.version_pb2 import VersionResponse
from sidecars.wire.refusals import RefusedError
from sidecars.wire.server.data_calls import greet, raise_problem_of
from sidecars.wire.server.listener import MAX_LOGIN_BYTES, ListenOptions, begin, server_options
from sidecars.wire.server.sessions import (
    MAX_DATA_STREAMS,
    MAX_DATA_STREAMS_PER_AGENT,
    AuthenticatedAgent,
    Cut,
    OpenStream,
    OpenStreams,
)
from sidecars.wire.streams import EventStream, StreamLostError
from sidecars.wire.tls import ServerCredentials
from sidecars.wire.waiting import first_of
from tiphys import logs, metrics
from tiphys.errors import CallError, SurroundingsError, TiphysError

STREAMS = metrics.gauge("tiphys_wire_streams", "Open streams of agents.")

# How long a stream's owner may tidy up once it is told to leave.
FAREWELL_SECONDS = 5.0

log = logs.get_logger()

ServeStream = Callable[[AuthenticatedAgent, EventStream], Awaitable[None]]
ServeData = Callable[[AuthenticatedAgent, DataStream, "SendGreeting"], Awaitable[None]]
"""Of a call beside the stream of events; raises RefusedError to end it with a code."""
SendGreeting = Callable[[list[tuple[str, str]]], Awaitable[None]]
"""Metadata that the agent reads before anything else; once."""


class Server:
    """Serves agents from `start` to `stop`. Certificates, authorities and blocklist are swapped live."""

    def __init__(
        self,
        listening: ListenOptions,
        rules: Rules,
        serve_stream: ServeStream,
        *,
        services: Sequence[Any] = (),
        serve_data: Mapping[str, ServeData] | None = None,
    ) -> None:
        """`services` are grpc's handlers of other services on the same port, which check their callers themselves;
        `serve_data` are calls of agents beside their streams of events, by their paths.
        """
        listening.check(rules.method.name)
        if rules.method.name == "mtls" and rules.trust is None:
            raise CallError("--auth mtls: needs the authorities of client certificates")
        self._listening = listening
        self._rules = rules
        self._serve_stream = serve_stream
        self._services = tuple(services)
        self._serve_data = serve_data or {}
        self._authenticator = Authenticator(rules, monotonic=time.monotonic)
        self._credentials: ServerCredentials | None = None
        self._server: Any = None
        self.sessions = OpenStreams(now=_now)
        self.data_streams = OpenStreams(
            now=_now, limit=MAX_DATA_STREAMS, per_agent=MAX_DATA_STREAMS_PER_AGENT
        )

    async def start(self) -> int:
        """Begins to listen and returns the port."""
        server = aio.server(options=server_options(self._listening))
        server.add_generic_rpc_handlers((*self._handlers(), *self._services))
        address = self._listening.address
        try:
            if self._listening.material is None:
                port = server.add_insecure_port(address)
                if not self._listening.is_loopback:
                    log.warning("without TLS whoever reaches this port can be any agent", address=address)
            else:
                self._credentials = ServerCredentials(
                    self._listening.material,
                    require_client_certificate=self._listening.require_client_certificates,
                )
                port = server.add_secure_port(address, self._credentials.grpc)
        except RuntimeError as error:
            raise SurroundingsError(f"cannot listen on {address}: {error}") from error
        await begin(server)
        self._server = server
        return int(port)

    async def stop(self, *, grace: float = FAREWELL_SECONDS) -> None:
        """Open streams end as unavailable: agents look for another principal or wait for this one."""
        for session in (*self.sessions, *self.data_streams):
            session.cut(Cut.unavailable("the principal is stopping"))
        if self._server is not None:
            await self._server.stop(grace)

    def announce(self, *, epoch: int, pair: str) -> None:
        """Agents of ours obey the highest epoch of a pair that they have seen."""
        told = self._listening.announcement
        announcement = replace(
            told, extensions=told.extensions | {capabilities.EPOCH}, epoch=epoch, pair=pair
        )
        self._listening = replace(self._listening, announcement=announcement)

    async def swap_material(self, material: Material) -> list[AuthenticatedAgent]:
        """New handshakes use it; open streams that its authorities do not vouch for are cut."""
        assert self._credentials is not None, "a plaintext listener has no certificates"
        if self._rules.trust is not None:
            self._rules.trust.swap_roots(material.roots)
        self._credentials.swap(material)
        return await self.recheck()

    async def swap_blocklist(self, blocklist: Blocklist) -> list[AuthenticatedAgent]:
        if self._rules.trust is not None:
            self._rules.trust.swap_blocklist(blocklist)
        return await self.recheck()

    async def recheck(self) -> list[AuthenticatedAgent]:
        """Cut every open stream against which something speaks now; returns whose they were."""

        def complaint(peer: AuthenticatedAgent) -> str | None:
            return self._authenticator.complaint(peer.chain, peer.holder)

        await self.data_streams.recheck(complaint)
        return await self.sessions.recheck(complaint)

    def _handlers(self) -> list[Any]:
        """The paths that agents call. Messages arrive as bytes: a bad one must not end its stream."""
        calls = {
            "authapi.Authentication": {
                "Authenticate": grpc.unary_unary_rpc_method_handler(self._authenticate),
                "RefreshToken": grpc.unary_unary_rpc_method_handler(self._refresh),
            },
            "versionapi.Version": {"Version": grpc.unary_unary_rpc_method_handler(self._version)},
            "eventstreamapi.EventStream": {
                "Subscribe": grpc.stream_stream_rpc_method_handler(self._subscribe)
            },
        }
        for path in self._serve_data:
            service, _, method = path.partition("/")
            # Also of a call with one answer: on the wire that is a stream of one message.
            handler = grpc.stream_stream_rpc_method_handler(partial(self._carry, path))
            calls.setdefault(service, {})[method] = handler
        return [grpc.method_handlers_generic_handler(name, methods) for name, methods in calls.items()]

    async def _version(self, _request: bytes, context: Any) -> bytes:
        await context.send_initial_metadata(self._listening.announced.metadata())
        return VersionResponse(version=VERSION_PREFIX + self._rules.version).SerializeToString()

    async def _authenticate(self, request: bytes, context: Any) -> bytes:
        async def answer(caller: Caller) -> AuthResponse:
            self._require_serving("Authenticate")
            message = _parsed(AuthRequest, request)
            login = LoginRequest(
                method=message.method,
                mode=message.mode,
                version=message.version,
                agent_namespace=message.agentNamespace,
                credentials=dict(message.credentials),
            )
            pair = await self._authenticator.login(caller, login)
            return AuthResponse(
                accessToken=pair.access,
                refreshToken=pair.refresh,
                version=self._rules.version,
                principalNamespace=self._rules.namespace,
            )

        return await self._answered(context, answer, call="Authenticate")

    async def _refresh(self, request: bytes, context: Any) -> bytes:
        async def answer(caller: Caller) -> AuthResponse:
            self._require_serving("RefreshToken")
            message = _parsed(RefreshTokenRequest, request)
            pair = await self._authenticator.refresh(caller, message.refreshToken)
            return AuthResponse(accessToken=pair.access, refreshToken=pair.refresh)

        return await self._answered(context, answer, call="RefreshToken")

    async def _answered(
        self, context: Any, answer: Callable[[Caller], Awaitable[AuthResponse]], *, call: str
    ) -> bytes:
        caller = caller_of(context)
        try:
            return (await answer(caller)).SerializeToString()
        except RefusedError as error:
            refusal = error
        except Exception as error:
            log.exception("call failed", **{logs.OPERATION: call, logs.PEER: caller.address})
            refusal = RefusedError(
                grpc.StatusCode.UNAVAILABLE, "try again later", reason=logs.describe(error), label="failed"
            )
        await self._refuse(context, caller, refusal, call=call)
        raise refusal  # never reached: aborting raises

    async def _subscribe(self, _requests: Any, context: Any) -> None:
        # Not held: what a caller said at the door would stay for as long as its stream.
        try:
            peer = await self._accepted(caller_of(context))
            with self.sessions.opened(peer, max_age=self._listening.max_stream_seconds) as session:
                try:
                    await self._serve(session, context)
                finally:
                    self._end_data_streams(session)
        except RefusedError as error:
            await self._refuse(context, caller_of(context), error, call="Subscribe")

    async def _carry(self, path: str, _requests: Any, context: Any) -> None:
        """Logs and terminals: bound to whoever calls, and over when his stream of events is."""
        call = path.rpartition("/")[2]
        try:
            peer = await self._accepted(caller_of(context), call=call)
            self._require_stream(peer)
            with self.data_streams.opened(peer, max_age=self._listening.max_stream_seconds) as opened:
                stream = DataStream(read=context.read, write=context.write, label=peer.name)
                serving = self._serve_data[path](peer, stream, partial(greet, context))
                work: asyncio.Future[Any] = asyncio.ensure_future(serving)
                cut_because: asyncio.Future[Any] = opened.cut_because
                try:
                    await first_of(work, cut_because)
                finally:
                    await _ended(work)
                if cut_because.done():
                    cut = opened.cut_because.result()
                    await context.abort(cut.code, cut.words)
                raise_problem_of(work)
        except RefusedError as error:
            if error.label == "over":
                await context.abort(error.code, error.message)
            await self._refuse(context, caller_of(context), error, call=call)

    def _require_stream(self, peer: AuthenticatedAgent) -> None:
        if not self.sessions.of(peer.name):
            reason = "no stream of events of this agent"
            raise RefusedError(
                grpc.StatusCode.UNAVAILABLE, "subscribe first", reason=reason, label="not subscribed"
            )

    def _end_data_streams(self, session: OpenStream) -> None:
        """Those of the same connection, and all where no other stream of the agent is left."""
        peer = session.peer
        alone = all(each is session for each in self.sessions.of(peer.name))
        for opened in self.data_streams.of(peer.name):
            if alone or opened.peer.address == peer.address:
                opened.cut(Cut.unavailable("the agent's stream has ended"))

    async def _accepted(self, caller: Caller, *, call: str = "Subscribe") -> AuthenticatedAgent:
        self._require_serving(call)
        holder = await self._authenticator.check(caller)
        return AuthenticatedAgent(
            holder=holder,
            address=caller.address,
            announced=Capabilities.of(caller.metadata),
            shown=tuple(each.public_bytes(Encoding.DER) for each in caller.chain),
        )

    def _require_serving(self, call: str) -> None:
        """Unavailable: on any other code a Go agent comes back at once, for ever."""
        words = self._rules.gate.refusal(call)
        if words is not None:
            raise RefusedError(grpc.StatusCode.UNAVAILABLE, words, reason=words, label="not active")

    async def _serve(self, session: OpenStream, context: Any) -> None:
        """Ends with a code on which Go agents connect anew: with any other they would read on for ever."""
        peer = session.peer
        if not await self._begun(peer, context):
            log.info("stream ended", **{logs.AGENT: peer.name, logs.REASON: "left before it began"})
            return
        work: asyncio.Future[Any] = asyncio.ensure_future(self._served(peer, context))
        cut_because: asyncio.Future[Any] = session.cut_because
        STREAMS.inc()
        try:
            await first_of(work, cut_because)
        finally:
            STREAMS.dec()
            await _ended(work)
        problem = work.exception() if work.done() and not work.cancelled() else None
        if cut_because.done():
            cut = session.cut_because.result()
            say = log.warning if cut.code is grpc.StatusCode.UNAUTHENTICATED else log.info
            say("stream cut", **{logs.AGENT: peer.name, logs.REASON: cut.reason})
            await context.abort(cut.code, cut.words)
        elif isinstance(problem, StreamLostError):
            log.info("stream ended", **{logs.AGENT: peer.name, logs.REASON: str(problem)})
        elif problem is not None:
            expected = isinstance(problem, TiphysError)
            log.error(
                "stream failed",
                exc_info=None if expected else problem,
                **{logs.AGENT: peer.name, logs.ERROR: logs.describe(problem)},
            )
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the stream failed on the principal's side")

    async def _begun(self, peer: AuthenticatedAgent, context: Any) -> bool:
        """Before the stream may be cut: whoever cancels this has grpc send the metadata twice, which it refuses,
        and the agent never learns that it was cut off.
        """
        if capabilities.GZIP in peer.announced.extensions:
            context.set_compression(grpc.Compression.Gzip)
        try:
            await context.send_initial_metadata(self._listening.announced.metadata())
        except aio.BaseError:
            return False
        return True

    async def _served(self, peer: AuthenticatedAgent, context: Any) -> None:
        stream = EventStream(
            read=context.read,
            write=context.write,
            extensions=self._listening.announcement.common(peer.announced),
            label=peer.name,
            source="",
            max_message_bytes=self._listening.max_message_bytes,
            peer_takes=peer.announced.max_message_bytes,
        )
        await self._serve_stream(peer, stream)

    async def _refuse(self, context: Any, caller: Caller, error: RefusedError, *, call: str) -> None:
        self._authenticator.note(caller, error, call=call)
        await context.abort(error.code, error.message)


def _parsed(kind: type[Any], request: bytes) -> Any:
    if len(request) > MAX_LOGIN_BYTES:
        raise RefusedError(
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            f"larger than {MAX_LOGIN_BYTES} bytes",
            reason=f"a login of {len(request)} bytes",
            label="too large",
        )
    try:
        message: Message = kind.FromString(request)
    except DecodeError as error:
        raise RefusedError(
            grpc.StatusCode.INVALID_ARGUMENT,
            "not the message of this call",
            reason=f"undecodable: {error}",
            label="malformed",
        ) from error
    return message


def _now() -> datetime:
    return datetime.now(UTC)


async def _ended(work: "asyncio.Future[Any]") -> None:
    """Cancel and wait, but not for ever: the connection is gone either way."""
    work.cancel()
    done, _ = await asyncio.wait({work}, timeout=FAREWELL_SECONDS)
    if not done:
        log.error("a stream's owner does not end although it was cancelled")
    elif not work.cancelled():
        work.exception()  # or asyncio would report it once more
