"""A dead letter is said in the log, and then reported where people look."""

import asyncio
from collections.abc import Awaitable, Callable

from sidecars.delivery.outcomes import DeadLetter
from tiphys import logs

log = logs.get_logger()

Bury = Callable[[DeadLetter], Awaitable[None]]
"""Reports a dead letter where people look, for example as a condition of the object."""


def say(letter: DeadLetter) -> None:
    outcome = {logs.REASON: letter.reason, logs.COUNT: letter.attempts, logs.ERROR: letter.message}
    log.warning("dead letter", **_fields(letter), **outcome)


async def is_buried(letter: DeadLetter, bury: Bury, *, within: float) -> bool:
    """Whether the report was made; an error of it is logged, for whatever comes next must not wait."""
    try:
        async with asyncio.timeout(within):
            await bury(letter)
    except Exception as error:  # noqa: BLE001 - the log line about the letter stands
        log.warning("dead letter not reported", **_fields(letter), **{logs.ERROR: logs.describe(error)})
        return False
    return True


def _fields(letter: DeadLetter) -> dict[str, str]:
    return {logs.PEER: letter.peer, logs.KEY: letter.key, logs.KIND: letter.event.type}
