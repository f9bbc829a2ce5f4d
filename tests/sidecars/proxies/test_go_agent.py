"""Our proxies with a real argocd-agent's agent behind them: trees, subscriptions, logs and a terminal."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from argocd.agents.vocabulary import Mode
from kube.live import LiveStore
from scripts.argocd_agent import BINARY, agent_arguments
from scripts.cluster.controlplane import Cluster
from sidecars.principal import process as principal_running
from sidecars.principal.proxies.resource_port import ResourcePortOptions
from sidecars.principal.settings import PrincipalSettings
from sidecars.proxies.redis.listener import RedisProxyOptions
from sidecars.wire.auth.methods import NamePattern, SubjectMethod
from sidecars.wire.auth.tokens import Tokens
from tests.cluster.argocd.pods_in_front import LINES, PodsInFront, pods_in_front
from tests.sidecars.processes import Pki, started
from tests.sidecars.proxies.hub_caller import client_context
from tests.sidecars.proxies.redis.redis_servers import RedisServer, eventually, redis_server
from tests.sidecars.test_go_interop import Ground
from tests.sidecars.wire.listening_principal import KEY

pytestmark = [
    pytest.mark.skipif(not BINARY, reason="ARGOCD_AGENT_BIN names no argocd-agent"),
    pytest.mark.timeout(300),
]

PASSWORD = "hub's own"
PATIENCE = 60.0


class Scene:
    def __init__(self, ground: Ground, stack: AsyncExitStack) -> None:
        self.ground = ground
        self._stack = stack

    async def start(self, folder: Path, cluster: Cluster, blocking: ExitStack) -> None:
        enter, ground = self._stack.enter_async_context, self.ground
        await ground.know()
        self.hub_redis: RedisServer = await enter(redis_server(folder, password=PASSWORD))
        self.own_redis: RedisServer = await enter(redis_server(folder))
        self.front: PodsInFront
        self.front, kubeconfig = blocking.enter_context(
            pods_in_front(cluster, account="default", namespace=ground.spoke)
        )
        rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
        cluster.grant(rules=rules, account=f"{ground.spoke}/default")
        files = ground._files("principal")
        serving = principal_running.PrincipalOptions(
            settings=PrincipalSettings(namespace=ground.hub, allowed_namespaces=(ground.agent,)),
            method=SubjectMethod(NamePattern("CN=([^,]+)")),
            tokens=Tokens(KEY, now=time.time),
            source=files,
            host="127.0.0.1",
            port=ground.port,
            health_host="127.0.0.1",
            health_port=0,
            metrics_port=0,
            pages_port=0,
            redis=RedisProxyOptions(backend=self.hub_redis.backend, source=None, host="127.0.0.1", port=0),
            resources=ResourcePortOptions(source=files, host="127.0.0.1", port=0),
        )
        self.principal = principal_running.PrincipalProcess(ground.store, serving)
        await enter(started(self.principal))
        async with asyncio.timeout(PATIENCE):
            await self.principal.listening.wait()
        arguments = agent_arguments(folder, cluster, ground.spoke, ground.port, Mode.MANAGED.value)
        redis = f"--redis-addr=127.0.0.1:{self.own_redis.port}"
        await enter(ground._go("agent", *arguments, redis, f"--kubeconfig={kubeconfig}"))
        await eventually(lambda: self.principal._requests.connected(ground.agent))
        assert self.principal.resources is not None
        await self.principal.resources.listening.wait()
        self.url = f"https://localhost:{self.principal.resources.port}"
        pki = Pki()
        context = client_context(pki, None)
        context.load_verify_locations(folder / "ca.crt")
        context.load_cert_chain(folder / "agent.crt", folder / "agent.key")
        context.check_hostname = False
        self.session = await enter(aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)))

    def redis(self) -> Redis:
        assert self.principal.redis is not None
        return Redis(port=self.principal.redis.proxy.port, password=PASSWORD, socket_timeout=PATIENCE)


@pytest.fixture
async def scene(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Scene]:
    with ExitStack() as blocking:
        async with AsyncExitStack() as stack:
            store = await LiveStore.connect(kubeconfig=cluster.kubeconfig)
            stack.push_async_callback(store.close)
            made = Scene(Ground(cluster, store, tmp_path, go="agent"), stack)
            await made.start(tmp_path, cluster, blocking)
            yield made


async def test_trees_subscriptions_logs_and_a_terminal_of_a_go_agent(scene: Scene, cluster: Cluster) -> None:
    agent, spoke = scene.ground.agent, scene.ground.spoke
    key, channel = "app|resources-tree|{}|1.8.3.gz", "app|managed-resources|{}|1.8.3"
    async with scene.redis() as client, scene.own_redis.client() as own, client.pubsub() as pubsub:
        await own.set(channel.format("shop"), b"the agent's")
        assert await client.get(channel.format(f"{agent}_shop")) == b"the agent's"
        assert await client.get(key.format(f"{agent}_none")) is None
        with pytest.raises(ResponseError, match="no trees in shards"):
            await client.get(key.format(f"{agent}_shop|1"))
        await pubsub.subscribe(channel.format(f"{agent}_shop"))
        assert await pubsub.get_message(timeout=PATIENCE)
        assert await own.publish(channel.format("shop"), "") == 1
        message = await pubsub.get_message(timeout=PATIENCE)
        assert message
        assert message["type"] == "message"
    pod = {
        "metadata": {"name": "web-1"},
        "spec": {"containers": [{"name": "web", "image": "example.org/web:1"}]},
    }
    cluster.request("POST", f"/api/v1/namespaces/{spoke}/pods", pod)
    path = f"{scene.url}/api/v1/namespaces/{spoke}/pods/web-1"
    async with scene.session.get(f"{path}/log?container=web") as answer:
        assert answer.status == 200
        assert await answer.read() == b"".join(b"line %d\n" % number for number in range(5))
    async with scene.session.get(f"{path}/log?timestamps=true") as answer:
        assert await answer.read() == LINES
    query = "command=sh&container=web&stdin=true&stdout=true&stderr=true&tty=true"
    async with scene.session.ws_connect(f"{path}/exec?{query}", protocols=("v5.channel.k8s.io",)) as socket:
        await socket.send_bytes(b"\x00tea")
        shown: Any = await asyncio.wait_for(socket.receive_bytes(), PATIENCE)
        assert shown == b"\x01tea"
    missing = query.replace("sh", "bash", 1)
    async with scene.session.ws_connect(f"{path}/exec?{missing}", protocols=("v5.channel.k8s.io",)) as socket:
        shown = await asyncio.wait_for(socket.receive_bytes(), PATIENCE)
        assert shown[0] == 3  # why, that agent says in the same breath in which it hangs up: it may be lost
        assert orjson.loads(shown[1:])["status"] == "Failure"
