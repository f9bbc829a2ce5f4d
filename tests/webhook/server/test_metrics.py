"""What a worker's metrics keep of a review: labels of which there are few, and nothing that a caller chose."""

import asyncio
from pathlib import Path

from tests.webhook.conftest import review
from webhook.admission.review import PASSED, decode
from webhook.keeper.worker_reports import WorkerReporter
from webhook.server.metrics import JUDGED_KINDS, WorkerMetrics


async def told(observer: WorkerMetrics) -> None:
    async with asyncio.timeout(60):
        while observer._answers:  # noqa: ASYNC110 - it tells nobody else
            await asyncio.sleep(0.01)


async def test_a_kind_that_a_caller_made_up_is_kept_nowhere(tmp_path: Path) -> None:
    observer = WorkerMetrics(WorkerReporter(tmp_path))
    for number in range(2000):
        kind = {"group": "x", "version": "v1", "kind": f"K{number}"}
        observer.answered("/validate", decode(review(kind=kind)), PASSED, 0.001)
        if number % 500 == 0:
            await told(observer)
    observer.answered("/validate", decode(review()), PASSED, 0.001)
    await told(observer)
    kept = {kind for _, kind, _, _ in observer._reviews}
    assert kept == {"other", "AppProject"}
    assert kept - {"other"} <= JUDGED_KINDS
    assert not observer._answers
