"""With which certificates the Redis proxy listens, and whose count there."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog

from certs.sources import Secrets
from cli.commands import principal
from cli.options.redis import redis_proxy
from kube.embedded import EmbeddedStore
from scripts.ports import free_port
from sidecars.proxies.redis import listener
from sidecars.proxies.redis.backend import RedisBackend
from sidecars.proxies.redis.listener import RedisProxyOptions
from sidecars.proxies.redis.resp import command
from tests.sidecars import pair_in_memory, processes
from tests.sidecars.processes import Pki
from tests.sidecars.proxies.hub_caller import client_context
from tests.sidecars.proxies.redis.redis_servers import (
    AGENT,
    PATIENCE,
    DirectCaches,
    RawClient,
    eventually,
    proxy,
    redis_server,
)
from tiphys import logs

PAIR = "argocd-redis-proxy-tls"
PASSWORD = "hub's own"
NOTHING = DirectCaches(None)  # type: ignore[arg-type]  # nobody asks it


def secrets(store: EmbeddedStore) -> Secrets:
    return Secrets(store=store, namespace="argocd", pair=PAIR, authorities="argocd-agent-ca")


async def test_without_a_certificate_nothing_listens_and_a_later_one_opens_the_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "LOOK_SECONDS", 0.02)
    logs.configure(level="info")
    pki, store, port = Pki(), EmbeddedStore(namespaces=["argocd"]), free_port()
    async with redis_server(tmp_path, password=PASSWORD) as hub:
        options = RedisProxyOptions(backend=hub.backend, source=secrets(store), host="127.0.0.1", port=port)
        made = listener.RedisProxy(options, NOTHING, certified=lambda _: "")
        with structlog.testing.capture_logs() as lines:
            async with processes.started(made):
                await eventually(lambda: lines)
                with pytest.raises(ConnectionRefusedError):
                    await RawClient.connect(port)
                pair = pki.pair("redis-proxy", server=True)
                await pki.equip(store, namespace="argocd", name=PAIR, pair=pair)
                await asyncio.wait_for(made.listening.wait(), PATIENCE)
                raw = await RawClient.connect(
                    port, ssl=client_context(pki, None), server_hostname="localhost"
                )
                raw.send(command(b"AUTH", PASSWORD.encode()))
                await raw.expect(b"+OK\r\n")
    said = [line["event"] for line in lines if line["event"].startswith("no certificate")]
    assert len(said) == 1, "once, however often it looks"
    assert "`tiphys pki issue redis-proxy`" in said[0]


def given(*arguments: str) -> dict[str, Any]:
    return principal.command.make_context("tiphys", list(arguments)).params


@pytest.mark.parametrize(
    ("plaintext", "expected"), [([], Secrets), (["--insecure-redis-plaintext"], type(None))]
)
async def test_tls_towards_redis_leaves_the_listener_alone(plaintext: list[str], expected: type) -> None:
    store = EmbeddedStore(namespaces=["argocd"])
    for tls in ("true", "false"):
        words = [f"--redis-tls-enabled={tls}", "--redis-tls-insecure", *plaintext]
        options = await redis_proxy(store, given(*words))
        assert options is not None
        assert type(options.source) is expected
        assert options.backend.tls is (tls == "true")


@asynccontextmanager
async def principal_before(backend: RedisBackend, pki: Pki) -> AsyncIterator[int]:
    store = EmbeddedStore(namespaces=["argocd", AGENT])
    await pair_in_memory.Hub(store).know(AGENT)
    await pki.equip(store, namespace="argocd", name=PAIR, pair=pki.pair("redis-proxy", server=True))
    options = RedisProxyOptions(backend=backend, source=secrets(store), host="127.0.0.1", port=0)
    async with processes.principal(store, pki, serving={"redis": options}) as process:
        assert process.redis is not None
        await asyncio.wait_for(process.redis.proxy.listening.wait(), PATIENCE)
        yield process.redis.proxy.port


async def test_an_agents_own_certificate_does_not_count(tmp_path: Path) -> None:
    """It would show every other agent's trees."""
    pki = Pki()
    async with redis_server(tmp_path) as hub, principal_before(hub.backend, pki) as port:
        for name, answer in ((AGENT, b"-NOAUTH"), ("argocd-server", b"+PONG")):
            context = client_context(pki, pki.pair(name, server=False))
            raw = await RawClient.connect(port, ssl=context, server_hostname="localhost")
            raw.send(command(b"PING"))
            assert (await raw.line()).startswith(answer), name


async def test_whoever_is_logged_in_cannot_announce_gigabytes_either(tmp_path: Path) -> None:
    async with (
        redis_server(tmp_path, password=PASSWORD) as hub,
        proxy(hub.backend, NOTHING) as made,
    ):
        login = command(b"AUTH", PASSWORD.encode())
        for announced in (b"*2\r\n$3\r\nGET\r\n$1073741824\r\n", b"*1073741824\r\n"):
            raw = await RawClient.connect(made.port)
            raw.send(login + announced)
            await raw.expect(b"+OK\r\n")
            assert (await raw.line()).startswith(b"-ERR Protocol error: 1073741824 ")
            assert await raw.is_closed()


async def test_of_a_large_command_nothing_is_held(tmp_path: Path) -> None:
    size, part = 48 << 20, b"x" * (64 << 10)
    async with (
        redis_server(tmp_path, password=PASSWORD) as hub,
        proxy(hub.backend, NOTHING) as made,
    ):
        raw = await RawClient.connect(made.port)
        raw.send(command(b"AUTH", PASSWORD.encode()))
        await raw.expect(b"+OK\r\n")
        tracemalloc.start()
        try:
            raw.send(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$%d\r\n" % size)
            for _ in range(size // len(part)):
                raw.send(part)
                await raw.writer.drain()
            raw.send(b"\r\n")
            await raw.expect(b"+OK\r\n")
            _, highest = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert highest < 8 << 20
