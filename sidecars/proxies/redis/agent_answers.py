"""The agent's side: what the principal may know of this cluster's Redis, and nothing else that is in there."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.credentials import CredentialProvider
from redis.exceptions import AuthenticationError, RedisError

from argocd.agents.routing import AgentMapping
from argocd.agents.vocabulary import Target
from sidecars.proxies.dispatcher import RequestDispatcher, RequestHandler
from sidecars.proxies.redis import keys, metrics
from sidecars.proxies.redis.agent_subscriptions import MAX_SUBSCRIPTIONS, RETRY_SECONDS, AgentSubscriptions
from sidecars.proxies.redis.backend import RedisBackend
from sidecars.proxies.redis.keys import KeyRefusedError
from sidecars.wire import payloads
from sidecars.wire.errors import MalformedError
from sidecars.wire.events import Event
from sidecars.wire.proxy_payloads import (
    RedisNothing,
    RedisPush,
    RedisRequest,
    RedisResponse,
    RedisResponseBody,
    RedisSubscribed,
    RedisValue,
)
from tiphys.errors import SurroundingsError, TiphysError

# Questions that Redis is asked at a time; it answers one in a tenth of a millisecond.
SLOTS = 32
REDIS_SECONDS = 5.0
TOO_LARGE = "the value is larger than a message may be: raise --grpc-max-message-size on both ends"

KnowsApplication = Callable[[str, str], bool]
"""Of a namespace (empty: Argo CD's own) and a name: whether the principal has anything to do with it."""


def connected_client(backend: RedisBackend) -> Redis:
    """It connects when it is first asked."""
    return Redis(
        host=backend.host,
        port=backend.port,
        credential_provider=_Login(backend),
        socket_timeout=REDIS_SECONDS,
        socket_connect_timeout=REDIS_SECONDS,
        max_connections=SLOTS + 1,
        protocol=2,
        retry=Retry(NoBackoff(), 1),
        **_tls(backend),
    )


class _Login(CredentialProvider):
    def __init__(self, backend: RedisBackend) -> None:
        self._backend = backend

    async def get_credentials_async(self) -> Any:
        return self.get_credentials()

    def get_credentials(self) -> Any:
        try:
            username, password = self._backend.login()
        except SurroundingsError as error:  # as whoever asks Redis expects its troubles
            raise AuthenticationError(str(error)) from error
        return (username, password) if username else (password,) if password else ()


class RedisAnswers(RequestHandler):
    """`run` until cancelled."""

    def __init__(
        self,
        client: Redis,
        dispatcher: RequestDispatcher,
        *,
        mapped_by: AgentMapping,
        knows_application: KnowsApplication,
        clock: Callable[[], float],
        max_message_bytes: int,
    ) -> None:
        self._client = client
        # A message carries it in base64.
        self._max_bytes = max_message_bytes * 3 // 4
        self._dispatcher = dispatcher
        self._mapped_by = mapped_by
        self._knows_application = knows_application
        self._subscriptions = AgentSubscriptions(client, clock=clock)
        self._late: set[str] = set()

    async def run(self) -> None:
        # All subscriptions may end at once, where an argocd-server does.
        self._dispatcher.serve(Target.REDIS, self, slots=SLOTS, unawaited=MAX_SUBSCRIPTIONS)
        try:
            await self._subscriptions.run()
        finally:
            await self._client.aclose()

    async def handle(self, event: Event) -> bytes | None:
        request = payloads.read(RedisRequest, event.payload)
        body = request.body
        if body.get is not None:
            metrics.AGENT_REQUESTS.labels("get").inc()
            return _answer(request, get=await self._get(body.get.key))
        if body.subscribe is not None:
            metrics.AGENT_REQUESTS.labels("subscribe").inc()
            error = await self._subscribe(request, body.subscribe.channel)
            return _answer(request, subscribe_response=RedisSubscribed(error=error))
        if body.ping is not None:
            self._subscriptions.ping(request.connection_uuid)
            return _answer(request, pong=RedisNothing())
        if body.unsubscribe is not None:
            await self._subscriptions.unsubscribe(request.connection_uuid)
            return None
        raise MalformedError("a question about Redis that asks nothing")

    def refusal(self, event: Event, *, status: int, message: str) -> bytes | None:
        try:
            request = payloads.read(RedisRequest, event.payload)
        except MalformedError:
            return None
        if request.body.get is not None:
            metrics.AGENT_ERRORS.labels("get").inc()
            return _answer(request, get=RedisValue(error=message))
        if request.body.subscribe is not None:
            metrics.AGENT_ERRORS.labels("subscribe").inc()
            return _answer(request, subscribe_response=RedisSubscribed(error=message))
        return None

    def mutates(self, event: Event) -> bool:
        """The same subscription again is the same."""
        return False

    async def _get(self, key: str) -> RedisValue:
        try:
            value = await self._value(self._own(key))
        except (TiphysError, RedisError, OSError) as error:
            metrics.AGENT_ERRORS.labels("get").inc()
            return RedisValue(error=_told(error))
        return RedisValue(value=value, cache_hit=value is not None)

    async def _value(self, key: str) -> bytes | None:
        """Read as far as it could be sent: a value may have 512 MiB."""
        value: Any = await self._client.getrange(key, 0, self._max_bytes)
        if len(value) > self._max_bytes:
            raise SurroundingsError(TOO_LARGE)
        return bytes(value) if value or await self._client.exists(key) else None

    async def _subscribe(self, request: RedisRequest, channel: str) -> str:
        push = partial(self._push, request, channel)
        try:
            await self._subscriptions.subscribe(request.connection_uuid, self._own(channel), push)
        except (TiphysError, RedisError, OSError) as error:
            metrics.AGENT_ERRORS.labels("subscribe").inc()
            return _told(error)
        return ""

    def _own(self, key: str) -> str:
        """The key here; raises KeyRefusedError for what is none of the principal's business."""
        own = keys.at_agent(key, mapped_by=self._mapped_by)
        parsed = keys.parse(own)
        if (
            parsed is None
        ):  # what Argo CD keeps of Git: argocd-agent would show it, and no principal asks for it
            raise KeyRefusedError("only trees and managed resources of Applications are shown")
        if not self._knows_application(parsed.namespace, parsed.application):
            raise KeyRefusedError(f"there is no Application {parsed.instance} here that the principal knows")
        return own

    def _push(self, request: RedisRequest, channel: str) -> None:
        """By the name that the principal has for the channel. One that finds no room is said a little later."""
        payload = _answer(request, push_from_subscribe=RedisPush(channel_name=channel))
        if self._dispatcher.push(Target.REDIS, payload, event_id=request.uuid) or request.uuid in self._late:
            return
        self._late.add(request.uuid)

        def again() -> None:
            self._late.discard(request.uuid)
            self._push(request, channel)

        asyncio.get_running_loop().call_later(RETRY_SECONDS, again)


class DisabledRedis(RedisAnswers):
    """--redis-addr "": said at once."""

    def __init__(self) -> None:
        """Without anything to ask."""

    async def handle(self, event: Event) -> bytes | None:
        return self.refusal(event, status=403, message="this agent shows nothing of its Redis: --redis-addr")


def _answer(request: RedisRequest, **body: Any) -> bytes:
    return payloads.write(
        RedisResponse(
            uuid=request.uuid, connection_uuid=request.connection_uuid, body=RedisResponseBody(**body)
        )
    )


def _told(error: Exception) -> str:
    """Without what a library adds of addresses and commands."""
    if isinstance(error, SurroundingsError | KeyRefusedError):
        return str(error)[:300]
    return f"the agent's Redis: {error}"[:300]


def _tls(backend: RedisBackend) -> dict[str, Any]:
    if not backend.tls:
        return {}
    return {
        "ssl": True,
        "ssl_cert_reqs": "none" if backend.insecure else "required",
        "ssl_check_hostname": not backend.insecure,
        "ssl_ca_data": backend.authorities.decode() or None,
    }
