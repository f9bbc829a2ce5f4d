"""Where and how a principal listens, as grpc wants to be told."""

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any

from certs.key_pair import Material
from sidecars.wire import capabilities
from sidecars.wire.capabilities import Capabilities
from sidecars.wire.streams import DEFAULT_MAX_MESSAGE_BYTES
from tiphys.errors import CallError

# A name, a token, a password: what a login is made of fits many times.
MAX_LOGIN_BYTES = 64 * 1024
# As long as a refresh token lives: nobody stays on longer than a login can be stretched.
MAX_STREAM_SECONDS = 24 * 60 * 60.0
# It binds nothing any more and waits for nobody: a turn of the loop.
BEGIN_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenOptions:
    """`material` None means plaintext, for a mesh that does the rest.

    No host means every interface, and port 0 one that the system chooses.
    """

    host: str = ""
    port: int = 8443
    material: Material | None = None
    require_client_certificates: bool = True
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    keepalive_min_seconds: float = 0
    max_stream_seconds: float = MAX_STREAM_SECONDS
    announcement: Capabilities = field(default_factory=lambda: Capabilities(capabilities.OURS))

    @property
    def address(self) -> str:
        host = self.host or "::"
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    @property
    def announced(self) -> Capabilities:
        return replace(self.announcement, max_message_bytes=self.max_message_bytes)

    @property
    def is_loopback(self) -> bool:
        return self.host in {"localhost", "::1"} or self.host.startswith("127.")

    def check(self, method: str) -> None:
        """Identity from a header needs plaintext, identity from a certificate forbids it."""
        if method == "header" and self.material is not None:
            raise CallError("--auth header: needs --insecure-plaintext: only then is the header a mesh's own")
        if method == "mtls" and (self.material is None or not self.require_client_certificates):
            raise CallError("--auth mtls: needs TLS and client certificates")
        if self.max_message_bytes < MAX_LOGIN_BYTES:
            raise CallError(f"--grpc-max-message-size: at least {MAX_LOGIN_BYTES} bytes are needed")


def server_options(listening: ListenOptions) -> list[tuple[str, int]]:
    # Go clients ping every 10 s at most; grpc's own default would close them at once.
    ping_milliseconds = int((listening.keepalive_min_seconds or 9) * 1000)
    return [
        ("grpc.max_receive_message_length", listening.max_message_bytes),
        ("grpc.max_send_message_length", listening.max_message_bytes),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", ping_milliseconds),
        # Notice within a minute and a half that an agent's machine is gone.
        ("grpc.keepalive_time_ms", 60_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.http2.max_pings_without_data", 0),
        # An agent has one stream, a call now and then, and the logs and terminals that people look at.
        ("grpc.max_concurrent_streams", 512),
        ("grpc.max_metadata_size", 16 * 1024),
        # Two principals on one port would share the agents by accident.
        ("grpc.so_reuseport", 0),
    ]


async def begin(server: Any) -> None:
    """Starts a server of grpc's. One that is cancelled meanwhile would fail where nobody hears it."""
    starting = asyncio.ensure_future(server.start())
    try:
        await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.wait({starting}, timeout=BEGIN_SECONDS)
        await server.stop(0)
        raise
