"""An agent's tree through the Redis proxy beside the same GET at its Redis; subscriptions and followed logs by weight.

Principal and agent are processes of their own on embedded stores; Redis servers are real; the log comes from a stand-in for
the API server's endpoint.
"""

import asyncio
import gzip
import os
import shutil
import ssl
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import aiohttp
import orjson
from redis.asyncio import Redis

from argocd.agents.vocabulary import Mode
from kube.embedded import EmbeddedStore
from kube.live import LiveStore
from kube.live.raw import RawApi
from kube.resources import APPLICATIONS, SECRETS
from scripts.argocd_agent import BINARY
from scripts.bench import paired
from scripts.bench.figures import Figure
from scripts.bench.paired import GO, application, argocd_agents, pair_with
from scripts.bench.pods_api import LINE, LOG, LOG_MEBIBYTES, PodsApi, pods_api, write_kubeconfig
from scripts.bench.sidecar_processes import (
    NAMESPACE,
    Papers,
    child,
    cluster_secret,
    dialing,
    principal_of,
    quiet,
)
from scripts.ports import free_port
from sidecars.agent import process as agent_running
from sidecars.agent.settings import AgentSettings
from sidecars.principal import process as principal_running
from sidecars.principal.proxies.resource_port import ResourcePortOptions
from sidecars.proxies.redis.backend import RedisBackend
from sidecars.proxies.redis.listener import RedisProxyOptions

NAME = "Redis and logs of one agent's cluster, principal and agent in processes of their own, TLS"

AGENT = "agent-0"
ROUNDS = 300
GO_ROUNDS = 50
GO_PORT = 6379  # argocd-agent's Redis proxy listens nowhere else
SUBSCRIPTIONS = 1_000
FOLLOWERS = 200
SLOW_READS = 256 << 10
START_SECONDS = 60.0
TREE_GOAL_MS = 10.0
MEMORY_GOAL = 64.0
"""Mebibytes of either sidecar, for 100 MiB of a log that somebody reads slowly."""

TREE, OWN_TREE = f"app|resources-tree|{AGENT}_shop|1.8.3.gz", "app|resources-tree|shop|1.8.3.gz"
SHOPS = [f"shop-{number}" for number in range(SUBSCRIPTIONS)]


class _StoreWithApi(EmbeddedStore):
    raw: RawApi


def run_principal(folder: str, port: int, redis: int, redis_proxy: int, resources: int) -> None:
    async def serve() -> None:
        store = EmbeddedStore(namespaces=[NAMESPACE, AGENT])
        await store.create(SECRETS, cluster_secret(AGENT), namespace=NAMESPACE)
        papers = Papers(Path(folder))
        process = principal_of(store, papers, port=port)
        backend = RedisBackend(host="127.0.0.1", port=redis)
        files = papers.files("principal")
        serving = replace(
            process._serving,  # noqa: SLF001 - as `principal_of` makes it, and the proxies
            redis=RedisProxyOptions(backend=backend, source=files, host="127.0.0.1", port=redis_proxy),
            resources=ResourcePortOptions(source=files, host="127.0.0.1", port=resources),
        )
        await principal_running.PrincipalProcess(store, serving).run()

    quiet()
    asyncio.run(serve())


def run_agent(folder: str, port: int, redis: int, kubeconfig: str) -> None:
    async def serve() -> None:
        store = _StoreWithApi(namespaces=[NAMESPACE])
        live = await LiveStore.connect(kubeconfig=kubeconfig)
        store.raw = live.raw
        spec = {"project": "default", "destination": {}, "source": {"repoURL": "https://git.example.org/x"}}
        for name in ("shop", *SHOPS):
            await store.create(APPLICATIONS, {"metadata": {"name": name}, "spec": spec}, namespace=NAMESPACE)
        papers = Papers(Path(folder))
        options = agent_running.AgentOptions(
            settings=AgentSettings(mode=Mode.AUTONOMOUS, namespace=NAMESPACE),
            dialing=dialing(papers, port=port, pair=None, mode=Mode.AUTONOMOUS),
            source=papers.files(AGENT),
            redis=RedisBackend(host="127.0.0.1", port=redis),
            health_host="127.0.0.1",
            health_port=0,
            metrics_port=0,
        )
        await agent_running.AgentProcess(store, options).run()

    quiet()
    asyncio.run(serve())


