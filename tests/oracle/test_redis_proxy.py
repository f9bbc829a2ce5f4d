"""argocd-agent's own tables of its Redis proxy, and where ours answers otherwise on purpose."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import orjson
import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from argocd.agents.routing import AgentMapping
from argocd.agents.vocabulary import Message, Mode, Target
from sidecars.delivery.timing import Timing
from sidecars.proxies.dispatcher import RequestDispatcher
from sidecars.proxies.redis import caches, keys
from sidecars.proxies.redis.agent_answers import RedisAnswers
from sidecars.proxies.redis.caches import AgentRedisCaches
from sidecars.proxies.redis.connection import Held, RedisConnection
from sidecars.proxies.redis.keys import ApplicationKey, KeyRefusedError
from sidecars.proxies.redis.resp import command
from sidecars.wire.events import Event, fresh_id
from sidecars.wire.streams import DEFAULT_MAX_MESSAGE_BYTES
from tests.oracle import suites_sidecars
from tests.oracle.tables import MARKS, table
from tests.sidecars.pair_in_memory import PATIENCE, Pipe
from tests.sidecars.proxies.redis.redis_servers import RawClient
from tests.sidecars.scripted_ends import AGENT, heard, scripted
from tests.simulation.simulated_redis import SimulatedRedis, connection, serve_hub

pytestmark = MARKS

OTHERWISE = {
    "redis-get-error": "an error is told, with the agent's name, and the connection stays",
    "redis-get-miss": "a miss is a null of the negotiated version, not an error without words",
    "redis-key-five-fields": "an error is told and the connection stays",
    "redis-key-tree-shard": "the tree is found",
    "redis-agent-get-error": "before the words stands whose Redis it was",
}


class _OneAgents:
    """Every Application is that agent's, whatever it is called in the table."""

    def agent_of(self, _key: ApplicationKey) -> str:
        return AGENT

    def hub_namespace(self, _agent: str, namespace: str) -> str:
        return namespace


@asynccontextmanager
async def asking(version: int = 3) -> AsyncIterator[tuple[RawClient, Pipe]]:
    """A client that has logged in, and the agent's end."""
    async with scripted(Mode.MANAGED) as (hub, pipe):
        assert hub.principal is not None
        made = AgentRedisCaches(hub.principal.requests, _OneAgents())
        (ours, theirs), (here, behind) = connection(), connection()
        proxy = RedisConnection(
            client=theirs, hub=here, caches=made, held=Held(), certified=False, hub_has_password=True
        )
        work = [asyncio.ensure_future(each) for each in (serve_hub(behind, {}), proxy.run(), made.run())]
        try:
            client = RawClient(*ours)
            client.send(command(b"HELLO", b"%d" % version) + command(b"AUTH", b"x"))
            await client.expect(b"%0\r\n+OK\r\n")
            yield client, pipe
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)


async def answer(pipe: Pipe, body: Any) -> Any:
    """As the agent, to the next question, which is handed back."""
    request = await heard(pipe, Message.REDIS_REQUEST)
    asked = orjson.loads(request.payload)
    await say(pipe, asked, body)
    return asked


async def say(pipe: Pipe, asked: Any, body: Any) -> None:
    told = {"uuid": asked["uuid"], "connectionUuid": asked["connectionUuid"], "body": body}
    await pipe.send(
        Event(
            type=Message.REDIS_RESPONSE,
            target=Target.REDIS,
            resource_id=fresh_id(),
            event_id=asked["uuid"],
            payload=orjson.dumps(told),
        )
    )


def encoded(text: str | None) -> str | None:
    return None if text is None else b64encode(text.encode()).decode()


PRINCIPALS = table("redis proxy on the principal")


@pytest.mark.parametrize("case", [each for each in PRINCIPALS if each.id.startswith("redis-key-")])
def test_a_key_is_the_same_agents(case: Any) -> None:
    given, expected = case["input"], case["expect"]
    answered = suites_sidecars.redis_agent_from_key({**given, "principalNs": given["principal_namespace"]})
    assert answered == ({"error": True} if "error" in expected else expected["agent"])


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("case", [each for each in PRINCIPALS if each.id.startswith("redis-get-")])
async def test_an_agents_value_reaches_the_client_as_it_does_there(case: Any, version: int) -> None:
    given, expected = case["input"], case["expect"]
    key = given.get("key", "app|managed-resources|test-agent_my-app|1.8.3")
    body = {**given["response"], "bytes": encoded(given["response"].get("bytes"))}
    async with asking(version) as (client, pipe):
        client.send(command(b"get", key.encode()))
        asked = await answer(pipe, {"get": body})
        assert asked["body"] == expected.get("request", {"get": {"key": key}})
        if case["id"] == "redis-get-error":
            words = given["response"]["error"]
            assert words in expected["error_contains"]
            assert await client.line() == f"-ERR agent {AGENT}: {words}\r\n".encode()
        else:
            wanted = expected.get("bytes") or expected[f"wanted_bytes_resp{version}"]
            await client.expect(wanted.encode())
        client.send(command(b"PING"))
        await client.expect(b"+OK\r\n")


