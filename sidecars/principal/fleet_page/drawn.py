"""What has been drawn and is still true: rows of agents, and whole pages for the moment after."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Hashable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sidecars.principal.fleet_page.rows import AgentFacts

SOON = timedelta(days=14)
"""A certificate that ends within this is somebody's work for this week."""
LATE_SECONDS = 60.0
"""As `tiphys explain` has it: an agent that has not acknowledged something for longer is stuck, not busy."""
WAITING = timedelta(seconds=1)
"""What waits grows older without anything happening; nobody reads it more often."""
FOREVER = datetime.max.replace(tzinfo=UTC)

REST = 10
"""A page is good for so many times what it took to draw: at most a tenth of the thread goes into drawing it again."""
LONGEST_REST = 2.0
PAGES = 4
"""Kept, of others' filters and orders; a thousand agents have one to two MiB."""


@dataclass(frozen=True, slots=True)
class DrawnRow:
    number: int
    """Of the news that it shows."""
    markup: str
    waits_until: datetime
    turns: datetime
    """When its certificate's end has another colour."""


class DrawnRows:
    """One rendering for however many look; `draw` takes the facts of an agent."""

    def __init__(self, draw: Callable[..., Any]) -> None:
        self._draw = draw
        self._rows: dict[str, DrawnRow] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def of(self, agent: AgentFacts, *, number: int) -> str:
        now = datetime.now(UTC)
        row = self._rows.get(agent.name)
        if row is None or row.number != number or now >= min(row.waits_until, row.turns):
            row = self._rows[agent.name] = DrawnRow(
                number,
                str(self._draw(agent, now=now, soon=SOON, late=LATE_SECONDS)),
                now + WAITING if agent.queue else FOREVER,
                _turns(agent, now),
            )
        return row.markup

    def turned(self) -> list[str]:
        """Agents whose row has another colour by the passing of time alone."""
        now = datetime.now(UTC)
        return [name for name, row in self._rows.items() if now >= row.turns]

    def keep(self, names: Collection[str]) -> None:
        """Others are gone."""
        if len(self._rows) > len(names) or not self._rows.keys() <= set(names):
            self._rows = {name: row for name, row in self._rows.items() if name in names}

    def clear(self) -> None:
        self._rows.clear()


def _turns(agent: AgentFacts, now: datetime) -> datetime:
    end = agent.connection.certificate_end if agent.connection else None
    if end is None:
        return FOREVER
    return min((each for each in (end - SOON, end) if each > now), default=FOREVER)


class DrawnPages:
    """Whole pages, one at a time. Whoever asks for the same a moment later gets the same, and events tell the rest."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._pages: dict[Hashable, tuple[float, bytes]] = {}

    async def of(self, key: Hashable, draw: Callable[[], Awaitable[bytes]]) -> bytes:
        """With the key None it is never the same."""
        async with self._turn:
            until, page = self._pages.get(key, (0.0, b""))
            if time.monotonic() < until:
                return page
            began = time.thread_time()
            page = await draw()
            rest = min(REST * (time.thread_time() - began), LONGEST_REST)
            if key is not None:
                self._pages.pop(key, None)
                while len(self._pages) >= PAGES:
                    del self._pages[next(iter(self._pages))]
                self._pages[key] = time.monotonic() + rest, page
            return page

    def clear(self) -> None:
        self._pages.clear()
