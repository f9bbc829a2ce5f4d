"""The port that argocd-server takes for its Redis.

Nobody is believed: whoever has not logged in, at the control plane's Redis or with a certificate, has seconds and
a few places, and too many of them cost one another's.
"""

import asyncio
import contextlib
import ssl
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from cryptography import x509

from certs import sources
from certs.key_pair import CertificateError, Material
from certs.sources import LoadedSource
from certs.tls import SwappedContext
from sidecars.proxies.redis import metrics, resp
from sidecars.proxies.redis.backend import DEFAULT_PORT, RedisBackend
from sidecars.proxies.redis.connection import AgentCaches, Held, RedisConnection
from sidecars.proxies.redis.resp import ProtocolError
from tiphys import logs
from tiphys.errors import SurroundingsError

# argocd-server keeps ten a processor, and one for each browser that follows a tree.
MAX_CONNECTIONS = 4096
# A client logs in with its first command.
MAX_STRANGERS = 128
STRANGER_SECONDS = 10.0
HANDSHAKE_SECONDS = 5.0
CONNECT_SECONDS = 5.0
BACKLOG = 512
# For a certificate that is not there yet.
LOOK_SECONDS = 5.0
_BUFFER = 64 << 10

log = logs.get_logger()

Certified = Callable[[x509.Certificate], str]
"""Why a client's certificate does not count; empty where it does."""
_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisProxyOptions:
    """`source` None is plaintext. Port 0 is one that the system chooses."""

    backend: RedisBackend
    compressed: bool = True
    """As Argo CD keeps values in it."""
    source: LoadedSource | None
    host: str = ""
    port: int = DEFAULT_PORT


@dataclass(eq=False, slots=True)
class _Client:
    """An open connection."""

    transport: asyncio.WriteTransport
    address: str
    certificate: bytes = b""
    is_stranger: bool = True
    deadline: asyncio.TimerHandle | None = None


