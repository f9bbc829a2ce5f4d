"""A way to an API server that a test can cut."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

_CHUNK = 65536


class Proxy:
    """Forwards connections to a port on loopback until told otherwise."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._writers: set[asyncio.StreamWriter] = set()
        self._open = asyncio.Event()
        self._open.set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self.port = 0
        self.connections = 0
        self.connected = asyncio.Event()
        """Set with each new connection; clear it to wait for the next."""

    def cut(self) -> None:
        """Breaks what is connected; the next connection works."""
        for writer in self._writers:
            writer.transport.abort()

    def block(self) -> None:
        """Breaks what is connected, and lets nobody in."""
        self._open.clear()
        self.cut()

    def unblock(self) -> None:
        self._open.set()

    def stall(self) -> None:
        """Connections stay open and nothing comes through: a peer that vanished without a word."""
        self._flowing.clear()

    def resume(self) -> None:
        self._flowing.set()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._open.is_set():
            writer.transport.abort()
            return
        try:
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        self.connections += 1
        self.connected.set()
        both = {writer, there_writer}
        self._writers |= both
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, there_writer))
                group.create_task(self._pump(there_reader, writer))
        finally:
            self._writers -= both
            for each in both:
                each.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(_CHUNK):
                await self._flowing.wait()
                writer.write(data)
                await writer.drain()
        writer.transport.abort()

    def kubeconfig(self, original: Path, copy: Path) -> Path:
        """The original's credentials, by way of this proxy."""
        copy.write_text(original.read_text().replace(f"127.0.0.1:{self._target}", f"127.0.0.1:{self.port}"))
        return copy


@asynccontextmanager
async def proxy_to(target: int) -> AsyncIterator[Proxy]:
    proxy = Proxy(target)
    server = await asyncio.start_server(proxy.handle, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        proxy.resume()
        proxy.cut()
        await server.wait_closed()
