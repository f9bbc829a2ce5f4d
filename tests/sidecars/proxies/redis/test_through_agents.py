"""From a Redis client beside the control plane through principal and agent to the agent's Redis: all of it real."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from argocd.agents.vocabulary import Mode
from kube.embedded import EmbeddedStore
from kube.resources import APPLICATIONS
from sidecars.process.serving_gate import OPEN
from sidecars.proxies.redis import agent_subscriptions, caches
from sidecars.proxies.redis.listener import RedisProxyOptions
from sidecars.wire.streams import DEFAULT_MAX_MESSAGE_BYTES
from tests.sidecars import pair_in_memory, processes
from tests.sidecars.captured_logs import logged
from tests.sidecars.proxies.redis.redis_servers import (
    PATIENCE,
    RedisServer,
    eventually,
    followed,
    redis_server,
)

AGENT = "prod"
PASSWORD = "hub's own"
AGENTS_PASSWORD = "agent's own"
TREE = "app|resources-tree|{}|1.8.3.gz"
CHANNEL = "app|managed-resources|{}|1.8.3"


class Scene:
    def __init__(self, stack: AsyncExitStack, *, hub: RedisServer, workload: RedisServer) -> None:
        self._stack = stack
        self._agents = AsyncExitStack()
        self.hub_redis = hub
        self.workload_redis = workload
        self.pki = processes.Pki()
        self.hub = EmbeddedStore(namespaces=["argocd", AGENT])
        self.workload = EmbeddedStore(namespaces=["argocd"])

    async def start(self) -> None:
        await pair_in_memory.Hub(self.hub).know(AGENT)
        redis = RedisProxyOptions(backend=self.hub_redis.backend, source=None, host="127.0.0.1", port=0)
        self.principal = await self._stack.enter_async_context(
            processes.principal(self.hub, self.pki, serving={"redis": redis}, allowed_namespaces=(AGENT,))
        )
        assert self.principal.redis is not None
        await asyncio.wait_for(self.principal.redis.proxy.listening.wait(), PATIENCE)
        self.port = self.principal.redis.proxy.port
        await self.agent_comes()

    async def agent_comes(self, **serving: Any) -> None:
        self.agent = await self._agents.enter_async_context(
            processes.connected_agent(
                self.workload,
                self.pki,
                name=AGENT,
                port=self.principal.port,
                serving={"redis": self.workload_redis.backend, **serving},
                mode=Mode.AUTONOMOUS,
            )
        )

    async def agent_goes(self) -> None:
        await self._agents.aclose()
        principal = self.principal.principal
        assert principal is not None
        await eventually(lambda: not principal.requests.connected(AGENT))

    async def application(self, name: str) -> None:
        await self.workload.create(APPLICATIONS, pair_in_memory.application(name), namespace="argocd")
        agent = self.agent._agent
        assert agent is not None
        await eventually(lambda: agent.agent_state.has_application("", name))

    def client(self, **more: Any) -> Redis:
        return Redis(port=self.port, password=PASSWORD, socket_timeout=PATIENCE, **more)


@asynccontextmanager
async def scene_in(folder: Path, *, pki: processes.Pki | None = None) -> AsyncIterator[Scene]:
    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(redis_server(folder, password=PASSWORD, pki=pki))
        workload = await stack.enter_async_context(redis_server(folder, password=AGENTS_PASSWORD, pki=pki))
        scene = Scene(stack, hub=hub, workload=workload)
        await scene.start()
        try:
            yield scene
        finally:
            await scene._agents.aclose()


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene_in(tmp_path) as made:
        yield made


async def test_the_tree_of_an_agents_application_is_shown_with_the_control_planes_names(scene: Scene) -> None:
    await scene.application("shop")
    node = {"group": "argoproj.io", "kind": "Application", "namespace": "argocd", "name": "child"}
    async with scene.workload_redis.client() as own, scene.client() as client:
        await own.set(TREE.format("shop"), gzip.compress(orjson.dumps({"nodes": [node]})))
        await own.set(TREE.format("shop|1"), gzip.compress(orjson.dumps({"nodes": []})))
        tree: Any = await client.get(TREE.format(f"{AGENT}_shop"))
        assert orjson.loads(gzip.decompress(tree))["nodes"] == [{**node, "namespace": AGENT}]
        shard: Any = await client.get(TREE.format(f"{AGENT}_shop|1"))
        assert orjson.loads(gzip.decompress(shard)) == {"nodes": []}
        assert await client.get(CHANNEL.format(f"{AGENT}_shop")) is None
        large = b"x" * 3_000_000
        await own.set(CHANNEL.format("shop"), large)
        assert await client.get(CHANNEL.format(f"{AGENT}_shop")) == large


async def test_what_is_not_the_principals_business_is_refused_by_the_agent(scene: Scene) -> None:
    """Also to a principal that asks for it: the agent does not believe it."""
    async with scene.workload_redis.client() as own, scene.client(single_connection_client=True) as client:
        await own.set(TREE.format("secret"), b"x")
        with pytest.raises(ResponseError, match="no Application secret here"):
            await client.get(TREE.format(f"{AGENT}_secret"))
        assert await client.ping()


async def test_a_value_larger_than_a_message_is_an_error_that_says_what_to_do(scene: Scene) -> None:
    await scene.application("shop")
    async with scene.workload_redis.client() as own, scene.client() as client:
        await own.set(CHANNEL.format("shop"), b"x" * (15 << 20))
        with pytest.raises(ResponseError, match="grpc-max-message-size"):
            await client.get(CHANNEL.format(f"{AGENT}_shop"))


async def test_of_a_value_larger_than_a_message_no_more_is_read_than_could_be_sent(scene: Scene) -> None:
    await scene.application("shop")
    async with scene.workload_redis.client() as own, scene.client() as client:
        await own.setrange(CHANNEL.format("shop"), (256 << 20) - 1, "x")
        before = (await own.info("stats"))["total_net_output_bytes"]
        with pytest.raises(ResponseError, match="the value is larger than a message may be"):
            await client.get(CHANNEL.format(f"{AGENT}_shop"))
        assert (await own.info("stats"))["total_net_output_bytes"] - before < DEFAULT_MAX_MESSAGE_BYTES
        await own.set(CHANNEL.format("shop"), b"")
        assert await client.get(CHANNEL.format(f"{AGENT}_shop")) == b""


async def test_a_principal_that_stands_by_shows_its_own_redis_alone(scene: Scene) -> None:
    await scene.application("shop")
    tree = TREE.format(f"{AGENT}_shop")
    async with scene.workload_redis.client() as own, scene.client(single_connection_client=True) as client:
        await own.set(TREE.format("shop"), gzip.compress(b"{}"))
        assert await client.get(tree)
        await client.set("mfst|x", "the hub's")
        scene.principal.gate.state = "standby"
        assert (await client.get(tree), await client.get("mfst|x")) == (None, b"the hub's")
        scene.principal.gate.state = OPEN
        assert await client.get(tree)


async def test_an_agent_that_is_told_of_no_redis_says_so_at_once(scene: Scene) -> None:
    await scene.application("shop")
    await scene.agent_goes()
    await scene.agent_comes(redis=None)
    async with scene.client() as client, client.pubsub() as pubsub, asyncio.timeout(caches.GET_SECONDS / 2):
        with pytest.raises(ResponseError, match="shows nothing of its Redis: --redis-addr"):
            await client.get(TREE.format(f"{AGENT}_shop"))
        await pubsub.subscribe(CHANNEL.format(f"{AGENT}_shop"))
        with pytest.raises(ResponseError, match="shows nothing of its Redis: --redis-addr"):
            await pubsub.get_message(timeout=PATIENCE)


async def test_an_agent_that_is_away_is_said_at_once_and_followed_when_it_comes_back(scene: Scene) -> None:
    await scene.application("shop")
    channel = CHANNEL.format(f"{AGENT}_shop")
    await scene.agent_goes()
    async with scene.client() as client, client.pubsub() as pubsub, scene.workload_redis.client() as own:
        with pytest.raises(ResponseError, match="prod is not connected"):
            await client.get(TREE.format(f"{AGENT}_shop"))
        await pubsub.subscribe(channel)
        assert (await pubsub.get_message(timeout=PATIENCE) or {})["type"] == "subscribe"
        await scene.agent_comes()
        # Something may have happened meanwhile.
        assert (await pubsub.get_message(timeout=PATIENCE) or {})["type"] == "message"
        assert await own.publish(CHANNEL.format("shop"), "") == 1
        assert (await pubsub.get_message(timeout=PATIENCE) or {})["type"] == "message"


async def test_messages_reach_all_who_follow_by_one_subscription_which_ends_with_the_last(
    scene: Scene,
) -> None:
    await scene.application("shop")
    channel, own_channel = CHANNEL.format(f"{AGENT}_shop"), CHANNEL.format("shop")
    async with scene.client() as client, scene.workload_redis.client() as own:
        async with client.pubsub() as one, client.pubsub() as two:
            for pubsub in (one, two):
                await pubsub.subscribe(channel)
                assert await pubsub.get_message(timeout=PATIENCE)
            assert await own.pubsub_numsub(own_channel) == [(own_channel.encode(), 1)]
            for _ in range(20):
                await own.publish(own_channel, "")
            for pubsub in (one, two):
                for _ in range(20):
                    message = await pubsub.get_message(timeout=PATIENCE)
                    assert message
                    assert (message["type"], message["channel"].decode()) == ("message", channel)
            await one.unsubscribe(channel)
            await own.publish(own_channel, "")
            assert await two.get_message(timeout=PATIENCE)
        await followed(own, own_channel, times=0)


async def test_a_subscription_lives_as_long_as_its_pings(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A principal that died says nothing: what it followed is forgotten."""
    await scene.application("shop")
    monkeypatch.setattr(agent_subscriptions, "SILENT_SECONDS", 0.0)
    monkeypatch.setattr(agent_subscriptions, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(caches, "PING_SECONDS", 0.05)
    await scene.agent_goes()
    await scene.agent_comes()
    own_channel = CHANNEL.format("shop")
    async with scene.client() as client, client.pubsub() as pubsub, scene.workload_redis.client() as own:
        await pubsub.subscribe(CHANNEL.format(f"{AGENT}_shop"))
        await followed(own, own_channel, times=0)


async def test_an_agents_redis_that_restarts_is_followed_again(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_subscriptions, "RETRY_SECONDS", 0.05)
    await scene.application("shop")
    await scene.agent_goes()
    async with AsyncExitStack() as stack:
        own = redis_server(tmp_path, password="x")
        scene.workload_redis = await own.__aenter__()
        port = scene.workload_redis.port
        await scene.agent_comes()
        client = await stack.enter_async_context(scene.client())
        pubsub = await stack.enter_async_context(client.pubsub())
        await pubsub.subscribe(CHANNEL.format(f"{AGENT}_shop"))
        assert await pubsub.get_message(timeout=PATIENCE)
        await own.__aexit__(None, None, None)
        with pytest.raises(ResponseError, match="agent prod: the agent's Redis"):
            await client.get(TREE.format(f"{AGENT}_shop"))
        again = await stack.enter_async_context(redis_server(tmp_path, password="x", port=port))
        message = await pubsub.get_message(timeout=PATIENCE)
        assert message
        assert message["type"] == "message"
        async with again.client() as writer:
            assert await writer.publish(CHANNEL.format("shop"), "") == 1
        assert await pubsub.get_message(timeout=PATIENCE)


async def test_who_leaves_while_redis_is_asked_anew_leaves_no_connection_behind(
    scene: Scene, tmp_path: Path
) -> None:
    for name in ("shop", "web"):
        await scene.application(name)
    await scene.agent_goes()
    lines = logged(level="warning")
    async with AsyncExitStack() as stack:
        first = redis_server(tmp_path)
        scene.workload_redis = await first.__aenter__()
        await scene.agent_comes()
        client = await stack.enter_async_context(scene.client())
        stays, leaves = [await stack.enter_async_context(client.pubsub()) for _ in range(2)]
        for pubsub, name in ((stays, "shop"), (leaves, "web")):
            await pubsub.subscribe(CHANNEL.format(f"{AGENT}_{name}"))
            assert await pubsub.get_message(timeout=PATIENCE)
        await first.__aexit__(None, None, None)
        await eventually(lambda: lines("the connection to Redis broke: its channels are followed anew"))
        again = await stack.enter_async_context(redis_server(tmp_path, port=scene.workload_redis.port))
        await leaves.unsubscribe()
        assert (await stays.get_message(timeout=PATIENCE) or {})["type"] == "message", "it is followed anew"
        async with again.client(single_connection_client=True) as own:
            await followed(own, CHANNEL.format("web"), times=0)
            assert len(await own.client_list()) == 2, "this one, and the one that follows"


async def test_both_ends_speak_tls_with_redis_and_believe_its_authority_alone(tmp_path: Path) -> None:
    async with scene_in(tmp_path, pki=processes.Pki()) as scene:
        await scene.application("shop")
        channel = CHANNEL.format(f"{AGENT}_shop")
        async with (
            scene.workload_redis.client() as own,
            scene.client() as client,
            client.pubsub() as pubsub,
        ):
            await own.set(TREE.format("shop"), gzip.compress(b'{"nodes": []}'))
            tree: Any = await client.get(TREE.format(f"{AGENT}_shop"))
            assert gzip.decompress(tree) == b'{"nodes": []}'
            await client.set("the hub's", "own")
            assert await client.get("the hub's") == b"own"
            await pubsub.subscribe(channel)
            assert await pubsub.get_message(timeout=PATIENCE)
            await own.publish(CHANNEL.format("shop"), "")
            assert (await pubsub.get_message(timeout=PATIENCE) or {})["type"] == "message"
        await scene.agent_goes()
        scene.workload_redis = replace(
            scene.workload_redis, authority=processes.Pki().authority.pair.certificate
        )
        await scene.agent_comes()
        async with scene.client() as client:
            with pytest.raises(ResponseError, match="agent prod: the agent's Redis"):
                await client.get(TREE.format(f"{AGENT}_shop"))


async def test_a_pipeline_of_agents_keys_and_the_hubs_is_answered_in_its_order(scene: Scene) -> None:
    for name in ("shop", "web"):
        await scene.application(name)
    async with scene.workload_redis.client() as own, scene.client() as client:
        expected: list[Any] = []
        pipeline = client.pipeline(transaction=False)
        for number in range(60):
            name = ("shop", "web", "absent")[number % 3]
            await own.set(CHANNEL.format("web"), b"web" * 20_000)
            await own.set(CHANNEL.format("shop"), b"shop")
            pipeline.set(f"hub {number}", number)
            pipeline.get(CHANNEL.format(f"{AGENT}_{name}"))
            pipeline.get(f"hub {number}")
            answer = {"shop": b"shop", "web": b"web" * 20_000, "absent": ResponseError}[name]
            expected += [True, answer, str(number).encode()]
        found = await pipeline.execute(raise_on_error=False)
        assert [type(each) if isinstance(each, Exception) else each for each in found] == expected
