"""The small HTTP server: probes and metrics of the sidecars, and the demonstration's reviews.

aiohttp speaks HTTP. What it leaves open is bounded here: how many connections there are, and how long one lives,
whether its caller is slow to ask or slow to read. One connection carries one request, and where there are too
many the oldest of the address that has most goes, so that nobody else takes the place of a probe.

aiohttp takes a tenth of a second to import: only commands that serve import this module.
"""

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from aiohttp import web
from aiohttp.http import HttpProcessingError

from tiphys.errors import SurroundingsError

# The whole life of a connection, its request and its answer; longer than any probe waits.
EXCHANGE_SECONDS = 5.0
# A kubelet, a Prometheus and somebody's browser; more at once is nobody we know, and the oldest has to go.
CONNECTIONS = 64
# Of 8 KiB at most each; browsers send half as many.
HEADERS = 32
# For answers that are being written when the server stops.
STOP_SECONDS = 1.0
# Of a stream of events; whoever still listens then asks again by itself.
STREAM_SECONDS = 600.0
# Whoever does not take an event within this does not read.
WRITE_SECONDS = 5.0

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def _is_news(record: logging.LogRecord) -> bool:
    """Whoever sends no HTTP gets a 400; the log has better things to tell."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


_library_log = logging.getLogger("aiohttp.server.bounded")
_library_log.addFilter(_is_news)


class _BoundedServer(web.Server):
    """aiohttp tells it of every connection, before anything is read."""

    def __init__(self, handler: Handler, *, seconds: float) -> None:
        # A handler whose connection is gone is cancelled: at the deadline at the latest.
        super().__init__(
            self._handled,
            handler_cancellation=True,
            logger=_library_log,
            access_log=None,
            max_headers=HEADERS,
        )
        self._handler = handler
        self._seconds = seconds
        self._open: dict[web.RequestHandler, tuple[asyncio.Transport, asyncio.TimerHandle]] = {}

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        # Not close(): that would wait for a caller who does not read.
        deadline = asyncio.get_running_loop().call_later(self._seconds, transport.abort)
        self._open[handler] = transport, deadline
        if len(self._open) > CONNECTIONS:
            # Not the newest, and nobody else's: whoever floods us must not keep a probe out.
            addresses = Counter(_address(transport) for transport, _ in self._open.values())
            most = addresses.most_common(1)[0][0]
            oldest = next(each for each, (held, _) in self._open.items() if _address(held) == most)
            self._open[oldest][0].abort()
            self._forget(oldest)

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        self._forget(handler)
        super().connection_lost(handler, exc)

    async def _handled(self, request: web.BaseRequest) -> web.StreamResponse:
        response = await self._handler(request)
        response.headers.setdefault("Server", "tiphys")  # aiohttp would tell versions
        response.force_close()
        if isinstance(response, _EventsResponse):
            self._prolong(request.protocol)
            await response.send(request)
        return response

    def _prolong(self, handler: web.RequestHandler | None) -> None:
        if handler is not None and handler in self._open:
            transport, deadline = self._open[handler]
            deadline.cancel()
            later = asyncio.get_running_loop().call_later(STREAM_SECONDS, transport.abort)
            self._open[handler] = transport, later

    def _forget(self, handler: web.RequestHandler) -> None:
        if handler in self._open:
            self._open.pop(handler)[1].cancel()


def _address(transport: asyncio.Transport) -> str:
    """Without the port; empty for one that is gone already."""
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if peer else ""


class _EventsResponse(web.StreamResponse):
    def __init__(self, events: "ServerSentEvents") -> None:
        super().__init__(headers={**events.headers, "Content-Type": "text/event-stream; charset=utf-8"})
        self._events = events.events

    async def send(self, request: web.BaseRequest) -> None:
        async with aclosing(self._events):
            await self.prepare(request)
            async for event in self._events:
                async with asyncio.timeout(WRITE_SECONDS):
                    await self.write(event)


@asynccontextmanager
async def listening(
    handler: Handler,
    *,
    host: str = "",
    port: int = 0,
    listener: socket.socket | None = None,
    context: ssl.SSLContext | None = None,
    seconds: float = EXCHANGE_SECONDS,
) -> AsyncIterator[int]:
    """The port, which is the system's choice for 0; every interface for no `host`. Or on a `listener`."""
    bounded = _BoundedServer(handler, seconds=seconds)
    where = {"sock": listener} if listener else {"host": host or None, "port": port}
    try:
        server = await asyncio.get_running_loop().create_server(
            bounded, **where, ssl=context, ssl_handshake_timeout=seconds if context else None
        )
    except OSError as error:
        raise SurroundingsError(f"cannot listen on port {port}: {error.strerror or error}") from error
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        bounded.pre_shutdown()
        await bounded.shutdown(STOP_SECONDS)


@dataclass(frozen=True, slots=True)
class HttpPage:
    body: bytes
    status: int = 200
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServerSentEvents:
    """An answer that goes on: `events` are whole ones, as the standard writes them."""

    events: AsyncGenerator[bytes, None]
    headers: Mapping[str, str] = field(default_factory=dict)


HttpRoute = Callable[[Mapping[str, str]], Awaitable[HttpPage | ServerSentEvents]]
"""A page that depends on its query; of a key that comes twice the first counts."""


class HttpRefusal(Protocol):
    async def refusal(self, *, address: str, headers: Mapping[str, str]) -> HttpPage | None:
        """What a caller gets who may not read the pages; None where he may."""
        ...


class HttpPages:
    """One port. `run` listens until it is cancelled. Without `access` everybody may read."""

    def __init__(
        self,
        pages: Mapping[str, Callable[[], HttpPage]],
        *,
        host: str,
        port: int,
        seconds: float = EXCHANGE_SECONDS,
        access: HttpRefusal | None = None,
        routes: Mapping[str, HttpRoute] | None = None,
    ) -> None:
        self._access = access
        self._pages = pages
        self._routes = routes or {}
        self._host = host
        self._wanted = port
        self._seconds = seconds
        self.port = 0
        self.listening = asyncio.Event()

    async def run(self) -> None:
        serving = listening(self._answer, host=self._host, port=self._wanted, seconds=self._seconds)
        async with serving as self.port:
            self.listening.set()
            await asyncio.Event().wait()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        page: HttpPage | ServerSentEvents | None = None
        if self._access is not None:
            page = await self._access.refusal(address=request.remote or "", headers=request.headers)
        page = page or await self._page(request)
        if isinstance(page, ServerSentEvents):
            return _EventsResponse(page)
        headers = {**page.headers, "Content-Type": page.content_type}
        return web.Response(status=page.status, body=page.body, headers=headers)

    async def _page(self, request: web.BaseRequest) -> HttpPage | ServerSentEvents:
        plain, route = self._pages.get(request.path), self._routes.get(request.path)
        if plain is None and route is None:
            return HttpPage(b"not found\n", status=404)
        if request.method not in {"GET", "HEAD"}:
            return HttpPage(b"only GET\n", status=405)
        if plain is not None:
            return plain()
        assert route is not None, "one of the two is there"
        return await route(request.query)
