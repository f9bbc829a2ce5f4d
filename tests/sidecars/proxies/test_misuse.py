"""Whoever reaches the resource proxy, or an agent through it, and means harm: refused, bounded, nobody disturbed."""

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import unquote

import aiohttp
import pytest
from cryptography import x509

from certs.key_pair import fingerprint
from sidecars.proxies import requests, resource_listener, resource_proxy
from sidecars.proxies.api_paths import PathError, parse_path
from sidecars.wire.auth.blocklist import Blocklist
from sidecars.wire.events import Event
from sidecars.wire.proxy_payloads import ResourceResponse
from tests.crowd import crowd
from tests.sidecars import pair_in_memory, processes
from tests.sidecars.captured_logs import logged
from tests.sidecars.proxies.answering_scene import AGENT, PATH, Scene, answering_agent, scene
from tests.sidecars.proxies.hub_caller import client_context, hub_caller
from tests.sidecars.proxies.redis.redis_servers import eventually


@pytest.fixture
async def at() -> AsyncIterator[Scene]:
    async with scene() as made:
        yield made


async def test_a_body_of_gigabytes_is_refused_before_it_is_read(at: Scene) -> None:
    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    assert await at.sent(f"{head}Content-Length: 8000000000\r\n\r\n".encode()) == 413
    chunk = b"%x\r\n%s\r\n" % (1 << 20, b"x" * (1 << 20))
    assert await at.sent(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunk * 5) == 413
    assert at.agent.asked == []


async def test_many_large_bodies_at_once_are_too_many(at: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_proxy, "MAX_BODIES_BYTES", 1 << 20)
    assert (await at.hub("POST", PATH, b"x" * (2 << 20))).status == 429
    assert (await at.hub("POST", PATH, b"x" * (1 << 19))).status == 200


