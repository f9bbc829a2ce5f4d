"""gunicorn as the parent of review workers: its settings, each with its reason."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gunicorn.app.base import BaseApplication

from webhook.server.worker import KEEPALIVE_SECONDS, REFUSING_SECONDS, REQUEST_SECONDS, ReviewWorker, Served

WORKER_SILENCE_SECONDS = 30
"""A worker that has not said for this long that it lives is replaced: its loop hangs."""


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
    """Runs until SIGTERM; `build` makes the application inside each worker, after the fork."""

    def __init__(self, build: Callable[[], Served], listening: ReviewPort) -> None:
        self._build = build
        self._listening = listening
        super().__init__()

    def load_config(self) -> None:
        listening = self._listening
        settings: dict[str, Any] = {
            "bind": f"{listening.host}:{listening.port}",
            "workers": listening.workers,
            "worker_class": ReviewWorker,
            "worker_connections": listening.connections,
            "keepalive": KEEPALIVE_SECONDS,
            "timeout": WORKER_SILENCE_SECONDS,
            # After this the arbiter kills: drain, refusal and the last requests must fit in.
            "graceful_timeout": int(listening.drain_seconds + REFUSING_SECONDS + REQUEST_SECONDS + 1),
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

    def load(self) -> Served:
        return self._build()
