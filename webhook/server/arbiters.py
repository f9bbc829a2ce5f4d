"""gunicorn as the parent of review workers, and as that of the keeper's pages: settings, each with its reason."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from gunicorn.app.base import BaseApplication

from webhook.server.worker import KEEPALIVE_SECONDS, REFUSING_SECONDS, REQUEST_SECONDS, Build, ReviewWorker

if TYPE_CHECKING:
    from flask import Flask

WORKER_SILENCE_SECONDS = 30
"""A worker that has not said for this long that it lives is replaced: its loop hangs."""

PAGE_THREADS = 4
PAGES_GRACE_SECONDS = 5.0
"""For the last page, and for giving the Lease back."""


@dataclass(frozen=True, slots=True)
class ReviewPort:
    host: str = "0.0.0.0"  # noqa: S104 - the API server comes from another machine
    port: int = 8443
    workers: int = 1
    connections: int = 1024
    """Of one worker. Each may hold 80 KiB for good once it has carried a large review, so that all of them fit into
    the pod of our manifests; an API server keeps a few dozen open."""
    drain_seconds: float = 15.0


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
            "timeout": WORKER_SILENCE_SECONDS,
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
