"""Objects that a peer can never be told: said once, in the log and where people look."""

import asyncio
from contextvars import Context

from sidecars.delivery.lanes import key_of
from sidecars.delivery.outcomes import DeadLetter, Report, is_reported, log_dead_letter
from sidecars.wire.events import Event

# The oldest is said again then; a peer that takes so little of so much has another problem.
MAX_REMEMBERED = 1024
# As long as an event may take to be applied.
REPORT_SECONDS = 60.0


class UnsentKeys:
    """Comparisons find such an object again and again: it is news once, and again after it got through."""

    __slots__ = ("_known", "_report", "_reporting", "_waiting")

    def __init__(self, report: Report) -> None:
        self._report = report
        self._known: dict[str, None] = {}
        self._waiting: list[DeadLetter] = []
        self._reporting: asyncio.Task[None] | None = None

    def report(self, letter: DeadLetter) -> None:
        if letter.key in self._known:
            return
        self._known[letter.key] = None
        if len(self._known) > MAX_REMEMBERED:
            del self._known[next(iter(self._known))]
        log_dead_letter(letter)
        if len(self._waiting) < MAX_REMEMBERED:
            self._waiting.append(letter)
        if self._reporting is None:
            loop = asyncio.get_running_loop()
            self._reporting = loop.create_task(self._report_all(), name="reports unsent", context=Context())

    def got_through(self, event: Event) -> None:
        if self._known:
            self._known.pop(key_of(event), None)

    async def close(self) -> None:
        if self._reporting is not None:
            self._reporting.cancel()
            await asyncio.gather(self._reporting, return_exceptions=True)

    async def _report_all(self) -> None:
        try:
            while self._waiting:
                letter = self._waiting.pop(0)
                if not await is_reported(letter, self._report, within=REPORT_SECONDS):
                    self._known.pop(letter.key, None)  # the next time is another try
        finally:
            self._reporting = None