@pytest.mark.parametrize(
    "case", [each for each in PRINCIPALS if each.id.startswith(("redis-notify-", "redis-subscribe"))]
)
async def test_a_subscription_reaches_the_client_as_it_does_there(
    case: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caches, "PING_SECONDS", 0.05)
    given, expected = case["input"], case["expect"]["bytes"].encode()
    channel = given.get("channel") or given["push"]
    async with asking() as (client, pipe):
        client.send(command(b"subscribe", channel.encode()))
        asked = await answer(pipe, given.get("response", {"subscribeResponse": {"error": ""}}))
        assert asked["body"] == {"subscribe": {"channel": channel}}
        if "push" in given:
            assert (await client.line()).startswith(b">3")
            for _ in range(5):
                await client.line()
            await say(pipe, asked, {"pushFromSubscribe": {"channelName": channel}})
        await client.expect(expected)
        if case["expect"].get("ping_routine_started"):
            assert (await answer(pipe, {"pong": {}}))["body"] == {"ping": {}}


@pytest.mark.parametrize("case", table("agent, namespace mapping"))
def test_the_agent_finds_the_same_keys(case: Any) -> None:
    given, expected = case["input"]["key"], case["expect"]
    try:
        assert keys.at_agent(given, mapped_by=AgentMapping.NAMESPACE) == expected.get("key")
    except KeyRefusedError:
        assert expected.get("error")


class _Failing(SimulatedRedis):
    """With the words of a case; without any it never fails."""

    def __init__(self, words: str = "") -> None:
        super().__init__(Random(0))
        self._words = words

    async def answer(self) -> None:
        if self._words:
            raise RedisConnectionError(self._words)


async def answered(redis: SimulatedRedis, body: Any) -> Any:
    """By the agent beside that Redis."""
    dispatcher = RequestDispatcher(lambda *_args, **_more: True, timing=Timing())
    client: Any = redis.client()
    answers = RedisAnswers(
        client,
        dispatcher,
        mapped_by=AgentMapping.NAMESPACE,
        knows_application=lambda _namespace, name: name == "my-app",
        clock=dispatcher._clock,
        max_message_bytes=DEFAULT_MAX_MESSAGE_BYTES,
    )
    running = asyncio.ensure_future(answers.run())
    request = orjson.dumps({"uuid": "r1", "connectionUuid": "c1", "body": body})
    event = Event(
        type=Message.REDIS_REQUEST, target=Target.REDIS, resource_id="r1", event_id="r1", payload=request
    )
    try:
        async with asyncio.timeout(PATIENCE):
            told = await answers.handle(event)
        assert told is not None
        return orjson.loads(told)["body"]
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("case", table("agent: RedisRequest get"))
async def test_the_agent_answers_a_get_as_argocd_agents_does(case: Any) -> None:
    given, expected = case["input"], case["expect"]
    redis = _Failing(given.get("redis_error", ""))
    if given.get("redis") is not None:
        redis.values["app|managed-resources|my-app|1.8.3"] = given["redis"].encode()
    body = (await answered(redis, {"get": {"key": "app|managed-resources|agent_my-app|1.8.3"}}))["get"]
    wanted = {**expected, "bytes": encoded(expected["bytes"])}
    if case["id"] in OTHERWISE:
        wanted["error"] = f"the agent's Redis: {expected['error']}"
    assert body == wanted


@pytest.mark.parametrize("case", table("agent: RedisRequest subscribe"))
async def test_the_agent_answers_a_subscription_as_argocd_agents_does(case: Any) -> None:
    body = await answered(_Failing(), {"subscribe": {"channel": case["input"]["channel"]}})
    assert body == {"subscribeResponse": case["expect"]["subscribeResponse"]}


@pytest.mark.parametrize("case", table("a sharded resource tree"))
def test_a_tree_in_shards_is_found(case: Any) -> None:
    """argocd-agent closes the connection."""
    key = case["input"]["key"]
    assert suites_sidecars.redis_agent_from_key({"key": key}) == case["expect"]["wanted"]["agent"]
    own = key.replace(f"{case['expect']['wanted']['agent']}_", "")
    assert keys.at_agent(key, mapped_by=AgentMapping.NAMESPACE) == own
