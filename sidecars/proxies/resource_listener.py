"""The resource proxy's port: HTTP/1.1 with TLS 1.3, so many connections, and none that says nothing for long."""

import asyncio
import logging
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.http import HttpProcessingError

from certs.key_pair import Material
from certs.tls import SwappedContext
from tiphys.errors import SurroundingsError

# argocd-server keeps some open for each cluster; more from one address than from all others go first.
CONNECTIONS = 1024
# Between two requests, and until the first one is complete.
IDLE_SECONDS = 5.0
HEADERS = 64
STOP_SECONDS = 1.0

ServeRequest = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def _is_news(record: logging.LogRecord) -> bool:
    """Whoever sends no HTTP gets a 400; the log has better things to tell."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


_library_log = logging.getLogger("aiohttp.server.resource-proxy")
_library_log.addFilter(_is_news)


class _ProxyServer(web.Server):
    def __init__(self, serve: ServeRequest) -> None:
        # A caller who leaves takes his request along.
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
        self._idle: dict[asyncio.BaseTransport, asyncio.TimerHandle] = {}
        self._open: dict[web.RequestHandler, asyncio.Transport] = {}

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        transport = request.transport
        if transport is not None and (timer := self._idle.pop(transport, None)) is not None:
            timer.cancel()
        try:
            response = await self._answer(request)
        finally:
            if transport is not None and not transport.is_closing():
                self._await_request(transport)
        response.headers.setdefault("Server", "tiphys")
        return response

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self._open[handler] = transport
        self._await_request(transport)
        if len(self._open) > CONNECTIONS:
            addresses = Counter(_address(each) for each in self._open.values())
            most = addresses.most_common(1)[0][0]
            oldest = next(each for each in self._open.values() if _address(each) == most)
            oldest.abort()

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        transport = self._open.pop(handler, None)
        if transport is not None and (timer := self._idle.pop(transport, None)) is not None:
            timer.cancel()
        super().connection_lost(handler, exc)

    def abort_all(self) -> None:
        """Whoever is trusted no longer has to come again."""
        for transport in list(self._open.values()):
            transport.abort()

    def _await_request(self, transport: asyncio.BaseTransport) -> None:
        former = self._idle.pop(transport, None)
        if former is not None:
            former.cancel()
        assert isinstance(transport, asyncio.Transport)
        loop = asyncio.get_running_loop()
        self._idle[transport] = loop.call_later(2 * IDLE_SECONDS, transport.abort)


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

    def swap(self, material: Material) -> None:
        assert self._tls is not None, "it listens"
        self._tls.swap(material)
        if material.roots != self._roots:
            self._roots = material.roots
            self._server.abort_all()