@asynccontextmanager
async def redis_server(folder: str) -> AsyncIterator[int]:
    program, port = shutil.which("redis-server"), free_port()
    if program is None:
        raise AssertionError("no redis-server is installed: apt-get install redis-server")
    words = ("--bind", "127.0.0.1", "--port", str(port), "--dir", folder, "--save", "", "--appendonly", "no")
    process = await asyncio.create_subprocess_exec(program, *words, stdout=asyncio.subprocess.DEVNULL)
    try:
        yield port
    finally:
        process.kill()
        await process.wait()


def mebibytes(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def tree() -> bytes:
    """Of 300 resources."""
    nodes = [
        {
            "group": "apps",
            "kind": "ReplicaSet",
            "namespace": "shop",
            "name": f"web-{number}",
            "uid": str(number),
        }
        for number in range(300)
    ]
    return gzip.compress(orjson.dumps({"nodes": nodes}))


async def timed(client: Redis, key: str) -> float:
    started = time.perf_counter()
    # In small letters, as argocd-server's client: argocd-agent's proxy knows no others.
    assert await client.execute_command("get", key)  # type: ignore[no-untyped-call]
    return (time.perf_counter() - started) * 1e3


async def argocd_agents_trees(folder: str) -> list[float]:
    """The same tree through argocd-agent's pair, which needs API servers."""
    async with redis_server(folder) as hub_redis, redis_server(folder) as own_redis:
        sidecars = partial(argocd_agents, redis=(hub_redis, own_redis))
        async with (
            pair_with(sidecars) as pair,
            Redis(port=own_redis) as own,
            Redis(port=GO_PORT) as through,
        ):
            await pair.hub.create(APPLICATIONS, application("shop"), namespace=paired.AGENT)
            await own.set(OWN_TREE, tree())
            key = TREE.replace(AGENT, paired.AGENT)
            return [await timed(through, key) for _ in range(GO_ROUNDS)]


async def trees(through: Redis, direct: Redis, *, others: list[float]) -> list[Figure]:
    """`others`: what argocd-agent's pair took."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        times[0].append(await timed(through, TREE))
        times[1].append(await timed(direct, OWN_TREE))
    found = []
    for title, at in (("a tree of 300 resources, p50", 49), ("p99", 98)):
        ours, theirs = (statistics.quantiles(each, n=100, method="inclusive")[at] for each in times)
        found.append(Figure(title, ours, "ms", than="a GET at the agent's Redis", theirs=theirs))
        if others:
            go = statistics.quantiles(others, n=100, method="inclusive")[at]
            found.append(Figure(title, ours, "ms", than=GO, theirs=go))
    return [Figure("a tree, p50, on its own", found[0].ours, "ms", goal=TREE_GOAL_MS), *found]


async def subscriptions(options: dict[str, object], pids: dict[str, int], own: Redis) -> list[Figure]:
    """Each of an Application of its own, on a connection of its own, as argocd-server has one for each browser."""
    before = {name: mebibytes(pid) for name, pid in pids.items()}
    async with AsyncExitStack() as stack:
        started = time.perf_counter()
        for shop in SHOPS:
            client = await stack.enter_async_context(Redis(**options))  # type: ignore[arg-type]  # as redis-py takes them
            pubsub = await stack.enter_async_context(client.pubsub())
            await pubsub.subscribe(f"app|managed-resources|{AGENT}_{shop}|1.8.3")
            assert await pubsub.get_message(timeout=START_SECONDS)
        seconds = time.perf_counter() - started
        assert len(await own.pubsub_channels()) == SUBSCRIPTIONS
        grown = {name: mebibytes(pid) - before[name] for name, pid in pids.items()}
    return [
        Figure(f"{SUBSCRIPTIONS:,} subscriptions, {name}'s memory of each", grown[name] / SUBSCRIPTIONS * 1024, "KiB")
        for name in pids
    ] + [Figure("a subscription, TLS included", seconds / SUBSCRIPTIONS * 1e3, "ms")]  # fmt: skip


async def slow_log(session: aiohttp.ClientSession, url: str, pids: dict[str, int]) -> list[Figure]:
    before = {name: mebibytes(pid) for name, pid in pids.items()}
    highest = dict(before)
    size, started = 0, time.perf_counter()
    async with session.get(url) as answer:
        assert answer.status == 200, await answer.text()  # noqa: PLR2004 - OK
        while data := await answer.content.read(SLOW_READS):
            size += len(data)
            await asyncio.sleep(0.002)  # the reader is slower than everybody before it
            for name, pid in pids.items():
                highest[name] = max(highest[name], mebibytes(pid))
    seconds = time.perf_counter() - started
    expected = LOG_MEBIBYTES * 1024 * (len(LINE) - 31)
    assert size == expected, (size, expected)
    return [
        Figure(f"{LOG_MEBIBYTES} MiB of a log to a slow reader, {name}'s memory", highest[name] - before[name], "MiB",
               goal=MEMORY_GOAL)
        for name in pids
    ] + [Figure("the same, bytes", size / seconds / 2**20, "MiB/s")]  # fmt: skip


async def followers(session: aiohttp.ClientSession, url: str, api: PodsApi, through: Redis) -> list[Figure]:
    """What a GET of a tree takes while many follow logs of the same agent."""
    idle = [await timed(through, TREE) for _ in range(ROUNDS // 3)]
    async with AsyncExitStack() as stack:
        for _ in range(FOLLOWERS):
            answer = await stack.enter_async_context(session.get(f"{url}?follow=true"))
            assert answer.status == 200  # noqa: PLR2004 - OK
        assert api.following == FOLLOWERS
        busy = [await timed(through, TREE) for _ in range(ROUNDS // 3)]
    return [
        Figure(
            f"a tree while {FOLLOWERS} logs are followed, p50",
            statistics.median(busy),
            "ms",
            than="while nobody reads",
            theirs=statistics.median(idle),
            goal=1.5,
        )
    ]


async def run() -> list[Figure]:
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        others = await argocd_agents_trees(folder) if BINARY else []
        papers = Papers.write(Path(folder))
        papers.keep_agent(AGENT)
        papers.keep_agent("argocd-server")
        hub_redis = await stack.enter_async_context(redis_server(folder))
        own_redis = await stack.enter_async_context(redis_server(folder))
        pods_port = free_port()
        kubeconfig = write_kubeconfig(folder, port=pods_port)
        api = await stack.enter_async_context(pods_api(port=pods_port))
        port, redis_proxy, resources = free_port(), free_port(), free_port()
        principal = stack.enter_context(child(run_principal, folder, port, hub_redis, redis_proxy, resources))
        agent = stack.enter_context(child(run_agent, folder, port, own_redis, kubeconfig))
        direct = await stack.enter_async_context(Redis(port=own_redis))
        options: dict[str, object] = {
            "host": "localhost", "port": redis_proxy, "ssl": True, "ssl_ca_certs": f"{folder}/ca.crt",
            "ssl_certfile": f"{folder}/argocd-server.crt", "ssl_keyfile": f"{folder}/argocd-server.key",
        }  # fmt: skip
        through = await stack.enter_async_context(Redis(**options))  # type: ignore[arg-type]  # as above
        async with asyncio.timeout(START_SECONDS):
            while not await _ready(direct, through):  # noqa: ASYNC110 - nothing announces it
                await asyncio.sleep(0.2)  # they start
        context = ssl.create_default_context(cafile=f"{folder}/ca.crt")
        context.load_cert_chain(f"{folder}/{AGENT}.crt", f"{folder}/{AGENT}.key")
        connector = aiohttp.TCPConnector(ssl=context, limit=0)
        session = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        url = f"https://localhost:{resources}{LOG}"
        pids = {"principal": principal.pid, "agent": agent.pid}
        found = await trees(through, direct, others=others)
        # Before what leaves free memory behind.
        found += await subscriptions(options, pids, direct)
        found += await followers(session, url, api, through)
        return found + await slow_log(session, url, pids)


async def _ready(direct: Redis, through: Redis) -> bool:
    try:
        await direct.set(OWN_TREE, tree())
        return bool(await through.get(TREE))
    except Exception:  # noqa: BLE001 - whatever is not there yet
        return False
