"""A change as spans: at its sender from the watch to the other end's word, at its receiver while it is applied."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from argocd.agents.vocabulary import OBJECT_TARGETS, PREFIX
from sidecars.wire.events import TRACE_PARENT, TRACE_STATE, Event, within_trace
from tiphys.tracing import OpenSpan, Tracing

OPEN = 1024
"""Of one peer; what is sent beyond that is not traced."""

SUPERSEDED = "superseded by a newer change"
NO_ROOM = "no room: left to a comparison"
CLOSED = "the connection's end"


class ChangeSpans:
    """Of one peer, where there is a `tracing`."""

    def __init__(self, tracing: Tracing, peer: str) -> None:
        self._tracing = tracing
        self._peer = peer
        self._open: dict[tuple[str, str], OpenSpan] = {}

    def begun(self, event: Event) -> Event:
        """An event that is about to be sent, with a span of its own in the trace that it belongs to."""
        if event.target not in OBJECT_TARGETS or len(self._open) >= OPEN:
            return event
        span = self._tracing.begin(
            f"tell {event.target}", parent=_carrier(event), attributes=self._attributes(event)
        )
        self.ended(event, error=SUPERSEDED)  # the same change again
        self._open[event.resource_id, event.event_id] = span
        return replace(event, extensions={**event.extensions, **span.carrier})

    def ended(self, event: Event, *, error: str = "") -> None:
        span = self._open.pop((event.resource_id, event.event_id), None)
        if span is not None:
            span.end(error=error)

    def close(self) -> None:
        for span in self._open.values():
            span.end(error=CLOSED)
        self._open.clear()

    @contextmanager
    def applying(self, event: Event) -> Iterator[None]:
        if event.target not in OBJECT_TARGETS:
            yield
            return
        span = self._tracing.begin(
            f"apply {event.target}", parent=_carrier(event), attributes=self._attributes(event)
        )
        error = ""
        try:
            with within_trace(span.carrier):
                yield
        except Exception as raised:
            error = type(raised).__name__  # its text may quote what it is about
            raise
        finally:
            span.end(error=error)

    def _attributes(self, event: Event) -> Mapping[str, str]:
        return {
            "tiphys.peer": self._peer,
            "tiphys.object": event.subject[:253],
            "tiphys.message": event.type.removeprefix(PREFIX),
            "tiphys.event_id": event.event_id[:128],
        }


def _carrier(event: Event) -> Mapping[str, str]:
    return {key: event.extensions[key] for key in (TRACE_PARENT, TRACE_STATE) if key in event.extensions}
