"""A worker whose loop hangs is killed and replaced while the other serves."""

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

from tests.crowd import crowd
from tests.webhook.conftest import Server, post, read_response, review
from tests.webhook.plain_server import HANGING
from webhook.server.arbiters import ReviewPort

StartServer = Callable[..., Server]

KILLED_SECONDS = 5.0
SERVING_SECONDS = 10.0


def until(told: Callable[[], bool], *, seconds: float, what: str) -> float:
    begin = time.monotonic()
    while not told():
        assert time.monotonic() - begin < seconds * crowd(), f"{what}: not after {seconds:g} s"
        time.sleep(0.02)
    return time.monotonic() - begin


def answers(server: Server) -> bool:
    with server.connect(timeout=2) as connection:
        connection.sendall(post("/validate", review()))
        return read_response(connection)[0] == 200


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_worker_that_hangs_is_replaced_while_the_other_serves(start_server: StartServer) -> None:
    server = start_server(workers=2)
    until(lambda: len(server.workers) == 2, seconds=SERVING_SECONDS, what="two workers")
    before = set(server.workers)
    named = server.folder / HANGING
    with server.connect() as caught:
        caught.sendall(post("/hang", review()))
        until(
            lambda: named.exists() and named.read_text().endswith("\n"),
            seconds=KILLED_SECONDS,
            what="a worker hangs",
        )
        hanging = int(named.read_text())
        begin, served = time.monotonic(), 0
        while hanging in server.workers:
            assert time.monotonic() - begin < KILLED_SECONDS * crowd(), "the worker still hangs"
            assert answers(server)
            served += 1
        assert served
        with contextlib.suppress(OSError):
            assert caught.recv(1) == b""
    until(
        lambda: len(server.workers) == 2,
        seconds=begin + SERVING_SECONDS - time.monotonic(),
        what="a successor",
    )
    (successor,) = set(server.workers) - before
    spent = processor_seconds(successor)
    until(
        lambda: answers(server) and processor_seconds(successor) > spent + 0.01,
        seconds=begin + SERVING_SECONDS - time.monotonic(),
        what="the successor serves",
    )


def test_two_workers_serve_where_nobody_says_otherwise_and_no_manifest_does() -> None:
    assert ReviewPort().workers == 2
    manifests = (Path(__file__).parents[3] / "manifests").rglob("*.yaml")
    assert not [path for path in manifests if "--workers" in path.read_text()]
