"""Real Redis servers, each a process with nothing on disk, and the proxy in front of one."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from redis.asyncio import Redis

from certs.key_pair import Material
from certs.sources import LoadedSource
from scripts.ports import free_port
from sidecars.proxies.redis.backend import RedisBackend
from sidecars.proxies.redis.keys import ApplicationKey
from sidecars.proxies.redis.listener import RedisProxy, RedisProxyOptions
from tests.conftest import REQUIRED
from tests.sidecars.processes import Pki
from tiphys.errors import SurroundingsError

PATIENCE = 30.0
AGENT = "prod"
TREE = f"app|resources-tree|{AGENT}_shop|1.8.3"
CHANNEL = f"app|managed-resources|{AGENT}_shop|1.8.3"


@dataclass(frozen=True, slots=True)
class RedisServer:
    port: int
    password: str = ""
    authority: bytes = b""
    """With TLS alone, where it is given."""

    @property
    def backend(self) -> RedisBackend:
        return RedisBackend(
            host="localhost" if self.authority else "127.0.0.1",
            port=self.port,
            password=self.password,
            tls=bool(self.authority),
            authorities=self.authority,
        )

    def client(self, **more: Any) -> Redis:
        tls: dict[str, Any] = {"ssl": True, "ssl_ca_data": self.authority.decode()} if self.authority else {}
        return Redis(port=self.port, password=self.password or None, **tls, **more)


@asynccontextmanager
async def redis_server(
    folder: Path, *, password: str = "", port: int = 0, pki: Pki | None = None
) -> AsyncIterator[RedisServer]:
    """With a certificate of the authority, where one is given, and then without plaintext."""
    program = shutil.which("redis-server")
    if program is None:
        (pytest.fail if os.environ.get(REQUIRED) else pytest.skip)("no redis-server is installed")
    authority = b"" if pki is None else pki.authority.pair.certificate
    server = RedisServer(port or free_port(), password, authority)
    words = ["--bind", "127.0.0.1", "--dir", str(folder), "--save", ""]
    words += ["--port", str(server.port)] if pki is None else _tls_words(pki, folder, server.port)
    process = await asyncio.create_subprocess_exec(
        program, *words, "--appendonly", "no", *(("--requirepass", password) if password else ()),
        stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        async with asyncio.timeout(PATIENCE):
            while not await _listens(server.port):
                assert process.returncode is None
                await asyncio.sleep(0.02)  # it has no other word for it
        yield server
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def _tls_words(pki: Pki, folder: Path, port: int) -> list[str]:
    pair, authority = pki.pair("redis", server=True), pki.authority.pair.certificate
    words = ["--port", "0", "--tls-port", str(port), "--tls-auth-clients", "no"]
    for flag, content in (("cert", pair.certificate), ("key", pair.key), ("ca-cert", authority)):
        file = folder / f"{port}-{flag}"
        file.write_bytes(content)
        words += [f"--tls-{flag}-file", str(file)]
    return words


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


class DirectCaches:
    """An agent's Redis, asked without an agent in between."""

    def __init__(self, client: Redis) -> None:
        self.client = client
        self.followers: dict[str, list[Callable[[], None]]] = {}
        self.hold = asyncio.Event()
        self.hold.set()
        self.fails = ""
        self.asked = 0

    def agent_of(self, key: ApplicationKey) -> str:
        return key.namespace

    async def get(self, agent: str, key: ApplicationKey) -> bytes | None:
        self.asked += 1
        await self.hold.wait()
        if self.fails:
            raise SurroundingsError(self.fails)
        value: Any = await self.client.get(str(key))
        return value if value is None else bytes(value)

    async def subscribe(self, agent: str, channel: str, notify: Callable[[], None]) -> Callable[[], None]:
        self.followers.setdefault(channel, []).append(notify)
        return lambda: self.followers[channel].remove(notify)


class Given:
    """Certificates that a test holds in its hand, and others after them."""

    def __init__(self, material: Material) -> None:
        self.material = material
        self._changed = asyncio.Event()

    async def load(self) -> Material:
        return self.material

    async def follow(self, take: Any, *, refuse: Any) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await take(self.material)

    def renew(self, material: Material) -> None:
        self.material = material
        self._changed.set()


@asynccontextmanager
async def proxy(
    backend: RedisBackend,
    caches: Any,
    *,
    source: LoadedSource | None = None,
    certified: Callable[[x509.Certificate], str] = lambda _: "",
) -> AsyncIterator[RedisProxy]:
    made = RedisProxy(
        RedisProxyOptions(backend=backend, source=source, host="127.0.0.1", port=0),
        caches,
        certified=certified,
    )
    task = asyncio.ensure_future(made.run())
    try:
        async with asyncio.timeout(PATIENCE):
            await made.listening.wait()
        yield made
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def eventually(condition: Callable[[], object]) -> None:
    """For what nobody announces."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - as said
            await asyncio.sleep(0.01)


async def followed(client: Redis, channel: str, *, times: int) -> None:
    """Until so many follow it."""
    async with asyncio.timeout(PATIENCE):
        while await client.pubsub_numsub(channel) != [(channel.encode(), times)]:  # noqa: ASYNC110 - Redis announces nothing
            await asyncio.sleep(0.01)


class RawClient:
    """Bytes in, bytes out."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, port: int, **more: Any) -> "RawClient":
        return cls(*await asyncio.open_connection("127.0.0.1", port, **more))

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def expect(self, data: bytes) -> None:
        """Exactly this comes next."""
        async with asyncio.timeout(PATIENCE):
            came = await self.reader.readexactly(len(data))
        assert came == data

    async def line(self) -> bytes:
        async with asyncio.timeout(PATIENCE):
            return await self.reader.readuntil(b"\r\n")

    async def is_closed(self) -> bool:
        async with asyncio.timeout(PATIENCE):
            try:
                return not await self.reader.read(1)
            except ConnectionError:
                return True

    def close(self) -> None:
        self.writer.close()
