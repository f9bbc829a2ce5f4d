"""Probes and metrics over plain HTTP: as much of a server as these need."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tiphys import logs, metrics
from tiphys.errors import SurroundingsError

REQUEST_SECONDS = 5.0
REQUEST_BYTES = 8 * 1024
# A kubelet, a Prometheus and somebody's browser; more at once is nobody we know.
CONNECTIONS = 64

log = logs.get_logger()


@dataclass(frozen=True, slots=True)
class HttpPage:
    body: bytes
    status: int = 200
    content_type: str = "text/plain; charset=utf-8"


Answer = Callable[[], HttpPage]


def metrics_page(more: Callable[[], bytes]) -> HttpPage:
    return HttpPage(metrics.exposition() + more(), content_type=metrics.CONTENT_TYPE)


class Pages:
    """One port. `run` listens until it is cancelled."""

    def __init__(self, pages: Mapping[str, Answer], *, host: str, port: int) -> None:
        self._pages = pages
        self._host = host
        self._wanted = port
        self._open = 0
        self.port = 0
        self.listening = asyncio.Event()

    async def run(self) -> None:
        try:
            server = await asyncio.start_server(
                self._serve, self._host or None, self._wanted, limit=REQUEST_BYTES
            )
        except OSError as error:
            raise SurroundingsError(
                f"cannot listen on port {self._wanted}: {error.strerror or error}"
            ) from error
        self.port = int(server.sockets[0].getsockname()[1])
        self.listening.set()
        async with server:
            await server.serve_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                page = await self._answer(reader)
                writer.write(_written(page))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            log.debug("a caller of a page left or said nothing sensible")
        finally:
            self._open -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> HttpPage:
        if self._open > CONNECTIONS:
            return HttpPage(b"too many callers\n", status=503)
        head = await reader.readuntil(b"\r\n\r\n")
        method, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0].decode(errors="replace")
        answer = self._pages.get(path)
        if answer is None:
            return HttpPage(b"not found\n", status=404)
        if method not in {b"GET", b"HEAD"}:
            return HttpPage(b"only GET\n", status=405)
        page = answer()
        return (
            HttpPage(b"", status=page.status, content_type=page.content_type) if method == b"HEAD" else page
        )


_WORDS = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


def _written(page: HttpPage) -> bytes:
    head = (
        f"HTTP/1.1 {page.status} {_WORDS[page.status]}\r\nContent-Type: {page.content_type}\r\n"
        f"Content-Length: {len(page.body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + page.body
