"""gunicorn's ASGI worker, less what would hurt a webhook.

The worker of gunicorn 27 serves plain HTTP when the TLS context cannot be built, refuses new connections
within a second of SIGTERM while the API server still has pooled ones, does not enforce `worker_connections`,
and lets a connection that never finishes its handshake, header or body stay open for ever. Each of these is
handled here and has a test.
"""

import asyncio
import contextlib
import faulthandler
import gc
import os
import resource
import signal
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from gunicorn.arbiter import Arbiter
from gunicorn.asgi.protocol import ASGIProtocol
from gunicorn.workers.gasgi import ASGIWorker

from tiphys.errors import TiphysError
from webhook.server.connections import Connections
from webhook.server.fairness import address_of

HANDSHAKE_SECONDS = 5
REQUEST_SECONDS = 10.0
"""From the first byte of a request to its last; also what a new connection gets for its first request.

The API server sends a review in one go and gives the whole call 10 s at most in this house."""

KEEPALIVE_SECONDS = 120
"""Longer than the API server's 90 s, so that it and not we close idle connections: a POST is not retried."""

HEARTBEAT_SECONDS = 0.5

BUFFERED = 64 * 1024
"""Bytes of a connection that nobody has asked for yet: gunicorn would hold four times as many."""

TLS_BUFFER = 16 * 1024
"""One record. asyncio gives every connection 256 KiB, which a thousand silent ones make a worker's end."""

REFUSING_SECONDS = 1.0
"""Between draining and closing, a review that still comes is sent to another replica instead of cut off."""


class Served(Protocol):
    """What the worker runs: an ASGI application that hears of the beginning and the end first."""

    drain_seconds: float

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None: ...

    def context(self) -> ssl.SSLContext: ...

    async def start(self) -> None: ...

    async def failed(self) -> None:
        """Returns (or raises) only if something that the application needs has died."""
        ...

    def drain(self) -> None: ...

    def refuse(self) -> None:
        """From now on send callers elsewhere: the connections are about to close."""
        ...

    async def stop(self) -> None: ...


Build = Callable[[], Awaitable[Served]]
"""Makes it in the worker's event loop."""


class Secured(SSLProtocol):
    """The TLS of one connection. The worker hears of it with the first packet, not after a handshake that may never end."""

    max_size = TLS_BUFFER
    _sslobj: ssl.SSLObject
    _incoming: ssl.MemoryBIO

    def __init__(self, worker: "ReviewWorker", context: ssl.SSLContext) -> None:
        self._review = ReviewProtocol(worker)
        super().__init__(
            worker.loop,
            self._review,
            context,
            None,  # type: ignore[arg-type]  # nobody waits for the handshake
            server_side=True,
            ssl_handshake_timeout=HANDSHAKE_SECONDS,
            ssl_shutdown_timeout=HANDSHAKE_SECONDS,
        )

    def connection_made(self, transport: Any) -> None:
        self._review.carrier = transport
        self._review.address = address_of(transport.get_extra_info("peername"))
        self._review.worker.connections.admit(self._review)
        super().connection_made(transport)

    def _do_read__copied(self) -> None:
        """Reads what has come, and no further: a look at what is not there could only raise, which costs more."""
        chunks, ended = [], False
        with contextlib.suppress(ssl.SSLWantReadError):
            while not ended:
                data = self._sslobj.read(self.max_size)
                chunks.append(data)
                ended = not data or not (self._incoming.pending or self._sslobj.pending())
        if received := b"".join(chunks):
            self._review.data_received(received)
        if chunks and not chunks[-1]:
            super()._do_read__copied()  # type: ignore[misc]  # typeshed leaves it out; it ends the connection

    def connection_lost(self, exc: BaseException | None) -> None:
        self._review.worker.connections.forget(self._review)
        super().connection_lost(exc)


