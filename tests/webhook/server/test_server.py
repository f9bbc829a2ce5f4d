"""The server itself, as a process with real sockets: TLS or nothing, bounded clients, a drain at the end."""

import contextlib
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from certs.folder import CERTIFICATE, KEY, publish, read
from scripts.ports import free_port
from tests.webhook.conftest import ROOT, Server, post, publish_leaf, read_response, review

StartServer = Callable[..., Server]


def ask(
    connection: ssl.SSLSocket, body: bytes = b"", path: str = "/validate"
) -> tuple[int, dict[str, str], bytes]:
    connection.sendall(post(path, body or review()))
    return read_response(connection)


def test_a_review_is_answered_with_its_own_uid_and_the_connection_stays(start_server: StartServer) -> None:
    with start_server().connect() as connection:
        for uid in ("first", "second"):
            status, headers, body = ask(connection, review(uid))
            assert status == 200
            assert orjson.loads(body)["response"] == {"uid": uid, "allowed": True}
            assert headers.get("connection") != "close"


def test_only_tls_1_3_and_http_1_1_are_spoken(start_server: StartServer) -> None:
    server = start_server()
    with server.connect() as connection:
        assert connection.version() == "TLSv1.3"
    context = ssl.create_default_context(cadata=server.authority.pair.certificate.decode())
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection(("127.0.0.1", server.port)) as plain, pytest.raises(ssl.SSLError):
        context.wrap_socket(plain, server_hostname="localhost")


def test_a_server_without_a_usable_certificate_exits_and_never_serves_in_the_clear(tmp_path: Path) -> None:
    publish_leaf(tmp_path / "leaf")
    publish(tmp_path / "leaf", {CERTIFICATE: read(tmp_path / "leaf", CERTIFICATE), KEY: b"half-written"})
    ended = subprocess.run(
        [sys.executable, ROOT / "tests/webhook/plain_server.py", tmp_path / "leaf", str(free_port())],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 3
    assert b"the key is not an unencrypted PEM key" in ended.stderr
    assert b"Traceback" not in ended.stderr


def test_no_control_socket_is_left_in_the_home_folder(start_server: StartServer, tmp_path: Path) -> None:
    start_server()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["leaf-0"]


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (post("/nowhere", review()), 404),
        (b"GET /validate HTTP/1.1\r\nHost: x\r\n\r\n", 405),
        (post("/validate", review(), content_type="text/plain"), 400),
        (post("/validate", b""), 400),
        (post("/validate", b"{"), 400),
        (post("/validate", b"[" * 5000 + b"]" * 5000), 400),
        (
            b"POST /validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99999999\r\n\r\n",
            413,
        ),
        (post("/crash", review()), 500),
        (post("/wait?timeout=1s", review()), 504),
    ],
)
def test_a_bad_call_gets_a_clear_status_and_no_traceback(
    start_server: StartServer, request_bytes: bytes, status: int
) -> None:
    with start_server().connect() as connection:
        connection.sendall(request_bytes)
        answered, _, body = read_response(connection)
    assert answered == status
    assert set(orjson.loads(body)) == {"error"}
    assert b"Traceback" not in body


def test_a_new_certificate_is_served_to_new_handshakes_while_open_connections_go_on(
    start_server: StartServer,
) -> None:
    server = start_server()
    with server.connect() as before:
        old = before.getpeercert(binary_form=True)
        publish_leaf(server.folder, server.authority)
        for _ in range(200):
            with server.connect() as after:
                ask(after)
                if after.getpeercert(binary_form=True) != old:
                    break
        else:
            raise AssertionError("the new certificate was never served")
        assert ask(before)[0] == 200


def test_a_half_written_certificate_leaves_the_last_good_one_in_place(start_server: StartServer) -> None:
    server = start_server()
    publish(server.folder, {CERTIFICATE: read(server.folder, CERTIFICATE), KEY: b"half-written"})
    with server.connect() as connection:
        assert ask(connection)[0] == 200


def test_after_sigterm_new_and_pooled_connections_are_answered_with_connection_close(
    start_server: StartServer,
) -> None:
    server = start_server(drain=3)
    with server.connect() as pooled, server.connect() as second:
        ask(pooled)
        ask(second)
        server.terminate()
        for _ in range(100):
            with server.connect() as fresh:
                status, headers, _ = ask(fresh)
                assert status == 200
                if headers.get("connection") == "close":
                    break
        else:
            raise AssertionError("the server never began to drain")
        status, headers, _ = ask(pooled)
        assert (status, headers["connection"]) == (200, "close")
        assert server.process.wait(timeout=60) == 0
        with contextlib.suppress(ConnectionError, ssl.SSLError, TimeoutError):
            assert second.recv(1) == b""


def test_at_the_connection_limit_the_longest_silent_one_goes_and_known_callers_stay(
    start_server: StartServer,
) -> None:
    server = start_server(connections=10)
    with contextlib.ExitStack() as stack:
        known = stack.enter_context(server.connect())
        ask(known)
        silent = [stack.enter_context(server.connect()) for _ in range(30)]
        assert ask(known)[0] == 200
        late = stack.enter_context(server.connect())
        assert ask(late)[0] == 200
        silent[0].settimeout(5)
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            assert silent[0].recv(1) == b""


def test_a_server_that_nobody_talks_to_ends_without_a_complaint(
    start_server: StartServer, capfd: pytest.CaptureFixture[str]
) -> None:
    server = start_server(drain=0)
    server.terminate()
    assert server.process.wait(timeout=60) == 0
    assert "Traceback" not in capfd.readouterr().err
