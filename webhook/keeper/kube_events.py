"""Kubernetes events: a configuration that cannot be read, and, where somebody asked for it, denials.

An event is a courtesy: it waits in a short queue, comes at most so often, and is dropped rather than retried.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from argocd import names
from kube.errors import ApiError
from kube.resources import EVENTS
from kube.store import Object, Store
from webhook.keeper.worker_reports import Denial

WAITING = 32
BURST = 10
PER_SECOND = 0.2
"""An event every five seconds after the first ten: a loop that is refused all day must not fill etcd."""

MESSAGE_LIMIT = 1024
"""The API server's own."""

SOURCE = "tiphys-webhook"


@dataclass(frozen=True, slots=True)
class KubeEvent:
    reason: str
    message: str
    kind: str
    namespace: str
    name: str


class EventRecorder:
    def __init__(
        self, store: Store, *, home: str, denials: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._home = home
        self._denials = denials
        self._clock = clock
        self._waiting: asyncio.Queue[KubeEvent] = asyncio.Queue(WAITING)
        self._credit = float(BURST)
        self._counted = clock()

    def denied(self, denial: Denial) -> None:
        """Of objects in a namespace: an event stands beside what it is about."""
        if self._denials and denial.namespace:
            rules = ", ".join(sorted({rule for rule, _, _ in denial.findings}))
            message = f"refused to {denial.user}: {rules}"
            self._announce(KubeEvent("Denied", message, denial.kind, denial.namespace, denial.name))

    def troubled(self, what: str, trouble: str) -> None:
        """What the watch of the configuration tells; an empty text means that all is well again."""
        if what == "configuration" and trouble:
            self._announce(
                KubeEvent("BrokenConfiguration", trouble, "ConfigMap", self._home, names.TIPHYS_CONFIG_MAP)
            )

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            announcement = await self._waiting.get()
            with suppress(ApiError):
                await self._store.create(EVENTS, _event(announcement), namespace=announcement.namespace)
            self._waiting.task_done()

    def _announce(self, announcement: KubeEvent) -> None:
        now = self._clock()
        self._credit = min(BURST, self._credit + (now - self._counted) * PER_SECOND)
        self._counted = now
        if self._credit >= 1:
            with suppress(asyncio.QueueFull):
                self._waiting.put_nowait(announcement)
                self._credit -= 1


def _event(announcement: KubeEvent) -> Object:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    about = {"kind": announcement.kind, "namespace": announcement.namespace, "name": announcement.name}
    return {
        "metadata": {"generateName": "tiphys-", "namespace": announcement.namespace},
        "involvedObject": about,
        "reason": announcement.reason,
        "message": announcement.message[:MESSAGE_LIMIT],
        "type": "Warning",
        "source": {"component": SOURCE},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
