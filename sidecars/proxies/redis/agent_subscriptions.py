"""Channels of the agent's Redis that the principal follows, over one connection."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

from sidecars.proxies.redis import metrics
from tiphys import logs
from tiphys.errors import SurroundingsError

# As argocd-agent: a principal that pings no more has left, or a client of it.
SILENT_SECONDS = 600.0
LOOK_SECONDS = 60.0
MAX_SUBSCRIPTIONS = 4096
CONFIRM_SECONDS = 5.0
# After the connection to Redis broke: its pod is being replaced, seconds at best.
RETRY_SECONDS = 2.0

log = logs.get_logger()

Notify = Callable[[], None]


@dataclass(slots=True)
class _Channel:
    confirmed: asyncio.Future[None]
    followers: dict[str, Notify] = field(default_factory=dict)
    """By the name of the principal's connection."""


class AgentSubscriptions:
    """`run` until cancelled."""

    def __init__(self, client: Redis, *, clock: Callable[[], float]) -> None:
        self._client = client
        self._clock = clock
        self._pubsub: Any = client.pubsub()
        self._channels: dict[str, _Channel] = {}
        self._places: dict[str, tuple[str, float]] = {}
        """The channel of each connection, and when it was last heard of."""
        self._some = asyncio.Event()

    def __len__(self) -> int:
        return len(self._places)

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._listen(), name="Redis' messages")
                group.create_task(self._forget_the_silent(), name="Redis' subscriptions")
        finally:
            await self._closed(self._pubsub.aclose())

    async def subscribe(self, connection: str, channel: str, notify: Notify) -> None:
        """Returns when Redis has confirmed it. The same connection again is the same subscription."""
        if connection not in self._places and len(self._places) >= MAX_SUBSCRIPTIONS:
            raise SurroundingsError(f"{MAX_SUBSCRIPTIONS} channels are followed already")
        await self.unsubscribe(connection)
        held = self._channels.get(channel)
        if held is None:
            held = self._channels[channel] = _Channel(asyncio.get_running_loop().create_future())
            try:
                await self._pubsub.subscribe(channel)
                self._some.set()
            except (RedisError, OSError) as error:
                if not held.followers:
                    self._channels.pop(channel, None)
                raise SurroundingsError(f"Redis cannot be asked: {error}") from error
        held.followers[connection] = notify
        self._places[connection] = channel, self._clock()
        metrics.SUBSCRIPTIONS.set(len(self._places))
        try:
            async with asyncio.timeout(CONFIRM_SECONDS):
                await asyncio.shield(held.confirmed)
        except TimeoutError:
            await self.unsubscribe(connection)
            raise SurroundingsError("Redis did not confirm the subscription") from None
        except asyncio.CancelledError:
            await self.unsubscribe(connection)
            raise

    def ping(self, connection: str) -> None:
        if connection in self._places:
            self._places[connection] = self._places[connection][0], self._clock()

    async def unsubscribe(self, connection: str) -> None:
        channel, _ = self._places.pop(connection, ("", 0.0))
        metrics.SUBSCRIPTIONS.set(len(self._places))
        held = self._channels.get(channel)
        if held is None:
            return
        held.followers.pop(connection, None)
        if not held.followers:
            del self._channels[channel]
            await self._closed(self._pubsub.unsubscribe(channel))

    async def _listen(self) -> None:
        while True:
            raise_if_cancelled()
            await self._some.wait()
            if not self._channels and not self._pubsub.subscribed:
                self._some.clear()
                continue
            try:
                message = await self._pubsub.get_message(timeout=None)
            except (RedisError, OSError, RuntimeError) as error:
                await self._begin_anew(error)
                continue
            if message is not None:
                self._take(message["type"], _text(message["channel"]))

    def _take(self, kind: str, channel: str) -> None:
        held = self._channels.get(channel)
        if held is None:
            return
        if kind == "subscribe" and not held.confirmed.done():
            held.confirmed.set_result(None)
        elif kind in {
            "subscribe",
            "message",
        }:  # confirmed again after a new connection: something may be missed
            for notify in list(held.followers.values()):
                notify()

    async def _begin_anew(self, error: Exception) -> None:
        log.warning(
            "the connection to Redis broke: its channels are followed anew", **{logs.ERROR: str(error)}
        )
        # At once: whoever uses the broken one meanwhile would have it connect again, and nobody closes that.
        broken, self._pubsub = self._pubsub, self._client.pubsub()
        await self._closed(broken.aclose())
        await asyncio.sleep(RETRY_SECONDS)
        if not self._channels:
            self._some.clear()
            return
        try:
            await self._pubsub.subscribe(*self._channels)
        except (RedisError, OSError) as again:
            log.debug("Redis is still away", **{logs.ERROR: str(again)})

    async def _forget_the_silent(self) -> None:
        while True:
            raise_if_cancelled()
            await asyncio.sleep(LOOK_SECONDS)
            before = self._clock() - SILENT_SECONDS
            for connection, (_, heard) in list(self._places.items()):
                if heard < before:
                    await self.unsubscribe(connection)

    async def _closed(self, closing: Awaitable[Any]) -> None:
        try:
            async with asyncio.timeout(CONFIRM_SECONDS):
                await closing
        except (RedisError, OSError, TimeoutError) as error:
            log.debug("Redis did not hear it", **{logs.ERROR: str(error)})


def raise_if_cancelled() -> None:
    """For loops around redis-py: it sends by `asyncio.wait_for`, which before Python 3.12 may swallow a cancellation."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _text(channel: Any) -> str:
    return channel.decode("utf-8", "replace") if isinstance(channel, bytes) else str(channel)
