"""One connection of a Redis client: its commands to the control plane's Redis, or to an agent's, answered in order.

What is not about agents is copied both ways. Two things are kept: the places of replies that are still to come,
so that an agent's answer stands where the client expects it, and what the client may see.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from sidecars.proxies.redis import keys, resp
from sidecars.proxies.redis.keys import ApplicationKey, KeyRefusedError
from sidecars.proxies.redis.resp import Reply, RespCommand, RespReader
from tiphys import logs
from tiphys.errors import TiphysError

# Replies that a client may wait for at once, and how many of them from agents: the rest of a longer pipeline is
# read when some have been answered.
MAX_PIPELINE = 1024
MAX_AGENT_GETS = 8
# Of one connection: argocd-server has one for each browser that looks at an Application.
MAX_CHANNELS = 256
# A message says no more than that something changed: of many that wait, a few say it as well.
MAX_WAITING_NOTICES = 32
# Longer than any agent's answer may take.
REPLY_SECONDS = 60.0
# For all connections together; an answer beyond is refused.
HELD_BYTES = 256 << 20

_OUT_OF_ORDER = {"monitor", "sync", "psync", "replconf"}
_SUBSCRIBING = {"subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe"}
_WHILE_SUBSCRIBED = _SUBSCRIBING | {"ping", "quit", "reset"}
_CONFIRMATIONS = frozenset(name.encode() for name in _SUBSCRIBING)
_MESSAGES = _CONFIRMATIONS | {b"message", b"pmessage", b"smessage"}
_MAPS = frozenset(b"*%")

log = logs.get_logger()


class AgentCaches(Protocol):
    """What agents have in their Redis."""

    def agent_of(self, key: ApplicationKey) -> str:
        """Empty where the key is the control plane's own."""
        ...

    async def get(self, agent: str, key: ApplicationKey) -> bytes | None:
        """None for a miss; raises TiphysError with the reason."""
        ...

    async def subscribe(self, agent: str, channel: str, notify: Callable[[], None]) -> Callable[[], None]:
        """`notify` is called for each message from now on; what is returned ends that."""
        ...


@dataclass(slots=True)
class Held:
    """Bytes of agents' answers that clients have not taken yet."""

    limit: int = HELD_BYTES
    used: int = 0


@dataclass(eq=False, slots=True)
class _Place:
    """Of a reply among those that the client waits for; None: the control plane's Redis has it."""

    reply: bytes | None = None
    from_agent: bool = False
    held: int = 0
    """Bytes of an agent's answer."""
    subscribing: bool = False
    """The first confirmation, or an error, stands here."""
    seen: "asyncio.Future[Reply] | None" = None


