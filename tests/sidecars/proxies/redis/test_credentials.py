"""Redis' password in a folder, as Argo CD's Secret is mounted: read at each connection, and missed for a while."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from redis.exceptions import ResponseError

from argocd.agents.vocabulary import Mode
from kube.resources import SECRETS
from sidecars.principal.proxies.cluster_info import ClusterInfo
from sidecars.proxies.redis import agent_subscriptions
from sidecars.proxies.redis.backend import PASSWORD_FILE, USERNAME_FILE, RedisBackend
from tests.sidecars import processes
from tests.sidecars.captured_logs import logged
from tests.sidecars.pair_in_memory import Pair, until
from tests.sidecars.proxies.redis.redis_servers import PATIENCE, eventually, redis_server
from tests.sidecars.proxies.redis.test_through_agents import (
    AGENT,
    AGENTS_PASSWORD,
    CHANNEL,
    TREE,
    Scene,
    scene_in,
)

NO_FILE = f"no file {PASSWORD_FILE} is there"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "credentials"
    made.mkdir()
    return made


@asynccontextmanager
async def beside_credentials(scene: Scene, folder: Path) -> AsyncIterator[None]:
    """The agent knows its Redis' password by the folder alone."""
    await scene.agent_goes()
    backend = replace(scene.workload_redis.backend, password="", credentials=folder)
    async with processes.connected_agent(
        scene.workload,
        scene.pki,
        name=AGENT,
        port=scene.principal.port,
        serving={"redis": backend},
        mode=Mode.AUTONOMOUS,
    ) as scene.agent:
        yield


async def test_an_agent_without_its_password_says_so_and_goes_on_when_it_is_there(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_subscriptions, "RETRY_SECONDS", 0.05)
    tree, channel = TREE.format(f"{AGENT}_shop"), CHANNEL.format(f"{AGENT}_shop")
    async with scene_in(tmp_path) as scene, beside_credentials(scene, folder), scene.client() as client:
        await scene.application("shop")
        with pytest.raises(ResponseError, match=NO_FILE):
            await client.get(tree)
        async with client.pubsub() as pubsub:
            await pubsub.subscribe(channel)
            with pytest.raises(ResponseError, match=NO_FILE):
                await pubsub.get_message(timeout=PATIENCE)
        (folder / USERNAME_FILE).write_text("default\n")
        (folder / PASSWORD_FILE).write_text(f"{AGENTS_PASSWORD}\n")
        async with scene.workload_redis.client() as own, client.pubsub() as pubsub:
            await own.set(TREE.format("shop"), gzip.compress(b"{}"))
            assert await client.get(tree)
            await pubsub.subscribe(channel)
            assert (await pubsub.get_message(timeout=PATIENCE) or {})["type"] == "subscribe"
            (folder / PASSWORD_FILE).unlink()
            lines = logged(level="debug")
            await own.client_kill_filter(_type="pubsub")
            await eventually(lambda: any(NO_FILE in line["error"] for line in lines("Redis is still away")))
            (folder / PASSWORD_FILE).write_text(AGENTS_PASSWORD)
            # It is followed anew, and something may have happened meanwhile.
            assert (await pubsub.get_message(timeout=PATIENCE) or {})["type"] == "message"


async def test_a_principal_without_its_password_tells_of_clusters_when_it_is_there(
    tmp_path: Path, folder: Path
) -> None:
    pair = Pair()
    async with redis_server(tmp_path, password="secret") as server, pair.principal_alone() as principal:
        await pair.hub.know("agent-a")
        await until(pair.hub.store, SECRETS, lambda found: "cluster-agent-a" in found)
        backend: RedisBackend = replace(server.backend, password="", credentials=folder)
        info = ClusterInfo(
            backend, principal.hub_state, principal=lambda: principal, now=lambda: datetime.now(UTC)
        )
        telling = asyncio.create_task(info.run())
        await eventually(lambda: info._complained or telling.done())
        assert not telling.done()
        (folder / PASSWORD_FILE).write_text("secret")
        info.changed("agent-a")
        await eventually(lambda: not info._complained)
        async with server.client() as client:
            assert await client.keys("cluster|info|*")
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)
