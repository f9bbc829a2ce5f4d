"""Kubernetes events: a configuration that cannot be read, and, where somebody asked for it, denials.

An event is a courtesy: it waits in a short queue, comes at most so often, and is dropped rather than retried.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

from argocd import names
from kube.errors import ApiError
from kube.events import KubeEvent, write_event
from kube.store import Store
from webhook.keeper.worker_reports import Denial

WAITING = 32
BURST = 10
PER_SECOND = 0.2
"""An event every five seconds after the first ten: a loop that is refused all day must not fill etcd."""

SOURCE = "tiphys-webhook"


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
            rules = ", ".join(sorted({rule for rule, _ in denial.findings}))
            self._announce(
                KubeEvent(
                    reason="Denied",
                    message=f"refused to {denial.user}: {rules}",
                    kind=denial.kind,
                    namespace=denial.namespace,
                    name=denial.name,
                )
            )

    def troubled(self, what: str, trouble: str) -> None:
        """What the watch of the configuration tells; an empty text means that all is well again."""
        if what == "configuration" and trouble:
            self._announce(
                KubeEvent(
                    reason="BrokenConfiguration",
                    message=trouble,
                    kind="ConfigMap",
                    namespace=self._home,
                    name=names.TIPHYS_CONFIG_MAP,
                )
            )

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            event = await self._waiting.get()
            with suppress(ApiError):
                await write_event(self._store, event, component=SOURCE, now=datetime.now(UTC))
            self._waiting.task_done()

    def _announce(self, event: KubeEvent) -> None:
        now = self._clock()
        self._credit = min(BURST, self._credit + (now - self._counted) * PER_SECOND)
        self._counted = now
        if self._credit >= 1:
            with suppress(asyncio.QueueFull):
                self._waiting.put_nowait(event)
                self._credit -= 1
