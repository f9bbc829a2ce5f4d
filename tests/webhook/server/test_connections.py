"""What connections cost a worker, and that as many as are allowed fit into the pod that the manifests describe."""

import contextlib
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import yaml

from tests.webhook.conftest import ROOT, Server, post, read_response, review
from webhook.server.arbiters import ReviewPort
from webhook.server.fairness import BODY_BYTES

StartServer = Callable[..., Server]

WORKER_MEBIBYTES = 120
"""A worker with 5 000 Applications and 500 projects in its caches at most; `make bench` measures it."""

OTHERS_MEBIBYTES = 210
"""The keeper and the parents: what they share with nobody or with each other, as measured."""

DECODING_MEBIBYTES = 120
"""What the worst body takes while it is read; one is at a time."""

CACHES_MEBIBYTES = 90
"""All that a worker remembers of texts and projects; tests/argocd/test_caches.py fills every memory."""

LARGE = review(object={"metadata": {"name": "x"}, "spec": {"description": "x" * 300_000}})
"""More than all buffers of a connection hold: each of them has grown as far as it will."""


def mebibytes(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def answered(connection: ssl.SSLSocket) -> None:
    connection.sendall(post("/validate", LARGE))
    assert read_response(connection)[0] == 200


def test_as_many_connections_as_are_allowed_fit_into_the_pods_memory(start_server: StartServer) -> None:
    server, count = start_server(), 128
    worker = server.workers[0]
    with contextlib.ExitStack() as stack:
        for _ in range(16):  # what the first reviews take is not the connections'
            answered(stack.enter_context(server.connect()))
        before = mebibytes(worker)
        for _ in range(count):
            answered(stack.enter_context(server.connect()))
        each = (mebibytes(worker) - before) / count
    deployment = yaml.safe_load((ROOT / "manifests/base/webhook/deployment.yaml").read_text())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    limit = int(container["resources"]["limits"]["memory"].removesuffix("Gi")) * 1024
    bodies = BODY_BYTES / (1 << 20) + DECODING_MEBIBYTES
    of_worker = WORKER_MEBIBYTES + CACHES_MEBIBYTES + ReviewPort().connections * each + bodies
    assert OTHERS_MEBIBYTES + ReviewPort().workers * of_worker < limit


def test_connections_that_never_begin_a_handshake_are_counted_and_go_first(start_server: StartServer) -> None:
    server = start_server(connections=10)
    with contextlib.ExitStack() as stack:
        known = stack.enter_context(server.connect())
        answered(known)
        silent = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=4))
            for _ in range(200)
        ]
        answered(stack.enter_context(server.connect()))
        answered(known)
        # Before the time for a handshake is over, and all but the last few of them.
        for connection in silent[:180]:
            with contextlib.suppress(ConnectionError):
                assert connection.recv(1) == b""


def test_connections_that_come_and_go_leave_nothing_behind(start_server: StartServer) -> None:
    server, count = start_server(), 200
    worker, found = server.workers[0], []
    for _ in range(3):
        for _ in range(count):
            with server.connect() as connection:
                answered(connection)
        found.append(mebibytes(worker))
    assert found[-1] - found[0] < count * 0.02, found


def test_strangers_who_sent_a_review_each_do_not_lock_anybody_out(start_server: StartServer) -> None:
    server = start_server(connections=40)
    with contextlib.ExitStack() as stack:
        known = stack.enter_context(server.connect())
        answered(known)
        for number in range(2, 5):
            for _ in range(20):
                answered(stack.enter_context(server.connect(address=f"127.0.0.{number}")))
            answered(known)
        for _ in range(5):
            answered(stack.enter_context(server.connect()))
        answered(known)


def test_a_crowd_of_one_address_gets_half_of_all_connections_at_most(start_server: StartServer) -> None:
    server = start_server(connections=40)
    with contextlib.ExitStack() as stack:
        elsewhere = [stack.enter_context(server.connect(address="127.0.0.3")) for _ in range(19)]
        for connection in elsewhere:
            answered(connection)
        for _ in range(100):
            answered(stack.enter_context(server.connect(address="127.0.0.2")))
        for connection in elsewhere:
            answered(connection)
