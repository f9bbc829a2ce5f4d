"""What agents have in their Redis, asked for over their streams; one subscription for all who follow a channel."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any, Protocol

from argocd.agents.vocabulary import Message, Target
from sidecars.proxies.redis import metrics, trees
from sidecars.proxies.redis.keys import TREE, ApplicationKey
from sidecars.proxies.requests import Requests
from sidecars.wire import payloads
from sidecars.wire.errors import MalformedError
from sidecars.wire.events import Event, fresh_id
from sidecars.wire.proxy_payloads import (
    RedisChannel,
    RedisKey,
    RedisNothing,
    RedisRequest,
    RedisRequestBody,
    RedisResponse,
    RedisResponseBody,
    RedisSubscribed,
)
from tiphys import logs
from tiphys.errors import SurroundingsError, TiphysError

# argocd-server's client gives up after five seconds or less; a second try may meet a faster answer.
GET_SECONDS = 10.0
# As argocd-agent: an agent forgets a subscription after ten minutes without one.
PING_SECONDS = 60.0
# After an agent that came back could not follow a channel: its Redis may be coming back too.
RETRY_SECONDS = 5.0
# Pings and renewals under way: an agent that comes back with a thousand subscriptions has other things to do too.
AT_ONCE = 32
# Of one agent: five times the Applications that a large one has. What is beyond is refused.
MAX_SUBSCRIPTIONS = 4096

log = logs.get_logger()


class AgentRedisError(SurroundingsError):
    """An agent could not say what its Redis has."""


class Placing(Protocol):
    """Whose an Application is."""

    def agent_of(self, key: ApplicationKey) -> str:
        """Empty where it is no agent's."""
        ...

    def hub_namespace(self, agent: str, namespace: str) -> str:
        """Where the control plane has an Application that the agent has in `namespace`."""
        ...


class _Subscription:
    """One channel of one agent. Whoever follows it is told of each message."""

    def __init__(self, *, agent: str, channel: str) -> None:
        self.agent = agent
        self.channel = channel
        self.uuid = fresh_id()
        self.followers: dict[object, Callable[[], None]] = {}
        self.stop: Callable[[], None] = lambda: None
        self.joining: asyncio.Task[None] | None = None

    def notify(self) -> None:
        for notify in list(self.followers.values()):
            notify()