class RedisConnection:
    """`run` until either side leaves; raises what broke it."""

    def __init__(
        self,
        *,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        hub: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        caches: AgentCaches,
        held: Held,
        certified: bool,
        hub_has_password: bool,
        trusted: Callable[[], None] = lambda: None,
    ) -> None:
        """`certified`: the client showed a certificate that counts, which it needs where a password proves nothing.
        `trusted` is called when it is known to be good.
        """
        self._from_client, self._to_client = RespReader(client[0]), client[1]
        self._from_hub, self._to_hub = RespReader(hub[0]), hub[1]
        self._caches = caches
        self._held = held
        self._hub_has_password = hub_has_password
        self._certified = certified and not hub_has_password
        self._trusted = self._certified
        self._tell_trusted = trusted
        self._resp = 2
        self._in_transaction = False
        self._hub_subscribed = False
        self._channels: dict[str, Callable[[], None]] = {}
        self._notices: dict[str, int] = {}
        self._places: deque[_Place] = deque()
        self._hubs_turn = asyncio.Event()
        self._hubs_turn.set()
        self._fewer = asyncio.Event()
        self._writing = asyncio.Lock()
        self._gets = asyncio.Semaphore(MAX_AGENT_GETS)
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        if self._certified:
            self._tell_trusted()
        own = {self._start(self._commands()), self._start(self._replies())}
        try:
            done, _ = await asyncio.wait(own, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._held.used -= sum(place.held for place in self._places)
            for stop in self._channels.values():
                stop()

    def _start(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # From the client.

    async def _commands(self) -> None:
        while command := await self._from_client.command(trusted=self._trusted):
            while len(self._places) >= MAX_PIPELINE:
                self._fewer.clear()
                async with asyncio.timeout(REPLY_SECONDS):
                    await self._fewer.wait()
            await self._carry_out(command)

    async def _carry_out(self, command: RespCommand) -> None:
        name = command.name
        if not (self._hub_has_password or self._certified):
            await self._refuse(
                command, "show a client certificate: the Redis behind this proxy has no password"
            )
        elif name in _OUT_OF_ORDER or (name == "client" and _word(command, 1) == "reply"):
            await self._refuse(command, f"{name} is not available through this proxy", code="ERR")
        elif name in {"auth", "hello", "reset"}:
            await self._identify(command)
        elif not self._trusted or self._in_transaction or command.rest:
            await self._forward(command)
        elif self._channels and self._resp == 2 and name not in _WHILE_SUBSCRIBED:  # noqa: PLR2004 - the version
            await self._refuse(command, f"Can't execute '{name[:64]}' while subscribed", code="ERR")
        elif self._channels and self._resp == 2 and name == "ping":  # noqa: PLR2004 - the version
            # Their Redis does not know that this client is subscribed.
            words = [resp.bulk(b"pong"), resp.bulk(command.words[1] if len(command.words) > 1 else b"")]
            await self._say(resp.notice(words, resp=2))
        elif name == "get":
            await self._get_or_forward(command)
        elif name in _SUBSCRIBING:
            await self._subscribe(command)
        else:
            await self._forward(command)
        self._in_transaction = name == "multi" or (
            self._in_transaction and name not in {"exec", "discard", "reset"}
        )

    async def _get_or_forward(self, command: RespCommand) -> None:
        try:
            found = self._agents(command.words[1:])
        except KeyRefusedError as error:
            await self._say(resp.error(str(error)))
            return
        if found is None:
            await self._forward(command)
            return
        await self._gets.acquire()
        self._append(place := _Place(from_agent=True))
        self._start(self._get(place, *found))

    def _agents(self, words: list[bytes]) -> tuple[str, ApplicationKey] | None:
        key = keys.parse(words[0]) if len(words) == 1 else None
        agent = self._caches.agent_of(key) if key is not None else ""
        return (agent, key) if agent and key is not None else None

    async def _forward(self, command: RespCommand, *, place: _Place | None = None) -> None:
        self._append(place or _Place())
        await self._send(command.raw)
        if command.rest:
            await self._from_client.copy_rest(command, self._send)

    async def _identify(self, command: RespCommand) -> None:
        """Nothing else is read before the control plane's Redis has said what it makes of it."""
        seen: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        await self._forward(command, place=_Place(seen=seen))
        async with asyncio.timeout(REPLY_SECONDS):
            reply = await seen
        name = command.name
        if name == "reset" and reply.word == b"RESET":
            self._trusted, self._resp, self._hub_subscribed = self._certified, 2, False
            self._leave(list(self._channels))
        elif name == "hello" and reply.kind in _MAPS:
            version = _word(command, 1)
            self._resp = int(version) if version in {"2", "3"} else self._resp
            if any(word.lower() == b"auth" for word in command.words[2:]):
                self._trust()
        elif name == "auth" and (reply.kind, reply.word) == (ord("+"), b"OK"):
            self._trust()

    def _trust(self) -> None:
        """Where nobody needs a password any one is accepted."""
        if self._hub_has_password and not self._trusted:
            self._trusted = True
            self._tell_trusted()

    async def _refuse(self, command: RespCommand, text: str, *, code: str = "NOAUTH") -> None:
        if command.rest:

            async def nowhere(_: bytes, /) -> None:
                """It is read, so that the next command is found."""

            await self._from_client.copy_rest(command, nowhere)
        await self._say(resp.error(text, code=code))

    # An agent's answers.

    async def _get(self, place: _Place, agent: str, key: ApplicationKey) -> None:
        try:
            value = await self._caches.get(agent, key)
            reply = resp.NULL[self._resp] if value is None else resp.bulk(value)
            if self._held.used + len(reply) > self._held.limit:
                reply = resp.error("too many answers wait for clients that do not read them")
        except TiphysError as error:
            reply = resp.error(str(error))
        except Exception:
            log.exception("a question to an agent failed", **{logs.AGENT: agent})
            reply = resp.error("the proxy made a mistake: its log says more")
        place.reply, place.held = reply, len(reply)
        self._held.used += place.held
        await self._flush()

    async def _subscribe(self, command: RespCommand) -> None:
        """Each channel on its own: a client may follow agents and the control plane in one breath."""
        await self._answered()
        name, channels = command.name, command.words[1:]
        try:
            agents = [self._agents([each]) for each in channels]
        except KeyRefusedError as error:
            await self._say(resp.error(str(error)))
            return
        if name not in {"subscribe", "unsubscribe"} or not any(agents):
            if name == "unsubscribe" and not channels:
                for channel in self._leave(list(self._channels)):
                    await self._confirm(b"unsubscribe", channel)
            self._hub_subscribed = True
            await self._forward(command, place=_Place(subscribing=True))
            return
        for each, found in zip(channels, agents, strict=True):
            if found is None:
                self._hub_subscribed = True
                self._append(_Place(subscribing=True))
                await self._send(resp.command(name.encode(), each))
            elif name == "unsubscribe":
                self._leave([each.decode()])
                await self._confirm(b"unsubscribe", each.decode())
            else:
                await self._join(found[0], each.decode())

    async def _join(self, agent: str, channel: str) -> None:
        if channel not in self._channels:
            if len(self._channels) >= MAX_CHANNELS:
                await self._say(resp.error(f"more than {MAX_CHANNELS} channels of agents on one connection"))
                return
            try:
                stop = await self._caches.subscribe(agent, channel, lambda: self._notify(channel))
            except TiphysError as error:
                await self._say(resp.error(str(error)))
                return
            self._channels[channel] = stop
        await self._confirm(b"subscribe", channel)

    def _leave(self, channels: list[str]) -> list[str]:
        for channel in channels:
            if stop := self._channels.pop(channel, None):
                stop()
            self._notices.pop(channel, None)
        return channels

    async def _confirm(self, word: bytes, channel: str) -> None:
        parts = [resp.bulk(word), resp.bulk(channel.encode()), b":%d\r\n" % len(self._channels)]
        await self._say(resp.notice(parts, resp=self._resp))

    def _notify(self, channel: str) -> None:
        """A message of an agent's, from outside of this connection's tasks."""
        busy = bool(self._notices)
        self._notices[channel] = min(MAX_WAITING_NOTICES, self._notices.get(channel, 0) + 1)
        if not busy:
            self._start(self._write_notices())

    async def _write_notices(self) -> None:
        while self._notices:
            async with self._writing:
                waiting, self._notices = self._notices, {}
                for channel, count in waiting.items():
                    parts = [resp.bulk(b"message"), resp.bulk(channel.encode()), resp.bulk(b"")]
                    await self._write(resp.notice(parts, resp=self._resp) * count)

    # To the client.

    def _append(self, place: _Place) -> None:
        self._places.append(place)
        self._note_turn()

    def _pop(self) -> _Place:
        place = self._places.popleft()
        self._note_turn()
        self._fewer.set()
        return place

    def _note_turn(self) -> None:
        if self._places and self._places[0].from_agent:
            self._hubs_turn.clear()
        else:
            self._hubs_turn.set()

    async def _say(self, reply: bytes) -> None:
        """In its place among the others."""
        self._append(_Place(reply, from_agent=True))
        await self._flush()

    async def _answered(self) -> None:
        """Everything that was asked: what follows has no place of its own."""
        async with asyncio.timeout(REPLY_SECONDS):
            while self._places:
                self._fewer.clear()
                await self._fewer.wait()

    async def _flush(self) -> None:
        async with self._writing:
            while self._places and self._places[0].reply is not None:
                place = self._pop()
                try:
                    await self._write(place.reply or b"")
                finally:
                    if place.held:
                        self._held.used -= place.held
                        self._gets.release()

    async def _replies(self) -> None:
        while True:
            try:
                kind = await self._from_hub.first_byte()
            except asyncio.IncompleteReadError:
                return
            if kind != ord(">"):  # a push goes between any two replies
                await self._hubs_turn.wait()
            async with self._writing:
                reply = await self._from_hub.copy_reply(kind, self._write)
                message = self._hub_subscribed and self._resp == 2 and reply.word in _MESSAGES  # noqa: PLR2004 - the version
                if self._is_expected(reply, aside=reply.is_push or message):
                    place = self._pop()
                    if place.seen is not None and not place.seen.done():
                        place.seen.set_result(reply)
            await self._flush()

    def _is_expected(self, reply: Reply, *, aside: bool) -> bool:
        """It has a place, which is the first."""
        if not self._places or self._places[0].from_agent:
            return False
        return not aside or (self._places[0].subscribing and reply.word in _CONFIRMATIONS)

    async def _write(self, data: bytes) -> None:
        self._to_client.write(data)
        async with asyncio.timeout(resp.STALL_SECONDS):
            await self._to_client.drain()

    async def _send(self, data: bytes, /) -> None:
        self._to_hub.write(data)
        async with asyncio.timeout(resp.STALL_SECONDS):
            await self._to_hub.drain()


def _word(command: RespCommand, position: int) -> str:
    words = command.words[position : position + 1]
    return words[0].decode("ascii", "replace").lower() if words else ""
