"""What is said of a repair that fails: never what is in a Secret."""

import asyncio

import pytest
import structlog

from argocd.agents.vocabulary import Target
from kube.errors import InvalidError, UnavailableError
from sidecars.delivery.timing import Timing
from sidecars.mirroring.workqueue import WorkQueue

QUOTING = 'data[password]: Invalid value: "hunter2"'
SAID = {"a repair is given up", "a repair is tried again"}


@pytest.mark.parametrize(
    "error",
    [InvalidError(QUOTING), UnavailableError(QUOTING), RuntimeError(QUOTING)],
    ids=["for good", "passing", "a mistake of ours"],
)
@pytest.mark.parametrize(("target", "quotes"), [(Target.REPOSITORY, False), (Target.PROJECT, True)])
async def test_a_repair_that_fails_is_told_without_what_an_api_server_says_of_a_secret(
    error: Exception, target: Target, *, quotes: bool
) -> None:
    queue, failed = WorkQueue(timing=Timing()), asyncio.Event()

    async def repair() -> None:
        failed.set()
        raise error

    with structlog.testing.capture_logs() as lines:
        running = asyncio.ensure_future(queue.run())
        queue.put((target.value, "argocd", "repo"), repair)
        async with asyncio.timeout(10):
            await failed.wait()
            while not SAID & {line["event"] for line in lines}:  # noqa: ASYNC110 - a log has no event
                await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert ("hunter2" in repr(lines)) is quotes
    assert type(error).__name__ in repr(lines)