class AgentRedisCaches:
    """`run` keeps subscriptions alive until it is cancelled."""

    def __init__(self, requests: Requests, placing: Placing) -> None:
        self._requests = requests
        self._placing = placing
        self._uuids: dict[str, str] = {}
        """A connection's name for each agent's gets: a Go agent keeps every one that it ever heard."""
        self._subscriptions: dict[str, dict[str, _Subscription]] = {}
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        try:
            while True:
                await asyncio.sleep(PING_SECONDS)
                self._uuids = {
                    agent: uuid for agent, uuid in self._uuids.items() if self._requests.connected(agent)
                }
                for subscription in self._all():
                    async with self._turns:  # not all in one breath
                        self._start(self._ping(subscription))
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def agent_of(self, key: ApplicationKey) -> str:
        return self._placing.agent_of(key)

    async def get(self, agent: str, key: ApplicationKey) -> bytes | None:
        metrics.REQUESTS.labels(agent, "get").inc()
        begin = time.perf_counter()
        try:
            return await self._get(agent, key)
        except TiphysError:
            metrics.ERRORS.labels(agent, "get").inc()
            raise
        finally:
            metrics.SECONDS.observe(time.perf_counter() - begin)

    async def _get(self, agent: str, key: ApplicationKey) -> bytes | None:
        if key.shard and self._requests.connected(agent) and not self._requests.is_tiphys(agent):
            raise AgentRedisError(f"agent {agent} is argocd-agent's, which has no trees in shards")
        connection = self._uuids.setdefault(agent, fresh_id())
        body = RedisRequestBody(get=RedisKey(key=str(key)))
        answer = (await self._ask(agent, body, connection=connection)).get
        if answer is None:
            raise AgentRedisError(f"agent {agent} answered something else than it was asked")
        if answer.error:
            raise AgentRedisError(f"agent {agent}: {answer.error[:300]}")
        if not answer.cache_hit:
            return None
        value = answer.value or b""
        if key.kind != TREE:
            return value
        work: Callable[[], bytes] = lambda: trees.renamed(  # noqa: E731 - here or on a thread
            value,
            compressed=key.is_compressed,
            hub_namespace=lambda namespace: self._placing.hub_namespace(agent, namespace),
        )
        return work() if len(value) <= trees.INLINE_BYTES else await asyncio.to_thread(work)

    # Subscriptions.

    async def subscribe(self, agent: str, channel: str, notify: Callable[[], None]) -> Callable[[], None]:
        """Counts also while the agent is away: it is asked when it comes."""
        metrics.REQUESTS.labels(agent, "subscribe").inc()
        known = self._subscriptions.setdefault(agent, {})
        subscription = known.get(channel)
        if subscription is None:
            if len(known) >= MAX_SUBSCRIPTIONS:
                metrics.ERRORS.labels(agent, "subscribe").inc()
                raise AgentRedisError(f"{len(known)} channels of agent {agent} are followed already")
            subscription = known[channel] = _Subscription(agent=agent, channel=channel)
            metrics.SUBSCRIPTIONS.inc()
        me = object()
        subscription.followers[me] = notify

        def stop() -> None:
            subscription.followers.pop(me, None)
            if not subscription.followers:
                self._drop(subscription)

        try:
            await self._joined(subscription)
        except BaseException as error:
            stop()
            if isinstance(error, TiphysError):
                metrics.ERRORS.labels(agent, "subscribe").inc()
            raise
        return stop

    def _all(self) -> list[_Subscription]:
        return [each for known in self._subscriptions.values() for each in known.values()]

    def came(self, agent: str) -> None:
        """The agent's stream began: it may have forgotten everything, and who follows may have missed something."""
        for subscription in list(self._subscriptions.get(agent, {}).values()):
            self._rejoin(subscription)

    async def _joined(self, subscription: _Subscription) -> None:
        """One question for all who come at the same time."""
        if subscription.joining is None and self._requests.connected(subscription.agent):
            subscription.joining = self._start(self._join(subscription))
        if subscription.joining is not None:
            await asyncio.shield(subscription.joining)

    async def _join(self, subscription: _Subscription) -> None:
        agent, uuid = subscription.agent, subscription.uuid
        subscription.stop = self._requests.listen(
            agent, uuid, lambda event: self._pushed(subscription, event)
        )
        body = RedisRequestBody(subscribe=RedisChannel(channel=subscription.channel))
        try:
            _check(agent, (await self._ask(agent, body, connection=uuid, uuid=uuid)).subscribe_response)
        except BaseException:
            subscription.stop()
            subscription.joining = None  # whoever comes next asks again
            raise

    def _rejoin(self, subscription: _Subscription) -> None:
        """Under another name: the agent may still have the old one."""
        self._forget(subscription)
        subscription.uuid = fresh_id()

        async def rejoin() -> None:
            """Who follows is told when it counts again; until then something may be missed."""
            uuid = subscription.uuid
            try:
                async with self._turns:
                    await self._joined(subscription)
            except TiphysError as error:
                log.warning(
                    "a subscription was not renewed",
                    **{
                        logs.AGENT: subscription.agent,
                        logs.KEY: subscription.channel,
                        logs.ERROR: str(error),
                    },
                )
                await asyncio.sleep(RETRY_SECONDS)
                # Once; then the next ping.
                if subscription.followers and subscription.uuid == uuid:
                    with contextlib.suppress(TiphysError):
                        await self._joined(subscription)
            subscription.notify()

        self._start(rejoin())

    def _pushed(self, subscription: _Subscription, event: Event) -> None:
        try:
            push = _read(event).push_from_subscribe
        except AgentRedisError:
            return
        if push is not None:
            subscription.notify()

    async def _ping(self, subscription: _Subscription) -> None:
        if not self._requests.connected(subscription.agent) or not subscription.followers:
            return
        if subscription.joining is None:
            self._rejoin(subscription)
            return
        uuid = subscription.uuid
        try:
            async with self._turns:
                await self._ask(subscription.agent, RedisRequestBody(ping=RedisNothing()), connection=uuid)
        except TiphysError:
            if subscription.uuid == uuid and subscription.followers:
                self._rejoin(subscription)

    def _drop(self, subscription: _Subscription) -> None:
        known = self._subscriptions.get(subscription.agent, {})
        if known.get(subscription.channel) is subscription:
            del known[subscription.channel]
            if not known:
                del self._subscriptions[subscription.agent]
            metrics.SUBSCRIPTIONS.dec()
            self._forget(subscription)

    def _forget(self, subscription: _Subscription) -> None:
        """A Go agent has no word for it, and forgets when nobody pings."""
        subscription.stop()
        subscription.stop = lambda: None
        if subscription.joining is None:
            return
        subscription.joining.cancel()
        subscription.joining = None
        if self._requests.is_tiphys(subscription.agent) and self._requests.connected(subscription.agent):
            body = RedisRequestBody(unsubscribe=RedisNothing())
            try:
                event = _request(body, connection=subscription.uuid)
                self._requests.tell(subscription.agent, event, seconds=GET_SECONDS)
            except TiphysError as error:
                log.debug("an unsubscription was not told", **{logs.ERROR: str(error)})

    # Questions.

    async def _ask(
        self, agent: str, body: RedisRequestBody, *, connection: str, uuid: str = ""
    ) -> RedisResponseBody:
        event = _request(body, connection=connection, uuid=uuid)
        return _read(await self._requests.ask(agent, event, seconds=GET_SECONDS))

    def _start(self, work: Any) -> "asyncio.Task[None]":
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # who waits for it has it


def _request(body: RedisRequestBody, *, connection: str, uuid: str = "") -> Event:
    uuid = uuid or fresh_id()
    payload = payloads.write(RedisRequest(uuid=uuid, connection_uuid=connection, body=body))
    return Event(
        type=Message.REDIS_REQUEST, target=Target.REDIS, resource_id=uuid, event_id=uuid, payload=payload
    )


def _check(agent: str, subscribed: RedisSubscribed | None) -> None:
    if subscribed is None or subscribed.error:
        why = (
            subscribed.error[:300]
            if subscribed is not None
            else "it answered something else than it was asked"
        )
        raise AgentRedisError(f"agent {agent}: {why}")


def _read(event: Event) -> RedisResponseBody:
    try:
        return payloads.read(RedisResponse, event.payload).body
    except MalformedError as error:
        raise AgentRedisError(f"the agent's answer cannot be read: {error}") from error
