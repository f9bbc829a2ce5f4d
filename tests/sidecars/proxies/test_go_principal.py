"""Our agent behind a real argocd-agent's principal, whose proxies have the ports 6379 and 9090 and no others."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from redis.asyncio import Redis

from argocd.agents.vocabulary import Mode
from certs.key_pair import Material
from kube.live import LiveStore
from kube.resources import APPLICATIONS
from scripts.argocd_agent import BINARY, principal_arguments
from scripts.cluster.controlplane import Cluster
from sidecars.agent import process as agent_running
from sidecars.agent.settings import AgentSettings
from sidecars.proxies.redis.backend import RedisBackend
from sidecars.wire.client.dialer import DialOptions
from tests.cluster.argocd.pods_in_front import LINES, pods_in_front
from tests.sidecars import pair_in_memory
from tests.sidecars.processes import started
from tests.sidecars.proxies.redis.redis_servers import eventually, redis_server
from tests.sidecars.test_go_interop import Ground

PATIENCE = 60.0
PORTS = (6379, 9090)


def _taken() -> bool:
    for port in PORTS:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return True
    return False


pytestmark = [
    pytest.mark.skipif(not BINARY, reason="ARGOCD_AGENT_BIN names no argocd-agent"),
    pytest.mark.skipif(bool(BINARY) and _taken(), reason="somebody has port 6379 or 9090"),
    pytest.mark.timeout(300),
]


@pytest.fixture
async def ground(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Ground]:
    store = await LiveStore.connect(kubeconfig=cluster.kubeconfig)
    try:
        yield Ground(cluster, store, tmp_path, go="principal")
    finally:
        await store.close()


def _serving(ground: Ground, *, redis: RedisBackend) -> agent_running.AgentOptions:
    return agent_running.AgentOptions(
        settings=AgentSettings(mode=Mode.AUTONOMOUS, namespace=ground.spoke),
        dialing=DialOptions(
            host="127.0.0.1",
            port=ground.port,
            material=Material(None, b""),
            mode=Mode.AUTONOMOUS,
            namespace=ground.spoke,
            version="0.9.0",
        ),
        source=ground._files("agent"),
        redis=redis,
        health_host="127.0.0.1",
        health_port=0,
        metrics_port=0,
    )


@asynccontextmanager
async def connected(store: LiveStore, serving: agent_running.AgentOptions) -> AsyncIterator[None]:
    process = agent_running.AgentProcess(store, serving)
    async with started(process):
        await eventually(process.connected.is_set)
        yield


async def test_a_tree_and_a_log_of_our_agent_are_shown_by_a_go_principal(
    ground: Ground, cluster: Cluster, tmp_path: Path
) -> None:
    await ground.know()
    agent, spoke = ground.agent, ground.spoke
    cluster.grant(
        rules=[{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}], account=f"{spoke}/default"
    )
    await ground.store.create(APPLICATIONS, pair_in_memory.application("shop"), namespace=spoke)
    pod = {
        "metadata": {
            "name": "web-1",
            "annotations": {"argocd.argoproj.io/tracking-id": f"shop:/Pod:{spoke}/web-1"},
        },
        "spec": {"containers": [{"name": "web", "image": "example.org/web:1"}]},
    }
    cluster.request("POST", f"/api/v1/namespaces/{spoke}/pods", pod)
    with ExitStack() as blocking:
        _, kubeconfig = blocking.enter_context(pods_in_front(cluster, account="default", namespace=spoke))
        async with AsyncExitStack() as stack:
            enter = stack.enter_async_context
            hub_redis, own_redis = await enter(redis_server(tmp_path)), await enter(redis_server(tmp_path))
            arguments = principal_arguments(
                tmp_path,
                cluster,
                ground.hub,
                ground.port,
                allowed=f"{ground.hub},{agent}",
                resource_proxy=True,
            )
            redis = f"--redis-server-address=127.0.0.1:{hub_redis.port}"
            await enter(ground._go("principal", *arguments, "--disable-redis-proxy=false", redis))
            store = await LiveStore.connect(kubeconfig=kubeconfig)
            stack.push_async_callback(store.close)
            serving = _serving(ground, redis=own_redis.backend)
            agents = await enter(AsyncExitStack())
            await agents.enter_async_context(connected(store, serving))
            key = "app|managed-resources|{}|1.8.3"
            async with own_redis.client() as own, Redis(port=6379, socket_timeout=PATIENCE) as client:
                await own.set(key.format("shop"), b"the agent's")
                # It knows the command in small letters alone, as Go's client writes it.
                value: Any = await client.execute_command("get", key.format(f"{agent}_shop"))  # type: ignore[no-untyped-call]
                assert value == b"the agent's"
            context = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
            context.check_hostname = False
            context.load_cert_chain(tmp_path / "agent.crt", tmp_path / "agent.key")
            session = await enter(aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)))
            path = f"https://localhost:9090/api/v1/namespaces/{spoke}/pods/web-1/log"
            async with asyncio.timeout(PATIENCE):
                async with session.get(f"{path}?container=web") as answer:
                    assert answer.status == 200
                    assert await answer.read() == b"".join(b"line %d\n" % number for number in range(5))
                async with session.get(f"{path}?timestamps=true") as answer:
                    assert await answer.read() == LINES
                async with session.get(f"{path}?limitBytes=10") as answer:
                    assert await answer.read() == b"line 0\nlin"
            await agents.aclose()
            settings = replace(serving.settings, logs=False)
            await agents.enter_async_context(connected(store, replace(serving, settings=settings)))
            async with (
                asyncio.timeout(PATIENCE),
                session.get(path) as answer,
            ):  # it would wait for three minutes
                assert await answer.read() in {b"", b"Timeout fetching logs from agent\n"}
