"""A client that keeps connections to a review server busy, lean enough not to be what is measured.

Non-blocking sockets and one poll: an answer costs it a tenth of what asyncio would spend, so that time between
an answer's arrival and the look at the clock is not the client's. It runs on a processor of its own where there
are two.
"""

import contextlib
import gc
import itertools
import os
import select
import socket
import ssl
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PATIENCE_SECONDS = 120.0
GO_WRITES = 4096
"""Bytes that net/http collects before it writes them."""


@dataclass
class Load:
    """What a client saw of one round, and what that cost the server."""

    latencies: list[float] = field(default_factory=list)
    seconds: float = 0.0
    """From the first question to the last answer."""
    processor_seconds: float = 0.0
    """Of the server."""
    kept_waiting: float = 0.0
    """Seconds in which server or client could have run and other programs did."""

    @property
    def cost(self) -> float:
        return self.processor_seconds / len(self.latencies)


def calm(loads: Sequence[Load]) -> list[Load]:
    """The half in which other programs disturbed least: the rest tells of the neighbours."""
    return sorted(loads, key=lambda load: load.kept_waiting)[: (len(loads) + 1) // 2]


def ask(
    port: int, authority: bytes, bodies: Sequence[bytes], *, server: int, count: int, connections: int
) -> Load:
    """Asks `count` times in all; `server` is the process that answers. Handshakes are not part of the round."""
    context = ssl.create_default_context(cadata=authority.decode())
    requests = itertools.cycle([_request(body) for body in bodies])
    with contextlib.ExitStack() as stack:
        stack.enter_context(_apart(server))
        sockets = [stack.enter_context(_connected(port, context)) for _ in range(connections)]
        waited, used = _waited(server), processor_seconds(server)
        load = _asked(sockets, requests, count=count)
        load.processor_seconds = processor_seconds(server) - used
        load.kept_waiting = _waited(server) - waited
    return load


def _asked(sockets: Sequence[ssl.SSLSocket], requests: Iterator[tuple[bytes, bytes]], *, count: int) -> Load:
    load, left = Load(), count
    poll, clock = select.epoll(), time.perf_counter
    open_, asked = {each.fileno(): each for each in sockets}, {}
    begin = clock()
    for number, each in open_.items():
        poll.register(number, select.EPOLLIN)
        asked[number] = clock()
        _send(each, *next(requests))
        left -= 1
    while asked:
        ready = poll.poll(PATIENCE_SECONDS)
        if not ready:
            raise TimeoutError(f"{len(asked)} reviews were not answered")
        for number, _ in ready:
            try:
                answer = open_[number].recv(65_536)
            except ssl.SSLWantReadError:  # a session ticket
                continue
            now = clock()
            _check(answer)
            load.latencies.append(now - asked.pop(number))
            if left > 0:
                left -= 1
                asked[number] = clock()
                _send(open_[number], *next(requests))
    load.seconds = clock() - begin
    poll.close()
    return load


def _send(connection: ssl.SSLSocket, first: bytes, rest: bytes) -> None:
    """The last answer has come, so there is room in the socket's buffers."""
    connection.send(first)
    if rest:
        connection.send(rest)


def _check(answer: bytes) -> None:
    """Servers here write an answer in one go."""
    if not answer.startswith(b"HTTP/1.1 200") or b'"allowed":true' not in answer:
        raise RuntimeError(answer.decode() or "the server closed the connection")


def _request(body: bytes) -> tuple[bytes, bytes]:
    """With the header of an API server, and in two pieces as Go writes it."""
    lines = [
        "POST /validate?timeout=5s HTTP/1.1",
        "Host: localhost",
        "User-Agent: kube-apiserver-admission",
        f"Content-Length: {len(body)}",
        "Accept: application/json, */*",
        "Content-Type: application/json",
        "Accept-Encoding: gzip",
    ]
    whole = "\r\n".join([*lines, "", ""]).encode() + body
    return whole[:GO_WRITES], whole[GO_WRITES:]


@contextlib.contextmanager
def _connected(port: int, context: ssl.SSLContext) -> Iterator[ssl.SSLSocket]:
    with (
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secured,
    ):
        secured.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as every API server's client
        secured.setblocking(False)  # noqa: FBT003 - the standard library's signature
        yield secured


@contextlib.contextmanager
def _apart(server: int) -> Iterator[None]:
    """Server and client on a processor each, and no garbage collection in the client."""
    ours, theirs = os.sched_getaffinity(0), os.sched_getaffinity(server)
    if len(ours) > 1:
        first, second, *_ = sorted(ours)
        _pin(server, {first})
        os.sched_setaffinity(0, {second})
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        os.sched_setaffinity(0, ours)
        _pin(server, theirs)


def _pin(process: int, processors: set[int]) -> None:
    for thread in Path(f"/proc/{process}/task").iterdir():
        os.sched_setaffinity(int(thread.name), processors)


def processor_seconds(process: int) -> float:
    """By the clock that Linux keeps for every process, which is far finer than the ticks of /proc."""
    return time.clock_gettime((~process << 3) | 2)


def _waited(server: int) -> float:
    """Seconds that the main threads of server and client were ready to run and did not; 0 where nobody counts them."""
    waited = 0.0
    for process in (server, os.getpid()):
        with contextlib.suppress(FileNotFoundError):
            waited += int(Path(f"/proc/{process}/schedstat").read_text().split()[1]) / 1e9
    return waited