async def test_who_says_nothing_is_let_go(at: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_listener, "IDLE_SECONDS", 0.1)
    async with at.raw() as (reader, writer), asyncio.timeout(30):
        writer.write(b"GET /version HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        assert await reader.read() == b""


@pytest.fixture
async def large(at: Scene) -> Scene:
    """An agent whose answer fills every buffer on the way."""
    at.agent.answer = ResourceResponse(status=200, resource="x" * (9 << 20))
    return at


@asynccontextmanager
async def slow_reader(at: Scene) -> AsyncIterator[asyncio.StreamReader]:
    """Whose system takes little that it did not ask for."""
    own = socket.socket()
    own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
    own.settimeout(0)
    await asyncio.get_running_loop().sock_connect(own, ("127.0.0.1", at.port))
    context = client_context(at.pki, at.pki.pair(AGENT, server=False))
    reader, writer = await asyncio.open_connection(sock=own, ssl=context, server_hostname="localhost")
    writer.write(f"GET {PATH} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    try:
        yield reader
    finally:
        writer.transport.abort()


async def test_a_large_answer_reaches_a_slow_reader_whole(
    large: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource_listener, "IDLE_SECONDS", 0.1)
    async with slow_reader(large) as reader, asyncio.timeout(60):
        head = await reader.readuntil(b"\r\n\r\n")
        left = int(head.lower().split(b"content-length: ")[1].split()[0])
        assert left == 9 << 20
        while left:
            left -= len(await reader.readexactly(min(left, 256 << 10)))
            await asyncio.sleep(0.05)  # two seconds for all: ten times what an idle connection has
        assert (await large.hub.get(PATH)).status == 200


async def test_who_takes_nothing_of_his_answer_is_let_go(
    large: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource_listener, "STALL_SECONDS", 0.2)
    server = large.process.resources._listener._server  # type: ignore[union-attr]
    async with slow_reader(large) as reader:
        async with asyncio.timeout(30):
            await reader.readuntil(b"\r\n\r\n")
        await eventually(lambda: not server._open)


async def test_large_answers_that_nobody_takes_are_bounded(
    large: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource_listener, "HELD_BYTES", 10 << 20)
    async with slow_reader(large) as reader:
        async with asyncio.timeout(30):
            await reader.readuntil(b"\r\n\r\n")
        refused = await large.hub.get(PATH)
        assert (refused.status, "do not read" in refused.message) == (429, True)
        assert refused.headers["Server"] == "tiphys"
        large.agent.answer = ResourceResponse(status=200, resource="{}")
        assert (await large.hub.get(PATH)).status == 200, "a small one has room"
    large.agent.answer = ResourceResponse(status=200, resource="x" * (9 << 20))
    server = large.process.resources._listener._server  # type: ignore[union-attr]
    await eventually(lambda: server._held == 0)
    assert (await large.hub.get(PATH)).status == 200


async def test_every_change_leaves_a_line_and_its_content_none(at: Scene) -> None:
    lines = logged(level="info")
    account = "system:serviceaccount:shop:deployer"
    await at.hub("PATCH", PATH, {"data": {"price": "hidden"}}, Impersonate_User=account)
    at.agent.answer = ResourceResponse(status=403)
    await at.hub("DELETE", PATH)
    await at.hub("POST", "/nowhere", {})
    await at.hub.get(PATH)
    found = [
        (line["agent"], line["operation"], line["key"], line["user"], line["code"])
        for line in lines("a change was asked for")
    ]
    assert found == [
        (AGENT, "PATCH", PATH, account, 200),
        (AGENT, "DELETE", PATH, "-", 403),
        (AGENT, "POST", "/nowhere", "-", 400),
    ]
    assert "hidden" not in lines.stream.getvalue()


async def test_a_certificate_on_the_blocklist_is_refused_on_an_open_connection(at: Scene) -> None:
    pair = at.pki.pair(AGENT, server=False)
    context = client_context(at.pki, pair)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        url = f"https://localhost:{at.port}{PATH}"
        async with session.get(url) as answer:
            assert answer.status == 200
        assert at.process.resources is not None
        blocked = fingerprint(x509.load_pem_x509_certificate(pair.certificate))
        at.process.resources.swap_blocklist(Blocklist.of({"data": {blocked: ""}}))
        async with session.get(url) as answer:
            assert answer.status == 401
        assert (await at.hub.get(PATH)).status == 200, "another one of the same agent"


async def test_a_principal_that_stands_by_says_in_which_state(at: Scene) -> None:
    at.process.gate.state = "standby"
    refused = await at.hub.get(PATH)
    assert (refused.status, "standby" in refused.message) == (503, True)


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/shop/../../secrets",
        "/api/v1/namespaces/%2e%2e/secrets/x",
        "/api/v1/namespaces/shop%2fsecrets/x/y",
        "/api/v1/namespaces/shop/pods/..%252fsecrets",
        "/api/v1//secrets",
        "/api/v1/namespaces/shop/services/x/proxy/metrics",
        "/apis/../api/v1/secrets",
        "/api/v1/namespaces/shop/pods/a%00b",
        "/api/v1/namespaces/shop/pods/%ff%fe",
        "/api/v1/namespaces/shop/pods/.",
        "/api/v1/namespaces/shop/pods/a%2f..%2fb",
        "/api/v1/namespaces/shop/pods//log",
        "/api/v1/namespaces//pods/x",
        "api/v1/pods",
        "/metrics",
        "/" + "a" * 4000,
    ],
)
def test_paths_that_two_readers_would_read_differently_are_refused(path: str) -> None:
    with pytest.raises(PathError):
        parse_path(path)


@pytest.mark.parametrize("name", ["widgets.example.org", "a..b", "...", "a:b", "a%3Fb", "a%23b", "%C3%A4"])
def test_names_with_dots_and_signs_stay_one_name(name: str) -> None:
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
    found = parse_path(path)
    assert (found.name, str(found)) == (unquote(name), path)
    assert parse_path(str(found)) == found


