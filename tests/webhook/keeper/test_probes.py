"""Probes and metrics on a port of their own: nothing that a caller leaves half done keeps a probe waiting."""

import contextlib
import json
import socket
import ssl
from typing import Any

import pytest

from tests.crowd import crowd
from tests.webhook.conftest import post, read_response, review
from tests.webhook.guarded_cluster import until
from tests.webhook.webhook_process import Guard

HALF_A_REQUEST = b"GET / HTTP/1.1\r\nX: "


def half_sent(port: int, count: int) -> contextlib.ExitStack:
    stack = contextlib.ExitStack()
    for _ in range(count):
        connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
        connection.sendall(HALF_A_REQUEST)
    return stack


@pytest.mark.parametrize("count", [4, 100])
def test_half_sent_requests_to_either_port_keep_no_probe_waiting(shared_guard: Guard, count: int) -> None:
    with half_sent(shared_guard.probes, count), half_sent(shared_guard.pages, count):
        for path in ("/readyz", "/healthz", "/metrics"):
            with socket.create_connection(("127.0.0.1", shared_guard.probes), timeout=crowd()) as probe:
                probe.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                assert probe.recv(15) == b"HTTP/1.1 200 OK"


def test_the_probes_port_serves_nothing_else(shared_guard: Guard) -> None:
    for path in ("/", "/status.json"):
        with socket.create_connection(("127.0.0.1", shared_guard.probes), timeout=5) as stranger:
            stranger.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert stranger.recv(12) == b"HTTP/1.1 404"


def test_the_status_page_shows_rules_paths_and_names_but_no_value(shared_guard: Guard) -> None:
    secret = "https://bot:ghp_MARKER@example.test/a"
    thing = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": "told", "namespace": shared_guard.argocd},
        "spec": {"sourceRepos": [secret, secret, "!*"], "description": "VALUE"},
    }
    body = review(object=thing, name="told")
    until(lambda: _denied(shared_guard, body), what="the denial is on the page")
    page = shared_guard.page("/")[1] + shared_guard.page("/status.json")[1] + shared_guard.log
    assert "MARKER" not in page
    assert "already added" not in shared_guard.page("/")[1]
    (denial,) = [each for each in _denials(shared_guard) if each["name"] == "told"][:1]
    assert ["project/source-repo-format", "spec.sourceRepos[2]"] in [each[:2] for each in denial["findings"]]


def _denied(guard: Guard, body: bytes) -> bool:
    with _connected(guard) as connection:
        connection.sendall(post("/validate", body))
        assert b"https://[removed]@example.test/a" in read_response(connection)[2]
    return any(each["name"] == "told" for each in _denials(guard))


def _denials(guard: Guard) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = json.loads(guard.page("/status.json")[1])["denials"]
    return told


def _connected(guard: Guard) -> "contextlib.AbstractContextManager[ssl.SSLSocket]":
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    plain = socket.create_connection(("127.0.0.1", guard.port), timeout=10)
    return context.wrap_socket(plain)
