"""One event of the stream between a principal and an agent, free of its encoding.

An event names what happened (`type`), to what sort of thing (`target`), and carries two ids: events with
the same `resource_id` are about one object and stay in order; `event_id` is one change of it, and the
same one twice is a duplicate. `envelopes` turns events into bytes and back.

The W3C trace context that an event brings is in the log lines about it and in the events that follow from it. None is
ever made here.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import orjson
import structlog

from argocd.agents.vocabulary import Message, Target
from tiphys import logs
from tiphys.errors import ObjectError

# Every Go agent names itself so, in both modes; a principal names itself not at all.
AGENT_SOURCE = "agent://agent-managed"

SENT_AT = "sentat"
PRINCIPAL_UID = "principaluid"
TRACE_PARENT = "traceparent"
TRACE_STATE = "tracestate"

# What an event occupies besides its payload: ids, attributes and the objects that hold them.
OVERHEAD_BYTES = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """`type` and `target` may be strings that this version does not know: the receiver decides.

    `extensions` holds every other extension attribute by its lower-case name (`sentat`, `principaluid`,
    `traceparent`, …); an acknowledgement sends them back.
    """

    type: str
    target: str
    resource_id: str
    event_id: str
    subject: str = ""
    payload: bytes = field(default=b"", repr=False)  # may hold a repository's password
    extensions: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    id: str = ""

    @property
    def cost(self) -> int:
        """Bytes of memory, near enough to bound a queue with."""
        return len(self.payload) + OVERHEAD_BYTES

    @property
    def is_acknowledgement(self) -> bool:
        return self.type == Message.PROCESSED

    @property
    def expects_acknowledgement(self) -> bool:
        """Acknowledgements and heartbeats are sent once and forgotten."""
        return not self.is_acknowledgement and self.target != Target.HEARTBEAT

    @property
    def principal_uid(self) -> str:
        return self.extensions.get(PRINCIPAL_UID, "")

    @property
    def sent_at(self) -> datetime | None:
        """When the sender first transmitted it, by the sender's clock."""
        try:
            moment = datetime.fromisoformat(self.extensions.get(SENT_AT, ""))
        except ValueError:
            return None
        return moment if moment.tzinfo else None

    def stamped(self, now: datetime, *, also: Mapping[str, str] | None = None) -> "Event":
        """With the time of its first transmission, and what else its sender wants to have echoed. A resend
        keeps it; an acknowledgement echoes it.
        """
        if not self.expects_acknowledgement or (SENT_AT in self.extensions and not also):
            return self
        moment = self.extensions.get(SENT_AT) or _moment(now)
        return self.extended({**(also or {}), SENT_AT: moment})

    def extended(self, more: Mapping[str, str]) -> "Event":
        """With more attributes."""
        return Event(  # for every event, and `dataclasses.replace` takes three times as long
            type=self.type,
            target=self.target,
            resource_id=self.resource_id,
            event_id=self.event_id,
            subject=self.subject,
            payload=self.payload,
            extensions={**self.extensions, **more},
            source=self.source,
            id=self.id,
        )


def _moment(now: datetime) -> str:
    """As Go writes it: without the zeros at a fraction's end."""
    text = now.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds")
    return text.rstrip("0").rstrip(".") + "Z"


def fresh_id() -> str:
    return str(uuid4())


def exact(payload: bytes) -> bytes:
    """Without the room that orjson leaves behind its bytes, 4 KiB of it: an event may wait for hours."""
    return memoryview(payload).tobytes()


def object_event(
    kind: Message,
    *,
    target: Target,
    obj: Mapping[str, Any],
    source: str = "",
    principal_uid: str = "",
    extensions: Mapping[str, str] | None = None,
) -> Event:
    """A change of a Kubernetes object. Its ids come from the object's own name, uid and version."""
    metadata = obj.get("metadata") or {}
    name, uid = str(metadata.get("name") or ""), str(metadata.get("uid") or "")
    version = str(metadata.get("resourceVersion") or "")
    try:
        payload = exact(orjson.dumps(obj))
    except orjson.JSONEncodeError as error:
        raise ObjectError(f"{target} {name!r} cannot be sent: it is not plain JSON ({error})") from error
    own = {PRINCIPAL_UID: principal_uid} if principal_uid else {}
    return Event(
        type=kind,
        target=target,
        resource_id=f"{name}_{uid}",
        event_id=f"{name}_{uid}_{version}",
        subject=f"{metadata.get('namespace') or ''}/{name}",
        payload=payload,
        extensions={**(extensions or {}), **own},
        source=source,
    )


def message_event(
    kind: str,
    *,
    target: str,
    payload: bytes = b"",
    source: str = "",
    event_id: str = "",
    new_id: Callable[[], str] = fresh_id,
) -> Event:
    """Anything that is no change of an object. An answer carries its request's id as `event_id`."""
    resource_id = new_id()
    return Event(
        type=kind,
        target=target,
        resource_id=resource_id,
        event_id=event_id or resource_id,
        payload=payload,
        source=source,
    )


def heartbeat(*, source: str = AGENT_SOURCE, new_id: Callable[[], str] = fresh_id) -> Event:
    return message_event(Message.PING, target=Target.HEARTBEAT, source=source, new_id=new_id)


def acknowledgement(event: Event, *, source: str = "") -> Event:
    """Says that `event` needs no resending: applied, or never going to be."""
    return Event(
        type=Message.PROCESSED,
        target=Target.EVENT_PROCESSED,
        resource_id=event.resource_id,
        event_id=event.event_id,
        extensions=event.extensions,
        source=source,
    )


# Version, trace id, parent id, flags. A later version may add more, which whoever understands it reads.
_TRACE_PARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-[!-~]{1,64})?"
)
_LONGEST_STATE = 512

_present: ContextVar[Mapping[str, str] | None] = ContextVar("trace", default=None)
_NONE: AbstractContextManager[None] = nullcontext()


def following_trace(event: Event) -> AbstractContextManager[None]:
    """Around dealing with the event."""
    trace = _trace_of(event) if TRACE_PARENT in event.extensions else None
    return _NONE if trace is None else within_trace(trace)


def carrying_trace(event: Event) -> Event:
    """With the trace of the event that is being dealt with, unless it has its own."""
    trace = _present.get()
    if trace is None or TRACE_PARENT in event.extensions:
        return event
    return event.extended(trace)


@contextmanager
def within_trace(trace: Mapping[str, str]) -> Iterator[None]:
    """What is logged and sent meanwhile belongs to it."""
    token = _present.set(trace)
    try:
        with structlog.contextvars.bound_contextvars(**{logs.TRACE_PARENT: trace[TRACE_PARENT]}):
            yield
    finally:
        _present.reset(token)


def _trace_of(event: Event) -> Mapping[str, str] | None:
    """None where it is not what the standard says: that is to be ignored, state and all."""
    parent, state = event.extensions[TRACE_PARENT], event.extensions.get(TRACE_STATE, "")
    if not _TRACE_PARENT.fullmatch(parent):
        return None
    if not state or len(state) > _LONGEST_STATE:
        return {TRACE_PARENT: parent}
    return {TRACE_PARENT: parent, TRACE_STATE: state}
