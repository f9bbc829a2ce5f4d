"""A Redis in virtual time: what redis-py shows of one to the agent, and the control plane's own behind a proxy."""

import asyncio
from random import Random
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError

from sidecars.proxies.redis.resp import RespReader, bulk


class SimulatedRedis:
    """The server; it outlives whoever is connected."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.failing = 0.03
        self.values: dict[str, bytes] = {}
        self.channels: list[_PubSub] = []

    def client(self) -> "_Client":
        return _Client(self)

    def publish(self, channel: str) -> None:
        for each in self.channels:
            if channel in each.followed:
                each.put("message", channel)

    def restart(self) -> None:
        """Values are lost, and so are connections."""
        self.values.clear()
        for each in list(self.channels):
            each.break_off()

    def followed(self) -> list[str]:
        return [channel for each in self.channels for channel in each.followed]

    async def answer(self) -> None:
        await asyncio.sleep(self.random.uniform(0.0001, 0.01))
        if self.random.random() < self.failing:
            raise RedisConnectionError("Connection closed by server.")


class _Client:
    """As far as the agent uses redis-py."""

    def __init__(self, server: SimulatedRedis) -> None:
        self._server = server

    async def getrange(self, key: str, start: int, end: int) -> bytes:
        await self._server.answer()
        return self._server.values.get(key, b"")[start : end + 1]

    async def exists(self, key: str) -> int:
        await self._server.answer()
        return int(key in self._server.values)

    def pubsub(self) -> "_PubSub":
        made = _PubSub(self._server)
        self._server.channels.append(made)
        return made

    async def aclose(self) -> None: ...


class _PubSub:
    """Broken, it comes back by itself and follows again what it followed, or says so to who listens: redis-py does
    either, and connects anew where it is used again.
    """

    def __init__(self, server: SimulatedRedis) -> None:
        self._server = server
        self.followed: dict[str, None] = {}
        self._messages: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._is_connected = False

    @property
    def subscribed(self) -> bool:
        return bool(self.followed)

    async def subscribe(self, *channels: str) -> None:
        await self._server.answer()
        self._is_connected = True
        for channel in channels:
            self.followed[channel] = None
            self.put("subscribe", channel)

    async def unsubscribe(self, channel: str) -> None:
        self.followed.pop(channel, None)
        await self._server.answer()

    async def get_message(self, timeout: float | None) -> dict[str, Any] | None:  # noqa: ASYNC109 - redis-py's
        if not self._is_connected:
            raise RuntimeError(
                "pubsub connection not set: did you forget to call subscribe() or psubscribe()?"
            )
        message = await self._messages.get()
        if message is None:
            raise RedisConnectionError("Connection closed by server.")
        return message

    async def aclose(self) -> None:
        self.followed.clear()
        if self in self._server.channels:
            self._server.channels.remove(self)

    def put(self, kind: str, channel: str) -> None:
        self._messages.put_nowait({"type": kind, "channel": channel.encode()})

    def break_off(self) -> None:
        if self._server.random.random() < 0.5:
            for channel in self.followed:
                self.put("subscribe", channel)
            return
        self.followed.clear()
        if self._is_connected:
            self._messages.put_nowait(None)


class _Pipe(asyncio.Transport):
    """One direction of a connection: what is written is read at the other end."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        super().__init__()
        self._reader = reader
        self._is_closed = False

    def write(self, data: Any) -> None:
        if not self._is_closed:
            self._reader.feed_data(bytes(data))

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._reader.feed_eof()

    def is_closing(self) -> bool:
        return self._is_closed


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def connection() -> tuple[Streams, Streams]:
    """Its two ends."""
    loop = asyncio.get_running_loop()
    here, there = asyncio.StreamReader(), asyncio.StreamReader()

    def end(reader: asyncio.StreamReader, other: asyncio.StreamReader) -> Streams:
        protocol = asyncio.StreamReaderProtocol(reader)
        return reader, asyncio.StreamWriter(_Pipe(other), protocol, reader, loop)

    return end(here, there), end(there, here)


async def serve_hub(streams: Streams, values: dict[str, bytes]) -> None:
    """The control plane's Redis, to one who sends HELLO, AUTH and GET."""
    reader, writer = streams
    commands = RespReader(reader)
    while (command := await commands.command(trusted=True)) is not None:
        if command.name == "hello":
            writer.write(b"%0\r\n")
        elif command.name == "get":
            found = values.get(command.words[1].decode())
            writer.write(b"_\r\n" if found is None else bulk(found))
        else:
            writer.write(b"+OK\r\n")
    writer.close()
