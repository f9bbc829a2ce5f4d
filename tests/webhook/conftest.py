"""A review server as a process, and TLS connections to it."""

import contextlib
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pytest

from certs.authority import Authority, LeafSubject
from certs.folder import BUNDLE, CERTIFICATE, KEY, publish
from scripts.ports import free_port

if TYPE_CHECKING:
    from scripts.cluster.controlplane import Cluster
    from tests.webhook.guarded_cluster import Guarded
    from tests.webhook.webhook_process import Guard

ROOT = Path(__file__).parents[2]


def publish_leaf(folder: Path, authority: Authority | None = None) -> Authority:
    authority = authority or Authority.create("test authority", now=datetime.now(UTC))
    leaf = authority.issue(
        LeafSubject("localhost", dns_names=["localhost"], addresses=["127.0.0.1"]), now=datetime.now(UTC)
    )
    publish(folder, {CERTIFICATE: leaf.certificate, KEY: leaf.key, BUNDLE: authority.pair.certificate})
    return authority


@dataclass
class Server:
    process: subprocess.Popen[bytes]
    port: int
    folder: Path
    authority: Authority

    def connect(
        self, *, timeout: float = 10, address: str = "127.0.0.1", shown: Path | None = None
    ) -> ssl.SSLSocket:
        """From an address of this machine; with the client certificate of a folder if one is `shown`."""
        context = ssl.create_default_context(cadata=self.authority.pair.certificate.decode())
        if shown:
            context.load_cert_chain(shown / CERTIFICATE, shown / KEY)
        plain = socket.create_connection(
            ("127.0.0.1", self.port), timeout=timeout, source_address=(address, 0)
        )
        return context.wrap_socket(plain, server_hostname="localhost")

    @property
    def workers(self) -> list[int]:
        pid = self.process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def wait_ready(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended with {self.process.returncode}")
            with contextlib.suppress(OSError), self.connect() as connection:
                connection.settimeout(5)
                return
            time.sleep(0.05)
        raise AssertionError("the server did not come up")

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)


def review(uid: str = "u1", **request: object) -> bytes:
    return orjson.dumps(
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": uid,
                "kind": {"group": "argoproj.io", "version": "v1alpha1", "kind": "AppProject"},
                "resource": {"group": "argoproj.io", "version": "v1alpha1", "resource": "appprojects"},
                "name": "sample",
                "namespace": "argocd",
                "operation": "CREATE",
                "userInfo": {"username": "jason", "groups": ["system:authenticated"]},
                "object": {"metadata": {"name": "sample", "namespace": "argocd"}, "spec": {}},
                "oldObject": None,
                "dryRun": False,
                **request,
            },
        }
    )


def post(path: str, body: bytes, *, content_type: str = "application/json") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def read_response(connection: ssl.SSLSocket) -> tuple[int, dict[str, str], bytes]:
    """Status, headers in lower case, body; an EOF before the head is an `EOFError`."""
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = connection.recv(65536)
        if not chunk:
            raise EOFError
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", "0")):
        body += connection.recv(65536)
    return int(first.split()[1]), headers, body


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Starts plain_server.py; `drain` seconds, a connection limit, workers and authorities may be given."""
    servers: list[Server] = []

    def start(
        *, drain: float = 0.5, connections: int = 1024, workers: int = 1, client_ca: Path | None = None
    ) -> Server:
        folder = tmp_path / f"leaf-{len(servers)}"
        authority = publish_leaf(folder)
        port = free_port()
        process = subprocess.Popen(
            [
                sys.executable,
                Path(__file__).with_name("plain_server.py"),
                folder,
                str(port),
                str(drain),
                str(connections),
                str(workers),
                *([client_ca] if client_ca else []),
            ],
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        )
        server = Server(process=process, port=port, folder=folder, authority=authority)
        servers.append(server)
        server.wait_ready()
        return server

    yield start
    for server in servers:
        if server.process.poll() is None:
            workers = server.workers
            server.process.kill()
            for worker in workers:  # one that hangs would not notice
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
        server.process.wait(timeout=10)


@pytest.fixture(scope="session")
def shared_guard(cluster: "Cluster", tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Guard]":
    """`tiphys webhook` as a process, started once: not registered, and not to be stopped by a test."""
    from tests.webhook.webhook_process import Guard  # noqa: PLC0415 - it needs this module

    home, argocd = cluster.create_namespace(), cluster.create_namespace()
    guard = Guard(cluster=cluster, folder=tmp_path_factory.mktemp("guard"), home=home, argocd=argocd)
    guard.start().unregister()  # or it would write its authority into what other guards register
    yield guard
    guard.stop()
    for namespace in (home, argocd):
        cluster.drop_namespace(namespace)


@pytest.fixture(scope="module")
def guarded(shared_guard: "Guard") -> "Iterator[Guarded]":
    """The same, registered while this module's tests run: other modules register guards of their own."""
    from tests.webhook.guarded_cluster import Guarded  # noqa: PLC0415 - as above

    shared_guard.register()
    guarded = Guarded(shared_guard)
    yield guarded
    shared_guard.unregister()
    guarded.clear()
