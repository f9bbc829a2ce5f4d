"""What became of an event: applied, to be tried again, or never to be applied. Such a dead letter is said in the
log, and then reported where people look.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum, StrEnum, auto

from argocd.agents.vocabulary import Target
from kube.errors import (
    ApiError,
    BadRequestError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    without_values,
)
from sidecars.wire.events import Event
from tiphys import logs
from tiphys.errors import CallError, ObjectError, SurroundingsError

log = logs.get_logger()


class DeliveryVerdict(Enum):
    RETRY = auto()
    REJECT = auto()
    CRASH = auto()  # no error that we know of: a mistake of ours


class DeadLetterReason(StrEnum):
    """Why an event became a dead letter: the same word in metric, log and condition."""

    REJECTED = "rejected"
    EXHAUSTED = "exhausted"
    """Nothing was wrong with it, only with the API server, for too long: compare when that is well again."""
    CRASHED = "crashed"
    UNSENDABLE = "unsendable"
    """It never left: more than a message may hold."""


# An API server that says this of an object will say it again; so does our own judgement of an object.
# Forbidden is what admission says, too; where it was a missing permission, comparison repairs later.
_FOR_GOOD = (InvalidError, BadRequestError, NotFoundError, ForbiddenError, ObjectError, CallError)
_PASSING = (ApiError, SurroundingsError, TimeoutError, OSError)
_QUOTA = "exceeded quota"  # in a Forbidden: others may make room


def judge(error: Exception) -> DeliveryVerdict:
    """Whether it is worth trying again. The order matters: the refusals are API errors too."""
    if isinstance(error, ForbiddenError) and _QUOTA in str(error):
        return DeliveryVerdict.RETRY
    if isinstance(error, _FOR_GOOD):
        return DeliveryVerdict.REJECT
    if isinstance(error, _PASSING):
        return DeliveryVerdict.RETRY
    return DeliveryVerdict.CRASH


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """An event that is given up without being applied: whoever gets this says so where people look."""

    peer: str
    key: str
    event: Event
    reason: DeadLetterReason
    error: Exception
    attempts: int

    @property
    def message(self) -> str:
        """One line, for those who may see the object. What an API server says of a repository may quote its
        credentials: only fields and the kind of error are told then.
        """
        if self._hides:
            return without_values(self.error, whole=False)
        return str(self.error) or type(self.error).__name__

    @property
    def log_message(self) -> str:
        """For whoever reads logs, and may not see the object."""
        return without_values(self.error, whole=not self._hides)

    @property
    def _hides(self) -> bool:
        return self.event.target == Target.REPOSITORY and self.reason is not DeadLetterReason.UNSENDABLE


Report = Callable[[DeadLetter], Awaitable[None]]
"""Reports a dead letter where people look, for example as a condition of the object."""


def log_dead_letter(letter: DeadLetter) -> None:
    outcome = {logs.REASON: letter.reason, logs.COUNT: letter.attempts, logs.ERROR: letter.log_message}
    log.warning("dead letter", **_fields(letter), **outcome)


async def is_reported(letter: DeadLetter, report: Report, *, within: float) -> bool:
    """Whether the report was made; an error of it is logged, for whatever comes next must not wait."""
    try:
        async with asyncio.timeout(within):
            await report(letter)
    except Exception as error:  # noqa: BLE001 - the log line about the letter stands
        log.warning("dead letter not reported", **_fields(letter), **{logs.ERROR: logs.describe(error)})
        return False
    return True


def _fields(letter: DeadLetter) -> dict[str, str]:
    return {logs.PEER: letter.peer, logs.KEY: letter.key, logs.KIND: letter.event.type}