class ReviewProtocol(ASGIProtocol):  # type: ignore[misc]
    """One connection: bounded in time until its request is whole, closed after an answer while draining."""

    worker: "ReviewWorker"
    carrier: asyncio.Transport
    """What carries the TLS."""
    address: str
    _deadline: asyncio.TimerHandle | None = None
    _idle_since: float | None = None
    _keepalive_handle: asyncio.TimerHandle | None

    def __init__(self, worker: "ReviewWorker") -> None:
        super().__init__(worker)
        self._max_buffer_size = BUFFERED

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._arm()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        receiver = self._body_receiver
        if receiver is not None and receiver._complete:  # noqa: SLF001 - gunicorn offers no other way to know
            self._disarm()
            self.worker.connections.carried(self)
        elif self._deadline is None and not self._closed:
            self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        super().connection_lost(exc)
        super()._cancel_keepalive_timer()

    def abort(self) -> None:
        self.carrier.abort()

    @property
    def idle(self) -> bool:
        return self._current_request is None

    def _will_close(self, request: Any, response_requires_close: Any) -> bool:
        return (
            self.worker.draining
            # Another request has come before the answer. No API server does that; a stranger could have the worker answer
            # thousands of them in a row, without a look at what others have sent.
            or bool(self._callback_parser.remaining())
            or bool(super()._will_close(request, response_requires_close))
        )

    def _arm_keepalive_timer(self) -> None:
        """After each answer. One timer that looks again when it is due costs less than one for every answer."""
        self._idle_since = self.worker.loop.time()
        if self._keepalive_handle is None:
            self._keepalive_handle = self.worker.loop.call_later(KEEPALIVE_SECONDS, self._keepalive_timeout)

    def _cancel_keepalive_timer(self) -> None:
        """With each request."""
        self._idle_since = None

    def _keepalive_timeout(self) -> None:
        self._keepalive_handle = None
        if self._idle_since is None:
            return
        left = self._idle_since + KEEPALIVE_SECONDS - self.worker.loop.time()
        if left > 0:
            self._keepalive_handle = self.worker.loop.call_later(left, self._keepalive_timeout)
        else:
            super()._keepalive_timeout()

    def _arm(self) -> None:
        self._deadline = self.worker.loop.call_later(REQUEST_SECONDS, self.abort)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class ReviewWorker(ASGIWorker):  # type: ignore[misc]
    """Serves TLS or nothing; drains before it stops."""

    asgi: Served
    loop: asyncio.AbstractEventLoop
    _build: Build

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.draining = False
        self.connections = Connections[ReviewProtocol](self.worker_connections)
        self._asked_to_stop = asyncio.Event()

    def load_wsgi(self) -> None:
        """Gunicorn loads before the event loop runs; ours is built in it."""
        self._build = self.app.wsgi()

    def init_signals(self) -> None:
        """The arbiter's SIGABRT ends a hanging worker at once and tells where it hung; a handler of the loop would
        wait for the loop.
        """
        super().init_signals()
        self.loop.remove_signal_handler(signal.SIGABRT)
        faulthandler.enable()

    def handle_exit_signal(self) -> None:
        self._asked_to_stop.set()

    def handle_quit_signal(self) -> None:
        self._quick_shutdown = True
        self._asked_to_stop.set()

    def run(self) -> None:
        try:
            self.loop.run_until_complete(self._serve())
        except TiphysError as error:
            # The arbiter ends too on this code: a server without a certificate must not come back in the clear.
            self.log.error("%s", error)  # noqa: TRY400 - one line, no traceback
            raise SystemExit(Arbiter.WORKER_BOOT_ERROR) from error
        finally:
            self._cleanup()

    async def _serve(self) -> None:
        _raise_file_limit(self.worker_connections)
        starting = asyncio.ensure_future(self._start())
        await self._beat_until(starting)
        context = await starting
        # What the caches hold now stays: looking through it for garbage would make reviews wait.
        gc.collect()
        gc.freeze()
        self.servers = [
            await self.loop.create_server(lambda: Secured(self, context), sock=listener.sock)
            for listener in self.sockets
        ]
        failed = asyncio.ensure_future(self.asgi.failed())
        asked = asyncio.ensure_future(self._asked_to_stop.wait())
        await self._beat_until(asked, failed)
        if asked.done() and not self._quick_shutdown:
            self.draining = True
            self.asgi.drain()
            await self._beat_until(failed, seconds=self.asgi.drain_seconds)
            self.asgi.refuse()
            await self._beat_until(failed, seconds=REFUSING_SECONDS)
        self.alive = False
        asked.cancel()
        died = failed.done()
        failed.cancel()
        await self._close()
        if died:
            failed.result()

    async def _start(self) -> ssl.SSLContext:
        self.asgi = await self._build()
        context = self.asgi.context()
        await self.asgi.start()
        return context

    async def _beat_until(self, *awaited: "asyncio.Future[Any]", seconds: float | None = None) -> None:
        """Tell the arbiter that we live until one of the futures is done, the time is up or the arbiter is gone."""
        end = None if seconds is None else self.loop.time() + seconds
        while self.ppid == os.getppid() and (end is None or self.loop.time() < end):
            self.notify()
            pause = HEARTBEAT_SECONDS if end is None else min(HEARTBEAT_SECONDS, end - self.loop.time())
            done, _ = await asyncio.wait(awaited, timeout=max(pause, 0), return_when=asyncio.FIRST_COMPLETED)
            if done or self._quick_shutdown:
                return

    async def _close(self) -> None:
        """New connections first, then idle ones; requests under way get what they need to answer."""
        for server in self.servers:
            server.close()
        for protocol in list(self.connections):
            if protocol.idle:
                protocol.abort()
        deadline = self.loop.time() + REQUEST_SECONDS
        while self.connections and not self._quick_shutdown and self.loop.time() < deadline:
            self.notify()
            await asyncio.sleep(0.05)
        async with asyncio.timeout(REQUEST_SECONDS):
            await self.asgi.stop()


def _raise_file_limit(connections: int) -> None:
    """Each connection is a file: without this a thousand silent ones end the accepting of any more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections * 2 + 256
    ceiling = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < ceiling:
        resource.setrlimit(resource.RLIMIT_NOFILE, (ceiling, hard))
