"""What runs in a worker beside its reviews: the caches, and reports of their state."""

import asyncio

from webhook.admission.cluster_state import ClusterState
from webhook.keeper.worker_reports import WorkerReporter
from webhook.server.metrics import WorkerMetrics

REPORT_SECONDS = 5.0
"""How often a worker tells the state of its caches; readiness takes it for a sign of life."""


class WorkerBackground:
    def __init__(
        self, cluster_state: ClusterState, *, metrics: WorkerMetrics, reporter: WorkerReporter
    ) -> None:
        self._cluster_state = cluster_state
        self._metrics = metrics
        self._reporter = reporter
        self._reporting: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self._cluster_state.start()
        self._reporting = asyncio.create_task(self._report(), name="reports to the keeper")

    async def failed(self) -> None:
        assert self._reporting is not None
        caches = asyncio.create_task(self._cluster_state.failed())
        try:
            done, _ = await asyncio.wait({caches, self._reporting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            caches.cancel()
        for task in done:
            task.result()

    async def stop(self) -> None:
        if self._reporting is not None:
            self._reporting.cancel()
        await self._cluster_state.stop()
        self._reporter.close()

    async def _report(self) -> None:
        while True:
            self._metrics.report(self._cluster_state.health, troubles=self._cluster_state.troubles)
            await asyncio.sleep(REPORT_SECONDS)
