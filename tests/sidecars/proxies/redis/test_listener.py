"""Who may come in, with which certificate, and what strangers can do."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from redis.asyncio import Redis

from certs.key_pair import Material
from sidecars.proxies.redis import listener, resp
from sidecars.proxies.redis.resp import command
from tests.sidecars.processes import Pki
from tests.sidecars.proxies.redis.redis_servers import (
    PATIENCE,
    TREE,
    DirectCaches,
    Given,
    RawClient,
    eventually,
    proxy,
    redis_server,
)
from tiphys.errors import SurroundingsError

PASSWORD = "hub's own"
AUTH = command(b"AUTH", PASSWORD.encode())


@pytest.fixture
async def caches(tmp_path: Path) -> AsyncIterator[DirectCaches]:
    async with redis_server(tmp_path) as agent, agent.client() as client:
        await client.set(TREE, b"the agent's")
        yield DirectCaches(client)


def _material(pki: Pki) -> Material:
    return Material(pki.pair("redis-proxy", server=True), pki.authority.pair.certificate)


def _context(pki: Pki, folder: Path, *, client: str = "") -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=pki.authority.pair.certificate.decode())
    if client:
        pair = pki.pair(client, server=False)
        path = folder / f"{client}.pem"
        path.write_bytes(pair.certificate + pair.key)
        context.load_cert_chain(path)
    return context


async def test_a_certificate_takes_the_place_of_a_password_that_nobody_needs(
    caches: DirectCaches, tmp_path: Path
) -> None:
    pki = Pki()
    source = Given(_material(pki))
    async with redis_server(tmp_path) as hub, proxy(hub.backend, caches, source=source) as made:
        for client, answer in (("", b"-NOAUTH show a client"), ("argocd-server", b"$11\r\n")):
            raw = await RawClient.connect(
                made.port, ssl=_context(pki, tmp_path, client=client), server_hostname="localhost"
            )
            raw.send(command(b"get", TREE.encode()))
            assert (await raw.line()).startswith(answer)


async def test_a_certificate_does_not_take_the_place_of_the_hubs_password(
    caches: DirectCaches, tmp_path: Path
) -> None:
    pki = Pki()
    async with (
        redis_server(tmp_path, password=PASSWORD) as hub,
        proxy(hub.backend, caches, source=Given(_material(pki))) as made,
    ):
        context = _context(pki, tmp_path, client="argocd-server")
        raw = await RawClient.connect(made.port, ssl=context, server_hostname="localhost")
        raw.send(command(b"get", TREE.encode()) + AUTH + command(b"get", TREE.encode()))
        assert (await raw.line()).startswith(b"-NOAUTH")
        await raw.expect(b"+OK\r\n$11\r\nthe agent's\r\n")


async def test_a_certificate_that_does_not_count_any_longer_ends_its_connection(
    caches: DirectCaches, tmp_path: Path
) -> None:
    pki, complaints = Pki(), [""]
    async with (
        redis_server(tmp_path) as hub,
        proxy(hub.backend, caches, source=Given(_material(pki)), certified=lambda _: complaints[-1]) as made,
    ):
        context = _context(pki, tmp_path, client="argocd-server")
        raw = await RawClient.connect(made.port, ssl=context, server_hostname="localhost")
        raw.send(command(b"PING"))
        await raw.expect(b"+PONG\r\n")
        complaints.append("it is on the blocklist")
        made.recheck()
        assert await raw.is_closed()
        again = await RawClient.connect(made.port, ssl=context, server_hostname="localhost")
        again.send(command(b"PING"))
        assert (await again.line()).startswith(b"-NOAUTH")


async def test_a_strangers_certificate_is_refused_in_the_handshake(
    caches: DirectCaches, tmp_path: Path
) -> None:
    pki = Pki()
    async with (
        redis_server(tmp_path) as hub,
        proxy(hub.backend, caches, source=Given(_material(pki))) as made,
    ):
        other = _context(Pki(), tmp_path, client="argocd-server")
        other.load_verify_locations(cadata=pki.authority.pair.certificate.decode())
        raw = await RawClient.connect(made.port, ssl=other, server_hostname="localhost")
        raw.send(command(b"PING"))
        with pytest.raises((ssl.SSLError, asyncio.IncompleteReadError, ConnectionError)):
            await raw.line()


async def test_a_new_certificate_is_shown_while_old_connections_go_on(
    caches: DirectCaches, tmp_path: Path
) -> None:
    pki, next_pki = Pki(), Pki()
    source = Given(_material(pki))
    async with (
        redis_server(tmp_path, password=PASSWORD) as hub,
        proxy(hub.backend, caches, source=source) as made,
    ):
        raw = await RawClient.connect(made.port, ssl=_context(pki, tmp_path), server_hostname="localhost")
        raw.send(AUTH)
        await raw.expect(b"+OK\r\n")
        source.renew(_material(next_pki))
        context = _context(next_pki, tmp_path)
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    await RawClient.connect(made.port, ssl=context, server_hostname="localhost")
                    break
                except ssl.SSLError:
                    await asyncio.sleep(0.01)  # the old one, still
        raw.send(command(b"get", TREE.encode()))
        await raw.expect(b"$11\r\nthe agent's\r\n")


async def test_whoever_does_not_log_in_is_gone_soon(
    caches: DirectCaches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "STRANGER_SECONDS", 0.2)
    async with (
        redis_server(tmp_path, password=PASSWORD) as hub,
        proxy(hub.backend, caches) as made,
    ):
        silent = await RawClient.connect(made.port)
        slow = await RawClient.connect(made.port)
        slow.send(b"*2\r\n$4\r\nAU")
        assert await silent.is_closed()
        assert await slow.is_closed()
        async with Redis(port=made.port, password=PASSWORD) as client:
            assert await client.get(TREE) == b"the agent's"


async def test_a_crowd_of_strangers_costs_nobody_else_a_place(
    caches: DirectCaches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "MAX_STRANGERS", 8)
    async with (
        redis_server(tmp_path, password=PASSWORD) as hub,
        proxy(hub.backend, caches) as made,
        AsyncExitStack() as stack,
    ):
        known = await RawClient.connect(made.port)
        known.send(AUTH)
        await known.expect(b"+OK\r\n")
        crowd = [await RawClient.connect(made.port) for _ in range(40)]
        for each in crowd:
            stack.callback(each.close)
        assert await crowd[0].is_closed()
        known.send(command(b"get", TREE.encode()))
        await known.expect(b"$11\r\nthe agent's\r\n")
        async with Redis(port=made.port, password=PASSWORD) as client:
            assert await client.get(TREE) == b"the agent's"


STRANGERS_MESSAGES = {
    "gigabytes in a word": b"*2\r\n$3\r\nGET\r\n$4294967296\r\n",
    "gigabytes before a login": b"*2\r\n$4\r\nAUTH\r\n$536870912\r\n",
    "a million words": b"*1000000\r\n",
    "a length below nothing": b"*1\r\n$-5\r\n",
    "a length that is no number": b"*1\r\n$1e9\r\n",
    "an array within": b"*1\r\n*1\r\n*1\r\n$4\r\nPING\r\n",
    "a line without end": b"*" + b"1" * 200_000,
    "an inline command": b"PING\r\n",
    "no words": b"*0\r\n",
    "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
}


@pytest.mark.parametrize("message", STRANGERS_MESSAGES.values(), ids=STRANGERS_MESSAGES)
async def test_what_is_no_command_ends_its_connection_and_no_other(
    caches: DirectCaches, tmp_path: Path, message: bytes
) -> None:
    async with (
        redis_server(tmp_path, password=PASSWORD) as hub,
        proxy(hub.backend, caches) as made,
    ):
        known = await RawClient.connect(made.port)
        known.send(AUTH)
        await known.expect(b"+OK\r\n")
        raw = await RawClient.connect(made.port)
        raw.send(message)
        assert (await raw.line()).startswith(b"-ERR Protocol error")
        assert await raw.is_closed()
        known.send(command(b"get", TREE.encode()))
        await known.expect(b"$11\r\nthe agent's\r\n")


async def test_a_client_that_stops_within_a_command_or_does_not_read_is_let_go(
    caches: DirectCaches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resp, "STALL_SECONDS", 0.2)
    async with (
        redis_server(tmp_path, password=PASSWORD) as hub,
        proxy(hub.backend, caches) as made,
    ):
        stalled = await RawClient.connect(made.port)
        stalled.send(AUTH + b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$100000\r\nxxx")
        await stalled.expect(b"+OK\r\n")
        assert await stalled.is_closed()
        async with Redis(port=made.port, password=PASSWORD) as client:
            await client.set("large", b"x" * (32 << 20))
        deaf = await RawClient.connect(made.port, limit=1024)
        deaf.send(AUTH + command(b"get", b"large"))
        await eventually(lambda: not made._clients)


async def test_a_hub_that_is_away_ends_a_connection_and_not_the_proxy(
    caches: DirectCaches, tmp_path: Path
) -> None:
    async with redis_server(tmp_path) as hub:
        backend = hub.backend
    async with proxy(backend, caches) as made:
        for _ in range(2):
            assert await (await RawClient.connect(made.port)).is_closed()


async def test_a_port_that_is_taken_is_said_in_one_line(caches: DirectCaches, tmp_path: Path) -> None:
    async with redis_server(tmp_path) as hub:
        options = listener.RedisProxyOptions(
            backend=hub.backend, source=None, host="127.0.0.1", port=hub.port
        )
        with pytest.raises(SurroundingsError, match=f"cannot listen on port {hub.port}"):
            await listener.RedisProxy(options, caches, certified=lambda _: "").run()
