"""W3C trace context that an event brings: it is in the log lines about that event and in the events that follow
from it. None is ever made here.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import replace

import structlog

from sidecars.wire.events import TRACE_PARENT, TRACE_STATE, Event
from tiphys import logs

# Version, trace id, parent id, flags. A later version may add more, which whoever understands it reads.
_PARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-[!-~]{1,64})?"
)
_LONGEST_STATE = 512

_present: ContextVar[Mapping[str, str] | None] = ContextVar("trace", default=None)
_NONE: AbstractContextManager[None] = nullcontext()


def following(event: Event) -> AbstractContextManager[None]:
    """While the event is dealt with."""
    trace = _trace_of(event) if TRACE_PARENT in event.extensions else None
    return _NONE if trace is None else _following(trace)


def carried(event: Event) -> Event:
    """With the trace of the event that is being dealt with, unless it has its own."""
    trace = _present.get()
    if trace is None or TRACE_PARENT in event.extensions:
        return event
    return replace(event, extensions={**event.extensions, **trace})


@contextmanager
def _following(trace: Mapping[str, str]) -> Iterator[None]:
    token = _present.set(trace)
    try:
        with structlog.contextvars.bound_contextvars(**{logs.TRACE_PARENT: trace[TRACE_PARENT]}):
            yield
    finally:
        _present.reset(token)


def _trace_of(event: Event) -> Mapping[str, str] | None:
    """None where it is not what the standard says: that is to be ignored, state and all."""
    parent, state = event.extensions[TRACE_PARENT], event.extensions.get(TRACE_STATE, "")
    if not _PARENT.fullmatch(parent):
        return None
    if not state or len(state) > _LONGEST_STATE:
        return {TRACE_PARENT: parent}
    return {TRACE_PARENT: parent, TRACE_STATE: state}
