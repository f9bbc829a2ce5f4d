"""The proxy between clients and real Redis servers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, ResponseError

from sidecars.proxies.redis import connection, resp
from sidecars.proxies.redis.listener import RedisProxy
from sidecars.proxies.redis.resp import command
from tests.sidecars.proxies.redis.redis_servers import (
    CHANNEL,
    PATIENCE,
    TREE,
    DirectCaches,
    RawClient,
    RedisServer,
    eventually,
    proxy,
    redis_server,
)

PASSWORD = "hub's own"
AUTH = command(b"AUTH", PASSWORD.encode())


class Scene:
    def __init__(self, hub: RedisServer, caches: DirectCaches, made: RedisProxy) -> None:
        self.hub = hub
        self.caches = caches
        self.proxy = made
        self.port = made.port

    def client(self, **more: Any) -> Redis:
        more.setdefault("password", PASSWORD)
        return Redis(port=self.port, socket_timeout=PATIENCE, **more)

    async def raw(self) -> RawClient:
        """Logged in."""
        raw = await RawClient.connect(self.port)
        raw.send(AUTH)
        await raw.expect(b"+OK\r\n")
        return raw


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(redis_server(tmp_path, password=PASSWORD))
        agent = await stack.enter_async_context(redis_server(tmp_path))
        client = await stack.enter_async_context(agent.client())
        caches = DirectCaches(client)
        await client.set(TREE, b"the agent's")
        made = await stack.enter_async_context(proxy(hub.backend, caches))
        async with hub.client() as owner:
            await owner.set(TREE, b"stale, of the hub")
            await owner.set("mfst|x", b"the hub's")
        yield Scene(hub, caches, made)


@pytest.mark.parametrize("protocol", [2, 3])
async def test_trees_come_from_the_agent_and_everything_else_from_the_hub(
    scene: Scene, protocol: int
) -> None:
    async with scene.client(protocol=protocol) as client:
        assert await client.get(TREE) == b"the agent's"
        assert await client.get("mfst|x") == b"the hub's"
        assert await client.set("a", b"x" * 300_000)
        assert await client.get("a") == b"x" * 300_000
        assert await client.get("app|resources-tree|other-prod_shop_x|1.8.3") is None
        await client.hset("h", mapping={"a": "1", "b": "2"})
        assert await client.hgetall("h") == {b"a": b"1", b"b": b"2"}
        assert await client.get(TREE.replace("shop", "none")) is None
    async with scene.hub.client() as owner:
        assert await owner.get("a") == b"x" * 300_000


@pytest.mark.parametrize("protocol", [2, 3])
async def test_a_pipeline_is_answered_in_its_order(scene: Scene, protocol: int) -> None:
    scene.caches.hold.clear()
    async with scene.client(protocol=protocol) as client:
        pipeline = client.pipeline(transaction=False)
        for turn in range(100):
            pipeline.set(f"k{turn}", turn)
            for key in (TREE, f"k{turn}", "mfst|x"):
                pipeline.get(key)
        running = asyncio.ensure_future(pipeline.execute())
        await eventually(lambda: scene.caches.asked)
        scene.caches.hold.set()
        answers = await running
    expected = [[True, b"the agent's", str(turn).encode(), b"the hub's"] for turn in range(100)]
    assert answers == [each for turn in expected for each in turn]


async def test_nothing_is_answered_before_the_hub_has_accepted_the_password(scene: Scene) -> None:
    raw = await RawClient.connect(scene.port)
    raw.send(command(b"get", TREE.encode()))
    assert (await raw.line()).startswith(b"-NOAUTH")
    raw.send(command(b"AUTH", b"wrong") + command(b"get", TREE.encode()))
    assert (await raw.line()).startswith(b"-WRONGPASS")
    assert (await raw.line()).startswith(b"-NOAUTH")
    raw.send(command(b"subscribe", CHANNEL.encode()))
    assert (await raw.line()).startswith(b"-NOAUTH")
    raw.send(AUTH + command(b"get", TREE.encode()))
    await raw.expect(b"+OK\r\n$11\r\nthe agent's\r\n")
    raw.send(command(b"RESET") + command(b"get", TREE.encode()))
    await raw.expect(b"+RESET\r\n")
    assert (await raw.line()).startswith(b"-NOAUTH")
    with pytest.raises(AuthenticationError):
        await scene.client(password="wrong", retry=Retry(NoBackoff(), 0)).get(TREE)
    assert not scene.caches.followers


async def test_a_password_that_is_only_queued_counts_for_nothing(scene: Scene) -> None:
    raw = await RawClient.connect(scene.port)
    raw.send(command(b"MULTI") + command(b"AUTH", b"wrong") + command(b"get", TREE.encode()))
    for word in (b"-NOAUTH", b"-WRONGPASS", b"-NOAUTH"):
        assert (await raw.line()).startswith(word)


async def test_a_hub_without_a_password_shows_nothing_to_whoever_has_no_certificate(
    scene: Scene, tmp_path: Path
) -> None:
    async with redis_server(tmp_path) as open_hub, proxy(open_hub.backend, scene.caches) as made:
        raw = await RawClient.connect(made.port)
        raw.send(
            command(b"AUTH", b"default", b"anything") + command(b"get", TREE.encode()) + command(b"PING")
        )
        for _ in range(3):
            assert (await raw.line()).startswith(b"-NOAUTH show a client certificate")


async def test_a_miss_is_a_null_of_the_negotiated_version(scene: Scene) -> None:
    missing = command(b"get", TREE.replace("shop", "none").encode())
    raw = await scene.raw()
    raw.send(missing)
    await raw.expect(b"$-1\r\n")
    raw.send(command(b"HELLO", b"3"))
    while not (await raw.line()).startswith(b"*0"):
        pass  # the greeting's last line: no modules
    raw.send(missing)
    await raw.expect(b"_\r\n")


async def test_an_agents_error_is_an_error_and_the_connection_stays(scene: Scene) -> None:
    scene.caches.fails = "agent prod is\r\nnot connected"
    async with scene.client(single_connection_client=True) as client:
        with pytest.raises(ResponseError, match="agent prod is not connected"):
            await client.get(TREE)
        scene.caches.fails = ""
        assert await client.get(TREE) == b"the agent's"


async def test_a_mistake_of_ours_is_an_error_and_the_connection_stays(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def mistaken(*_: Any) -> bytes:
        raise RuntimeError

    raw = await scene.raw()
    with monkeypatch.context() as patched:
        patched.setattr(scene.caches, "get", mistaken)
        raw.send(command(b"get", TREE.encode()))
        assert (await raw.line()).startswith(b"-ERR the proxy made a mistake")
    raw.send(command(b"get", TREE.encode()))
    await raw.expect(b"$11\r\nthe agent's\r\n")


@pytest.mark.parametrize(("version", "sign"), [(b"2", b"*"), (b"3", b">")])
async def test_messages_of_agents_come_in_the_form_of_the_version(
    scene: Scene, version: bytes, sign: bytes
) -> None:
    raw = await RawClient.connect(scene.port)
    raw.send(command(b"HELLO", version, b"AUTH", b"default", PASSWORD.encode()))
    while not (await raw.line()).startswith(b"*0"):
        pass
    channel = b"$%d\r\n%b\r\n" % (len(CHANNEL), CHANNEL.encode())
    raw.send(command(b"subscribe", CHANNEL.encode()))
    await raw.expect(sign + b"3\r\n$9\r\nsubscribe\r\n" + channel + b":1\r\n")
    [notify] = scene.caches.followers[CHANNEL]
    notify()
    notify()
    await raw.expect((sign + b"3\r\n$7\r\nmessage\r\n" + channel + b"$0\r\n\r\n") * 2)
    raw.send(command(b"PING"))
    await raw.expect(b"*2\r\n$4\r\npong\r\n$0\r\n\r\n" if version == b"2" else b"+PONG\r\n")
    raw.send(command(b"unsubscribe", CHANNEL.encode()))
    await raw.expect(sign + b"3\r\n$11\r\nunsubscribe\r\n" + channel + b":0\r\n")
    assert scene.caches.followers[CHANNEL] == []


async def test_an_agents_channel_and_the_hubs_are_followed_on_one_connection(scene: Scene) -> None:
    async with scene.client() as client, client.pubsub() as pubsub:
        await pubsub.subscribe(CHANNEL, "hub's")
        seen = [await pubsub.get_message(timeout=PATIENCE) for _ in range(2)]
        assert {message["channel"].decode() for message in seen if message} == {CHANNEL, "hub's"}
        async with scene.hub.client() as owner:
            assert await owner.publish("hub's", "x") == 1
        message = await pubsub.get_message(timeout=PATIENCE)
        assert message
        assert message["data"] == b"x"
        scene.caches.followers[CHANNEL][0]()
        message = await pubsub.get_message(timeout=PATIENCE)
        assert message
        assert (message["channel"].decode(), message["data"]) == (CHANNEL, b"")
    await eventually(lambda: not scene.caches.followers[CHANNEL])


@pytest.mark.parametrize("version", [b"2", b"3"])
async def test_a_channel_that_the_hub_refuses_is_answered_in_its_place(scene: Scene, version: bytes) -> None:
    everything: dict[str, Any] = {"passwords": ["+pw"], "keys": ["*"], "categories": ["+@all"]}
    async with scene.hub.client() as owner:
        await owner.acl_setuser("reader", enabled=True, **everything, reset_channels=True)
    raw = await RawClient.connect(scene.port)
    raw.send(command(b"HELLO", version, b"AUTH", b"reader", b"pw"))
    while not (await raw.line()).startswith(b"*0"):
        pass
    for words in ((b"subscribe", b"hub's"), (b"subscribe", CHANNEL.encode(), b"hub's")):
        raw.send(command(*words) + command(b"unsubscribe", CHANNEL.encode()))
        while b"NOPERM" not in (line := await raw.line()):
            assert b"unsubscribe" not in line
        while b"unsubscribe" not in await raw.line():
            pass
        await raw.line(), await raw.line(), await raw.line()
        raw.send(command(b"get", TREE.encode()) + command(b"PING"))
        await raw.expect(b"$11\r\nthe agent's\r\n+PONG\r\n")


async def test_a_list_that_reads_like_a_message_is_none(scene: Scene) -> None:
    async with scene.hub.client() as owner:
        await owner.rpush("list", "message", "x")
    raw = await RawClient.connect(scene.port)
    raw.send(command(b"HELLO", b"3", b"AUTH", b"default", PASSWORD.encode()))
    while not (await raw.line()).startswith(b"*0"):
        pass
    raw.send(command(b"subscribe", b"hub's"))
    await raw.expect(b">3\r\n$9\r\nsubscribe\r\n$5\r\nhub's\r\n:1\r\n")
    raw.send(command(b"LRANGE", b"list", b"0", b"-1") + command(b"get", TREE.encode()))
    await raw.expect(b"*2\r\n$7\r\nmessage\r\n$1\r\nx\r\n$11\r\nthe agent's\r\n")


@pytest.mark.parametrize("word", [b"get", b"subscribe", b"unsubscribe"])
async def test_a_key_that_is_no_text_is_refused_and_the_connection_stays(scene: Scene, word: bytes) -> None:
    raw = await scene.raw()
    raw.send(command(word, CHANNEL.encode() + b"\xff") + command(b"PING"))
    assert (await raw.line()).startswith(b"-ERR 'app|managed-resources|prod_shop")
    await raw.expect(b"+PONG\r\n")


async def test_a_client_that_leaves_is_followed_by_nothing(scene: Scene) -> None:
    scene.caches.hold.clear()
    raw = await scene.raw()
    raw.send(command(b"subscribe", CHANNEL.encode()) + command(b"RESET"))
    raw.close()
    await eventually(lambda: not scene.caches.followers.get(CHANNEL))


async def test_within_a_transaction_everything_is_the_hubs(scene: Scene) -> None:
    raw = await scene.raw()
    raw.send(
        command(b"MULTI") + command(b"get", TREE.encode()) + command(b"EXEC") + command(b"get", TREE.encode())
    )
    await raw.expect(b"+OK\r\n+QUEUED\r\n*1\r\n$17\r\nstale, of the hub\r\n$11\r\nthe agent's\r\n")


@pytest.mark.parametrize("words", [(b"MONITOR",), (b"PSYNC", b"?", b"-1"), (b"client", b"REPLY", b"off")])
async def test_what_would_break_the_order_of_answers_is_refused(
    scene: Scene, words: tuple[bytes, ...]
) -> None:
    raw = await scene.raw()
    raw.send(command(*words) + command(b"PING"))
    assert b"is not available through this proxy" in await raw.line()
    await raw.expect(b"+PONG\r\n")


async def test_answers_that_nobody_reads_are_bounded(scene: Scene) -> None:
    scene.proxy._held.limit = 5
    async with scene.client() as client:
        with pytest.raises(ResponseError, match="too many answers wait"):
            await client.get(TREE)
    assert scene.proxy._held.used == 0


async def test_answers_that_wait_for_their_turn_are_held_too(scene: Scene) -> None:
    """The first command is the hub's, which takes its time over it."""
    scene.proxy._held.limit = 40
    raw = await scene.raw()
    raw.send(command(b"BLPOP", b"nothing", b"0") + command(b"get", TREE.encode()) * 20)
    value, error = (
        b"$11\r\nthe agent's\r\n",
        resp.error("too many answers wait for clients that do not read them"),
    )
    await eventually(lambda: scene.proxy._held.used == 2 * len(value) + 6 * len(error))
    async with scene.hub.client() as owner:
        await owner.rpush("nothing", "now")
    await raw.expect(b"*2\r\n$7\r\nnothing\r\n$3\r\nnow\r\n")
    values = 0
    for _ in range(20):
        if (await raw.line()).startswith(b"$"):
            await raw.expect(b"the agent's\r\n")
            values += 1
    assert values >= 2
    await eventually(lambda: scene.proxy._held.used == 0)


async def test_what_is_held_for_a_client_that_leaves_is_given_back(scene: Scene) -> None:
    raw = await scene.raw()
    raw.send(command(b"BLPOP", b"nothing", b"0") + command(b"get", TREE.encode()) * 3)
    await eventually(lambda: scene.proxy._held.used > 30)
    raw.close()
    await eventually(lambda: scene.proxy._held.used == 0)


async def test_a_pipeline_longer_than_its_bound_is_answered_all_the_same(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "MAX_PIPELINE", 4)
    async with scene.client() as client:
        pipeline = client.pipeline(transaction=False)
        for _ in range(50):
            pipeline.get(TREE)
            pipeline.get("mfst|x")
        assert await pipeline.execute() == [b"the agent's", b"the hub's"] * 50
