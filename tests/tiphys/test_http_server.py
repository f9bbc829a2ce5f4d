"""The small HTTP server: what it answers, and that no caller keeps it busy for long."""

import asyncio
import io
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from aiohttp import web

from tiphys import http_server, logs
from tiphys.errors import SurroundingsError
from tiphys.http_server import CONNECTIONS, HttpPage, HttpPages, listening

PATIENCE = 20.0
"""Of a test that fails; no test that passes waits for so long."""
SHORT = 0.2
ALIVE = {"/healthz": lambda: HttpPage(b"alive\n")}
PROBE = b"GET /healthz?x=1 HTTP/1.1\r\nHost: x\r\n\r\n"
HALF_A_HEADER = b"GET /healthz HTTP/1.1\r\nHost:"

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connected(port: int, request: bytes = b"") -> Connection:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    return reader, writer


async def answer(connection: Connection) -> bytes:
    """Everything until the server hangs up."""
    reader, writer = connection
    try:
        async with asyncio.timeout(PATIENCE):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def asked(port: int, request: bytes) -> tuple[str, bytes]:
    """The status line and the body."""
    head, _, body = (await answer(await connected(port, request))).partition(b"\r\n\r\n")
    return head.split(b"\r\n")[0].decode(), body


@asynccontextmanager
async def serving(pages: HttpPages) -> AsyncIterator[int]:
    task = asyncio.create_task(pages.run())
    try:
        async with asyncio.timeout(PATIENCE):
            await pages.listening.wait()
        yield pages.port
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            async with asyncio.timeout(PATIENCE):
                await task


@pytest.fixture
async def port() -> AsyncIterator[int]:
    async with serving(HttpPages(ALIVE, host="127.0.0.1", port=0)) as port:
        yield port


@pytest.fixture
async def impatient_port() -> AsyncIterator[int]:
    async with serving(HttpPages(ALIVE, host="127.0.0.1", port=0, seconds=SHORT)) as port:
        yield port


@pytest.mark.parametrize(
    ("request_line", "status", "body"),
    [
        ("GET /healthz HTTP/1.1", "200 OK", b"alive\n"),
        ("GET /healthz?verbose HTTP/1.1", "200 OK", b"alive\n"),
        ("GET /healthz HTTP/1.0", "200 OK", b"alive\n"),
        ("HEAD /healthz HTTP/1.1", "200 OK", b""),
        ("GET /else HTTP/1.1", "404 Not Found", b"not found\n"),
        ("POST /healthz HTTP/1.1", "405 Method Not Allowed", b"only GET\n"),
        ("DELETE /healthz HTTP/1.1", "405 Method Not Allowed", b"only GET\n"),
    ],
)
async def test_pages_are_read_and_nothing_else(
    port: int, request_line: str, status: str, body: bytes
) -> None:
    line, content = await asked(port, f"{request_line}\r\nHost: x\r\n\r\n".encode())
    assert (line.partition(" ")[2], content) == (status, body)


async def test_an_answer_tells_its_type_and_no_versions(port: int) -> None:
    head = await answer(await connected(port, PROBE))
    assert b"Content-Type: text/plain; charset=utf-8\r\n" in head
    assert b"aiohttp" not in head


async def test_a_connection_ends_with_its_answer_also_for_who_wants_to_keep_it(port: int) -> None:
    """The server hangs up at once, long before the deadline: an idle connection takes nobody's place."""
    request = PROBE.replace(b"Host", b"Connection: keep-alive\r\nHost")
    async with asyncio.timeout(http_server.EXCHANGE_SECONDS / 2):
        content = await answer(await connected(port, request + request))
    assert b"Connection: close\r\n" in content
    assert content.count(b"alive\n") == 1


@pytest.mark.parametrize("request_", [b"", HALF_A_HEADER], ids=["nothing", "half a header"])
async def test_who_does_not_finish_a_request_is_cut_off_at_the_deadline(
    impatient_port: int, request_: bytes
) -> None:
    assert await answer(await connected(impatient_port, request_)) == b""


async def test_who_sends_byte_by_byte_does_not_get_more_time(impatient_port: int) -> None:
    reader, writer = await connected(impatient_port, HALF_A_HEADER)
    received = asyncio.create_task(answer((reader, writer)))
    while not received.done():
        with suppress(ConnectionError):
            writer.write(b"x")
        await asyncio.wait({received}, timeout=SHORT / 10)
    assert received.result() == b""


async def test_who_does_not_read_is_cut_off_at_the_deadline() -> None:
    """More than two sockets hold was to be sent: what arrives is what they held."""
    large = b"x" * 64 * 1024 * 1024
    cut_off = asyncio.Event()

    async def page(request: web.BaseRequest) -> web.Response:
        assert request.task is not None
        request.task.add_done_callback(lambda _: cut_off.set())
        return web.Response(body=large)

    async with listening(page, host="127.0.0.1", seconds=SHORT) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as caller:
            caller.sendall(PROBE)
            async with asyncio.timeout(PATIENCE):
                await cut_off.wait()
            assert len(await asyncio.to_thread(_rest, caller)) < len(large)


