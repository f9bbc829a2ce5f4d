"""The resource proxy's port: HTTP/1.1 with TLS 1.3, so many connections, and none that says nothing for long."""

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.http import HttpProcessingError

from certs.key_pair import Material
from certs.tls import SwappedContext
from sidecars.proxies.statuses import JSON, status_json
from tiphys.errors import SurroundingsError

# argocd-server keeps some open for each cluster; more from one address than from all others go first.
CONNECTIONS = 1024
# Between two requests, and until the first one is complete.
IDLE_SECONDS = 5.0
HEADERS = 64
STOP_SECONDS = 1.0
# A reader who is slow is waited for, one who takes nothing for this long is not.
STALL_SECONDS = 30.0
# A large answer leaves in parts of it: what a transport was handed at once it does not report as unsent.
PART_BYTES = 128 << 10
# Of large answers that callers have not taken yet, as in the Redis proxy; one beyond is refused.
HELD_BYTES = 256 << 20
# The system's own share of what was written and not taken: whoever reads some of it makes room for the next part.
SEND_BUFFER_BYTES = 256 << 10

Concerned = Callable[[asyncio.BaseTransport], bool]
ServeRequest = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def _is_news(record: logging.LogRecord) -> bool:
    """Whoever sends no HTTP gets a 400; the log has better things to tell."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


_library_log = logging.getLogger("aiohttp.server.resource-proxy")
_library_log.addFilter(_is_news)


class _ProxyServer(web.Server):
    def __init__(self, serve: ServeRequest) -> None:
        # A caller who leaves takes their request along.
        super().__init__(
            self._serve,
            handler_cancellation=True,
            logger=_library_log,
            access_log=None,
            max_headers=HEADERS,
            keepalive_timeout=IDLE_SECONDS,
            auto_decompress=False,
        )
        self._answer = serve
        self._idle: dict[asyncio.BaseTransport, _IdleTimer] = {}
        self._open: dict[web.RequestHandler, asyncio.Transport] = {}
        self._held = 0

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        transport = request.transport
        idle = None if transport is None else self._idle.get(transport)
        if idle is not None:
            idle.end = None
        try:
            response = await self._answer(request)
            body = response.body if isinstance(response, web.Response) else None
            large = body if isinstance(body, bytes) and len(body) > PART_BYTES else b""
            if large and self._held and self._held + len(large) > HELD_BYTES:
                status = status_json(
                    429, "not shown: too many large answers wait for callers that do not read them"
                )
                response, large = web.Response(status=429, body=status, content_type=JSON), b""
            if not response.prepared:
                response.headers.setdefault("Server", "tiphys")
            if large:
                return await self._sent(request, response, large)
            return response
        finally:
            if idle is not None:
                idle.begin()

    async def _sent(
        self, request: web.BaseRequest, response: web.StreamResponse, body: bytes
    ) -> web.StreamResponse:
        self._held += len(body)
        try:
            return await _sent_in_parts(request, response, body)
        finally:
            self._held -= len(body)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        transport.set_write_buffer_limits(high=1)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        self._open[handler] = transport
        self._idle[transport] = _IdleTimer(transport)
        if len(self._open) > CONNECTIONS:
            addresses = Counter(_address(each) for each in self._open.values())
            most = addresses.most_common(1)[0][0]
            oldest = next(each for each in self._open.values() if _address(each) == most)
            oldest.abort()

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        transport = self._open.pop(handler, None)
        if transport is not None:
            self._idle.pop(transport).cancel()
        super().connection_lost(handler, exc)

    def abort(self, concerned: Concerned) -> None:
        for transport in list(self._open.values()):
            if concerned(transport):
                transport.abort()


class _IdleTimer:
    """Ends a connection that says nothing. Looks again when its time would be over: of the many requests of a connection
    none sets a timer.
    """

    __slots__ = ("_handle", "_loop", "_transport", "end")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self.end: float | None
        """None while a request is dealt with."""
        self.begin()
        self._handle = self._loop.call_later(2 * IDLE_SECONDS, self._look)

    def begin(self) -> None:
        self.end = self._loop.time() + 2 * IDLE_SECONDS

    def cancel(self) -> None:
        self._handle.cancel()

    def _look(self) -> None:
        now = self._loop.time()
        if self.end is not None and self.end <= now:
            self._transport.abort()
            return
        end = now + 2 * IDLE_SECONDS if self.end is None else self.end
        self._handle = self._loop.call_at(end, self._look)


async def _sent_in_parts(
    request: web.BaseRequest, response: web.StreamResponse, body: bytes
) -> web.StreamResponse:
    """Returns when the last part has left, so that the time until the next request begins then."""
    sent = web.StreamResponse(status=response.status, headers=response.headers)
    sent.content_length = len(body)
    await sent.prepare(request)
    try:
        for start in range(0, len(body), PART_BYTES):
            async with asyncio.timeout(STALL_SECONDS):
                await sent.write(body[start : start + PART_BYTES])
    except TimeoutError:
        if isinstance(request.transport, asyncio.Transport):
            request.transport.abort()
    return sent


def _address(transport: asyncio.Transport) -> str:
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if peer else ""


class ResourceListener:
    """`port` is known while it listens. New certificates are shown to the next caller; with new authorities those
    who are there come again.
    """

    def __init__(self, serve: ServeRequest, *, host: str, port: int) -> None:
        self._server = _ProxyServer(serve)
        self._host = host
        self._wanted = port
        self._tls: SwappedContext | None = None
        self._roots = b""
        self.port = 0

    @asynccontextmanager
    async def listening(self, material: Material) -> AsyncIterator[int]:
        self._tls = SwappedContext(material, clients=ssl.CERT_OPTIONAL)
        self._roots = material.roots
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(
                self._server,
                host=self._host or None,
                port=self._wanted,
                ssl=self._tls.context,
                ssl_handshake_timeout=IDLE_SECONDS,
            )
        except OSError as error:
            raise SurroundingsError(
                f"cannot listen on port {self._wanted} for the resource proxy: {error.strerror or error}"
            ) from error
        self.port = int(server.sockets[0].getsockname()[1])
        try:
            yield self.port
        finally:
            self.port = 0
            server.close()
            self._server.pre_shutdown()
            await self._server.shutdown(STOP_SECONDS)

    def abort(self, concerned: Concerned) -> None:
        """Ends open connections, and what is read over them."""
        self._server.abort(concerned)

    def swap(self, material: Material) -> None:
        assert self._tls is not None, "it listens"
        self._tls.swap(material)
        if material.roots != self._roots:
            self._roots = material.roots
            self.abort(lambda _: True)  # whoever is trusted no longer has to come again