class RedisProxy:
    """`run` until cancelled; `port` is known once `listening` is set."""

    def __init__(self, options: RedisProxyOptions, caches: AgentCaches, *, certified: Certified) -> None:
        self._options = options
        self._caches = caches
        self._certified = certified
        self._hub_tls = options.backend.context()
        self._held = Held()
        self._clients: dict[_Client, None] = {}
        self._serving: set[asyncio.Task[None]] = set()
        self._tls: SwappedContext | None = None
        self.listening = asyncio.Event()
        self.port = 0

    async def run(self) -> None:
        source = self._options.source
        material = None if source is None else await self._certificate(source)
        server = await self._listen()
        try:
            if source is not None and material is not None:
                await sources.follow(source, self._swap, held=material, certificate="redis-proxy")
            else:
                log.warning("the Redis proxy listens without TLS: passwords and trees can be read on the way")
                await asyncio.Event().wait()
        finally:
            self.listening.clear()
            server.close()
            for task in self._serving:
                task.cancel()
            await asyncio.gather(*self._serving, return_exceptions=True)

    def recheck(self) -> None:
        """What a certificate was good for may be over."""
        for client in list(self._clients):
            if client.certificate and self._certified(x509.load_der_x509_certificate(client.certificate)):
                client.transport.abort()

    async def _certificate(self, source: LoadedSource) -> Material:
        """Without one nothing listens; said once, for whoever has no use for the proxy has no certificate for it."""
        complaint = ""
        while True:
            try:
                material = await sources.first(source, certificate="redis-proxy")
                clients = ssl.CERT_OPTIONAL if material.roots else ssl.CERT_NONE
                self._tls = SwappedContext(material, clients=clients)
            except SurroundingsError as error:
                if str(error) != complaint:
                    complaint = str(error)
                    log.warning(
                        "no certificate for the Redis proxy: it does not listen; `tiphys pki issue redis-proxy` makes"
                        " one, --insecure-redis-plaintext does without, --disable-redis-proxy ends this",
                        **{logs.ERROR: complaint},
                    )
                await asyncio.sleep(LOOK_SECONDS)
            else:
                return material

    async def _swap(self, material: Material) -> None:
        assert self._tls is not None, "only certificates are swapped"
        try:
            self._tls.swap(material)
        except CertificateError as error:
            log.warning("the Redis proxy's new certificate cannot be used", **{logs.ERROR: str(error)})
        self.recheck()

    async def _listen(self) -> asyncio.Server:
        port = self._options.port
        try:
            server = await asyncio.start_server(
                self._accept,
                self._options.host or None,
                port,
                ssl=self._tls.context if self._tls else None,
                ssl_handshake_timeout=HANDSHAKE_SECONDS if self._tls else None,
                limit=_BUFFER,
                backlog=BACKLOG,
            )
        except OSError as error:
            raise SurroundingsError(f"cannot listen on port {port}: {error.strerror or error}") from error
        self.port = server.sockets[0].getsockname()[1]
        self.listening.set()
        return server

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "started by the server"
        self._serving.add(task)
        peer = writer.get_extra_info("peername")
        client = _Client(writer.transport, str(peer[0]) if peer else "")
        self._clients[client] = None
        metrics.CONNECTIONS.inc()
        try:
            if len(self._clients) > MAX_CONNECTIONS:
                metrics.REFUSED.inc()
                writer.write(resp.error("max number of clients reached"))  # as Redis says it
                return
            self._limit_strangers()
            await self._serve(client, (reader, writer))
        except asyncio.CancelledError:
            pass  # the proxy stops, or this connection was one too many
        except ProtocolError as error:
            metrics.REFUSED.inc()
            with contextlib.suppress(OSError):
                writer.write(resp.error(f"Protocol error: {error}"))
        except (OSError, TimeoutError, asyncio.IncompleteReadError, SurroundingsError) as error:
            log.debug("a connection to the Redis proxy ended", **{logs.REASON: logs.describe(error)})
        except Exception:
            log.exception("a connection to the Redis proxy failed")
        finally:
            metrics.CONNECTIONS.dec()
            self._clients.pop(client, None)
            self._serving.discard(task)
            if client.deadline is not None:
                client.deadline.cancel()
            writer.close()

    async def _serve(self, client: _Client, streams: _Streams) -> None:
        loop = asyncio.get_running_loop()
        client.deadline = loop.call_later(STRANGER_SECONDS, self._late, client)
        certified = self._is_certified(client, streams[1])

        def trusted() -> None:
            client.is_stranger = False
            if client.deadline is not None:
                client.deadline.cancel()

        hub = await self._dial()
        try:
            has_password = await _has_password(hub)
            connection = RedisConnection(
                client=streams,
                hub=hub,
                caches=self._caches,
                held=self._held,
                certified=certified,
                hub_has_password=has_password,
                trusted=trusted,
            )
            await connection.run()
        finally:
            hub[1].transport.abort()

    def _is_certified(self, client: _Client, writer: asyncio.StreamWriter) -> bool:
        shown = writer.get_extra_info("ssl_object")
        certificate = shown.getpeercert(binary_form=True) if shown is not None else None
        if not certificate:
            return False
        complaint = self._certified(x509.load_der_x509_certificate(certificate))
        if complaint:
            log.warning("a Redis client's certificate does not count", **{logs.REASON: complaint})
            return False
        client.certificate = certificate
        return True

    async def _dial(self) -> _Streams:
        backend = self._options.backend
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await asyncio.open_connection(
                    backend.host,
                    backend.port,
                    ssl=self._hub_tls,
                    server_hostname=backend.host if self._hub_tls else None,
                    limit=_BUFFER,
                )
        except (OSError, TimeoutError) as error:
            log.warning(
                "the control plane's Redis cannot be reached",
                **{logs.PEER: f"{backend.host}:{backend.port}", logs.ERROR: logs.describe(error)},
            )
            raise

    def _late(self, client: _Client) -> None:
        metrics.REFUSED.inc()
        client.transport.abort()

    def _limit_strangers(self) -> None:
        """Of those who have not logged in the oldest of the address that has most goes: nobody else's."""
        strangers = [client for client in self._clients if client.is_stranger]
        if len(strangers) <= MAX_STRANGERS:
            return
        most = Counter(client.address for client in strangers).most_common(1)[0][0]
        oldest = next(client for client in strangers if client.address == most)
        self._late(oldest)
        oldest.is_stranger = False  # it is as good as gone


async def _has_password(hub: _Streams) -> bool:
    """Asked before the client is heard: where nobody needs one, a password proves nothing."""
    reader, writer = hub
    writer.write(resp.command(b"PING"))
    async with asyncio.timeout(CONNECT_SECONDS):
        return (await reader.readuntil(resp.CRLF)).startswith(b"-NOAUTH")
