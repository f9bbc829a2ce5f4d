"""A second stream of one agent ends the first: that is how an agent restarts. Where two processes run under one
name they would end each other's streams for ever, so each gets a longer turn.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from tiphys import logs, metrics

SUPERSEDED = metrics.counter(
    "tiphys_principal_superseded_streams_total",
    "Streams that a newer one of the same agent has ended: a few by restarts, many by two agents of one name.",
    labels=("agent_name",),
)
# A stream that lived so long was no rival's turn.
LASTING_SECONDS = 30.0
# A network that comes back may bring an agent twice in a row, not more often.
RIVALS = 3

log = logs.get_logger()


class StreamTurns:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._present: dict[str, tuple[float, asyncio.Event]] = {}
        self._hasty: dict[str, int] = {}

    @asynccontextmanager
    async def turn(self, agent: str) -> AsyncIterator[None]:
        """Entered when the stream may begin; the earlier one may still be there."""
        await self._wait(agent)
        ended = asyncio.Event()
        mine = self._present[agent] = (self._clock(), ended)
        try:
            yield
        finally:
            ended.set()
            if self._clock() - mine[0] >= 2 * LASTING_SECONDS:  # longer than rivals let each other live
                self._hasty.pop(agent, None)
            if self._present.get(agent) is mine:
                del self._present[agent]

    async def _wait(self, agent: str) -> None:
        present = self._present.get(agent)
        if present is None:
            return
        SUPERSEDED.labels(agent).inc()
        since, ended = present
        if self._clock() - since >= LASTING_SECONDS:
            return
        hasty = self._hasty[agent] = self._hasty.get(agent, 0) + 1
        if hasty == RIVALS:
            log.warning("two agents seem to run under one name", **{logs.AGENT: agent})
        if hasty > 1:
            try:
                async with asyncio.timeout(min(2.0 ** (min(hasty, 16) - 2), LASTING_SECONDS)):
                    await ended.wait()
            except TimeoutError:
                return
