"""How a call beside the stream of events begins and ends."""

import asyncio
from typing import Any

import grpc
from grpc import aio

from sidecars.wire.refusals import RefusedError
from sidecars.wire.streams import StreamLostError
from tiphys import logs

# As long as a stream's owner may tidy up.
GREETING_SECONDS = 5.0

log = logs.get_logger()


async def greet(context: Any, metadata: list[tuple[str, str]]) -> None:
    """To its end, whoever cancels: grpc would send it twice, and then cannot say why a call ends."""
    sending = asyncio.ensure_future(context.send_initial_metadata(metadata))
    try:
        await asyncio.shield(sending)
    except asyncio.CancelledError:
        await asyncio.wait({sending}, timeout=GREETING_SECONDS)
        if sending.done() and not sending.cancelled():
            sending.exception()  # the caller is gone either way
        raise
    except aio.BaseError as error:
        raise StreamLostError("the call ended before it began", code="UNAVAILABLE") from error


def raise_problem_of(work: "asyncio.Future[Any]") -> None:
    """Raises RefusedError; an agent that has left is no news."""
    if work.cancelled():
        return
    problem = work.exception()
    if isinstance(problem, RefusedError):
        raise problem
    if problem is not None and not isinstance(problem, StreamLostError):
        log.error("a call failed", exc_info=problem)
        raise RefusedError(
            grpc.StatusCode.INTERNAL, "the call failed", reason=logs.describe(problem), label="failed"
        )
