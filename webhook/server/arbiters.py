"""gunicorn as the parent of review workers, and as that of the keeper's pages: settings, each with its reason."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from prometheus_client.multiprocess import mark_process_dead

from webhook.server.worker import KEEPALIVE_SECONDS, REFUSING_SECONDS, REQUEST_SECONDS, Build, ReviewWorker

if TYPE_CHECKING:
    from flask import Flask

WORKER_SILENCE_SECONDS = 3
"""A worker that has not said for this long that it lives is killed, a second later at most: its loop hangs. It says so
twice a second, and no review that we judge takes one."""

BODY_SECONDS = 30
"""gunicorn's word for how long a body may pause; a deadline for the whole request ends it before."""

PAGE_THREADS = 4
PAGES_GRACE_SECONDS = 5.0
"""For the last page, and for giving the Lease back."""


@dataclass(frozen=True, slots=True)
class ReviewPort:
    host: str = "0.0.0.0"  # noqa: S104 - the API server comes from another machine
    port: int = 8443
    workers: int = 2
    """So that one serves while another hangs and is replaced."""
    connections: int = 512
    """Of one worker. Each may hold 80 KiB for good once it has carried a large review, so that all of them fit into
    the pod of our manifests; an API server keeps a few dozen open."""
    drain_seconds: float = 15.0
    client_ca: Path | None = None
    """Who signed the API server's client certificate; without it anybody may ask."""


class ReviewArbiter(BaseApplication):  # type: ignore[misc]
    """Runs until SIGTERM; `build` makes the application in each worker's event loop, after the fork."""

    def __init__(self, build: Build, port: ReviewPort) -> None:
        self._build = build
        self._port = port
        super().__init__()

    def load_config(self) -> None:
        port = self._port
        settings: dict[str, Any] = {
            "bind": f"{port.host}:{port.port}",
            "workers": port.workers,
            "worker_class": ReviewWorker,
            "worker_connections": port.connections,
            "keepalive": KEEPALIVE_SECONDS,
            "timeout": BODY_SECONDS,
            # API servers send a dozen short headers; gunicorn would hold 800 KiB of them for each connection.
            "limit_request_fields": 32,
            "limit_request_field_size": 4096,
            "child_exit": _forget_metrics,
            # After this the arbiter kills: drain, refusal and the last requests must fit in.
            "graceful_timeout": int(port.drain_seconds + REFUSING_SECONDS + REQUEST_SECONDS + 1),
            # A caller that has gone needs no answer; gunicorn would keep its connection's memory for three seconds.
            "asgi_disconnect_grace_period": 0,
            "accesslog": None,
            "errorlog": "-",
            "loglevel": "warning",
            # gunicorn would open it in the home folder, which is read-only in our image, for a client nobody runs.
            "control_socket_disable": True,
        }
        for name, value in settings.items():
            self.cfg.set(name, value)

    def load(self) -> Build:
        return self._build

    def run(self) -> None:
        _WatchfulArbiter(self).run()


class _WatchfulArbiter(Arbiter):  # type: ignore[misc]
    """Patient with slow bodies, for which gunicorn has the same setting, and not with a silent worker."""

    def setup(self, app: BaseApplication) -> None:
        super().setup(app)
        self.timeout = WORKER_SILENCE_SECONDS


def _forget_metrics(_arbiter: Arbiter, worker: ReviewWorker) -> None:
    """What only a living worker has, such as the age of its caches."""
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]  # it has no annotations


class ServedPages(Protocol):
    """What the keeper's process runs: pages, and the work beside them."""

    def start(self) -> "Flask": ...

    def stop(self) -> None: ...


class KeeperArbiter(BaseApplication):  # type: ignore[misc]
    """Runs until SIGTERM, with one threaded worker; `build` makes the pages in it, after the fork."""

    def __init__(self, build: Callable[[], ServedPages], *, bind: str) -> None:
        self._build = build
        self._bind = bind
        self._pages: ServedPages | None = None
        super().__init__()

    def load_config(self) -> None:
        settings: dict[str, Any] = {
            "bind": self._bind,
            "workers": 1,
            "worker_class": "gthread",
            "threads": PAGE_THREADS,
            "keepalive": 5,
            "timeout": 30,
            "graceful_timeout": int(PAGES_GRACE_SECONDS),
            "accesslog": None,
            "errorlog": "-",
            "loglevel": "warning",
            "control_socket_disable": True,
            "worker_exit": lambda _server, _worker: self._pages.stop() if self._pages else None,
        }
        for name, value in settings.items():
            self.cfg.set(name, value)

    def load(self) -> "Flask":
        self._pages = self._build()
        return self._pages.start()