def _rest(caller: socket.socket) -> bytes:
    found = b""
    with suppress(ConnectionError):
        while part := caller.recv(1024 * 1024):
            found += part
    return found


async def test_a_handler_that_takes_for_ever_ends_with_its_connection() -> None:
    ended = asyncio.Event()

    async def slow(_: web.BaseRequest) -> web.Response:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    async with listening(slow, host="127.0.0.1", seconds=SHORT) as port:
        assert await answer(await connected(port, PROBE)) == b""
        async with asyncio.timeout(PATIENCE):
            await ended.wait()


@pytest.fixture
async def patient_port() -> AsyncIterator[int]:
    async with serving(HttpPages(ALIVE, host="127.0.0.1", port=0, seconds=10 * PATIENCE)) as port:
        yield port


async def test_more_callers_than_the_bound_do_not_keep_a_probe_out(patient_port: int) -> None:
    """The deadline is far away: it is the oldest who have to go."""
    port = patient_port
    crowd = [await connected(port, HALF_A_HEADER) for _ in range(2 * CONNECTIONS)]
    assert (await asked(port, PROBE))[0] == "HTTP/1.1 200 OK"
    assert set(await asyncio.gather(*map(answer, crowd[:CONNECTIONS]))) == {b""}
    for _, writer in crowd[-CONNECTIONS // 2 :]:
        writer.write(b" x\r\n\r\n")
    kept = await asyncio.gather(*map(answer, crowd[-CONNECTIONS // 2 :]))
    assert {text.split(b"\r\n")[0] for text in kept} == {b"HTTP/1.1 200 OK"}
    for _, writer in crowd:
        writer.close()


async def test_who_left_takes_no_place(port: int) -> None:
    for _ in range(2 * CONNECTIONS):
        assert (await asked(port, PROBE))[0] == "HTTP/1.1 200 OK"


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
        b"how are you?\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 1000 + b"\r\n",
        b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
    ids=["TLS", "words", "a thousand headers", "a long path"],
)
async def test_what_is_no_http_gets_a_400_and_no_line_in_the_log(port: int, nonsense: bytes) -> None:
    stream = io.StringIO()
    logs.configure(stream=stream)
    assert (await asked(port, nonsense))[0].split()[1] == "400"
    assert (await asked(port, PROBE))[0] == "HTTP/1.1 200 OK"
    assert stream.getvalue() == ""


async def test_a_page_that_fails_is_a_500_with_a_line_in_the_log() -> None:
    stream = io.StringIO()
    logs.configure(stream=stream)

    def broken() -> HttpPage:
        raise ZeroDivisionError

    async with serving(HttpPages({"/healthz": broken}, host="127.0.0.1", port=0)) as port:
        line, body = await asked(port, PROBE)
    assert line.split()[1] == "500"
    assert b"ZeroDivisionError" not in body
    assert "ZeroDivisionError" in stream.getvalue()


async def test_an_answer_under_way_is_finished_before_the_end() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_: web.BaseRequest) -> web.Response:
        begun.set()
        await go_on.wait()
        return web.Response(text="finished")

    async with listening(slow, host="127.0.0.1") as port:
        asking = asyncio.create_task(asked(port, PROBE))
        idle = await connected(port, HALF_A_HEADER)
        async with asyncio.timeout(PATIENCE):
            await begun.wait()
        asyncio.get_running_loop().call_later(SHORT, go_on.set)
    assert (await asking)[1] == b"finished"
    assert await answer(idle) == b""
    with pytest.raises(ConnectionRefusedError):
        await connected(port)


async def test_a_port_in_use_is_told_in_one_line(port: int) -> None:
    with pytest.raises(SurroundingsError, match=f"^cannot listen on port {port}: .*in use"):
        await HttpPages(ALIVE, host="127.0.0.1", port=port).run()


async def test_a_flood_from_one_address_does_not_cost_another_its_answer() -> None:
    """The slow probe was first, and its place is its own however many others come."""
    pages = HttpPages(ALIVE, host="127.0.0.1", port=0)
    running = asyncio.ensure_future(pages.run())
    flood: list[Connection] = []
    try:
        await pages.listening.wait()
        reader, writer = await asyncio.open_connection("127.0.0.1", pages.port, local_addr=("127.0.0.2", 0))
        writer.write(HALF_A_HEADER)
        flood.extend([await connected(pages.port, HALF_A_HEADER) for _ in range(3 * CONNECTIONS)])
        writer.write(b" x\r\n\r\n")
        assert (await answer((reader, writer))).startswith(b"HTTP/1.1 200")
    finally:
        for _, other in flood:
            other.close()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