async def test_whoever_hangs_up_ends_his_request_at_the_agent(at: Scene) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def stuck(_event: Event) -> bytes | None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return None

    at.agent.handle = stuck  # type: ignore[method-assign,assignment]
    async with at.raw() as (_, writer), asyncio.timeout(30):
        writer.write(f"DELETE {PATH} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        await begun.wait()
    async with asyncio.timeout(30):
        await ended.wait()


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("Impersonate-Group: system:masters", 403),
        ("impersonate-uid: 1", 403),
        ("Impersonate-Extra-Scopes: all", 403),
        ("Impersonate-User: a\r\nImpersonate-User: b", 400),
        (f"Impersonate-User: {'a' * 2000}", 400),
        ("Content-Length: 3\r\nTransfer-Encoding: chunked", 400),
        ("Content-Length: 3\r\nContent-Length: 4", 400),
        ("Content-Encoding: gzip", 415),
        ("Authorization: Bearer nonsense", 401),
        ("Authorization: Bearer " + "a" * 7000, 401),
    ],
)
async def test_headers_that_smuggle_something_are_refused(at: Scene, header: str, status: int) -> None:
    assert await at.sent(f"GET {PATH} HTTP/1.1\r\nHost: x\r\n{header}\r\n\r\n".encode()) == status
    assert at.agent.asked == []


async def test_more_headers_than_anybody_needs_are_refused(at: Scene) -> None:
    many = "".join(f"X-{number}: a\r\n" for number in range(200))
    assert await at.sent(f"GET {PATH} HTTP/1.1\r\nHost: x\r\n{many}\r\n".encode()) == 400


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (ResourceResponse(status=0), 502),
        (ResourceResponse(status=101), 502),
        (ResourceResponse(status=99999), 502),
        (ResourceResponse(status=302, resource="{}"), 502),
        (ResourceResponse(status=200, resource="{}", content_type="text/html\r\nSet-Cookie: a=b"), 200),
        (ResourceResponse(status=403), 403),
    ],
)
async def test_what_a_hostile_agent_answers_stays_an_answer(
    at: Scene, answer: ResourceResponse, status: int
) -> None:
    at.agent.answer = answer
    found = await at.hub.get(PATH)
    assert (found.status, "Set-Cookie" in found.headers) == (status, False)
    if status != 200:
        assert found.json["kind"] == "Status"


async def test_no_certificate_of_another_authority_opens_the_port(at: Scene) -> None:
    other = processes.Pki()
    context = client_context(at.pki, other.pair(AGENT, server=False))
    answered = b""
    with suppress(ssl.SSLError, ConnectionError):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", at.port, ssl=context, server_hostname="localhost"
        )
        writer.write(f"GET {PATH} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        async with asyncio.timeout(30):
            answered = await reader.read(64)
    assert answered == b""


async def test_one_caller_with_everything_open_leaves_room_for_another_agent(at: Scene) -> None:
    """Whose answers do not come: the others' do."""
    await pair_in_memory.Hub(at.store).know("agent-b")

    async def stuck(_event: Event) -> bytes | None:
        await asyncio.Event().wait()
        return None

    at.agent.handle = stuck  # type: ignore[method-assign,assignment]
    async with (
        answering_agent(at.process, at.pki, "agent-b"),
        hub_caller(at.pki, at.port, agent="agent-b") as other,
        hub_caller(at.pki, at.port, agent="agent-c") as absent,
    ):
        assert (await other.get(PATH)).status == 200
        waiting = [asyncio.ensure_future(at.hub.get(PATH)) for _ in range(300)]
        async with asyncio.timeout(30):
            done, pending = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            assert {(await each).status for each in done} == {429}
            await eventually(lambda: at.process._requests._count[AGENT] == requests.MAX_OPEN)
            for _ in range(5):
                began = time.monotonic()
                assert (await other.get(PATH)).status == 200
                assert time.monotonic() - began < crowd()
            assert (await absent.get(PATH)).status == 502, "answered at once"
    for each in pending:
        each.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
