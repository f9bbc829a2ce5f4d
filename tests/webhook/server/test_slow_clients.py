"""Clients that never finish, or do not wait: half a handshake, header or body, silence in great number, a row of requests."""

import contextlib
import resource
import socket
import ssl
from collections.abc import Callable, Iterator

import pytest

from tests.webhook.conftest import Server, post, read_response, review
from webhook.server.worker import HANDSHAKE_SECONDS, REQUEST_SECONDS

StartServer = Callable[..., Server]


@pytest.fixture(autouse=True)
def many_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_reviews_go_on_beside_two_thousand_silent_connections(start_server: StartServer) -> None:
    server = start_server(connections=500)
    with contextlib.ExitStack() as stack:
        known = stack.enter_context(server.connect())
        for index in range(2000):
            stack.enter_context(contextlib.closing(socket.create_connection(("127.0.0.1", server.port))))
            if index % 100 == 0:
                known.sendall(post("/validate", review()))
                assert read_response(known)[0] == 200
        with server.connect() as late:
            late.sendall(post("/validate", review()))
            assert read_response(late)[0] == 200


def test_requests_that_never_end_are_cut_in_time(start_server: StartServer) -> None:
    server = start_server()
    half_a_header = b"POST /validate HTTP/1.1\r\nHost: x\r\n"
    half_a_body = post("/validate", review())[:-10]
    silence = b""
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(server.connect()) for _ in range(3)]
        for connection, sent in zip(connections, (half_a_header, half_a_body, silence), strict=True):
            connection.sendall(sent)
        for connection in connections:
            connection.settimeout(REQUEST_SECONDS + 5)
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                while connection.recv(4096):
                    pass


def test_a_handshake_that_never_ends_is_cut_in_time(start_server: StartServer) -> None:
    server = start_server()
    with socket.create_connection(("127.0.0.1", server.port)) as plain:
        plain.sendall(b"\x16\x03\x01\x02\x00\x01")
        plain.settimeout(HANDSHAKE_SECONDS + 5)
        with contextlib.suppress(ConnectionError):
            assert plain.recv(1) == b""


def test_requests_that_come_before_the_answer_are_not_served(start_server: StartServer) -> None:
    """A worker would answer all of them in a row and look at nobody else; API servers wait for each answer."""
    server = start_server()
    for request in (post("/validate", review()), post("/nowhere", review())):
        received = b""
        with server.connect() as connection, contextlib.suppress(ConnectionError, ssl.SSLError):
            connection.sendall(
                request * 3
            )  # no more than is read at once: a reset would take the answer along
            connection.settimeout(REQUEST_SECONDS)
            while chunk := connection.recv(65_536):
                received += chunk
        assert received.count(b"HTTP/1.1 ") == 1
