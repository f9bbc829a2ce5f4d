"""What the sidecars do with events, asked by cases with known answers."""

from collections.abc import Callable
from typing import Any

from sidecars.delivery.lanes import compact
from sidecars.wire.events import PREFIX, Event, Target


def writer_dedupe(given: dict[str, Any]) -> list[list[str]]:
    queue = [
        Event(type=PREFIX + kind, target=Target.APPLICATION, resource_id="guestbook_1", event_id=event_id)
        for kind, event_id in given["queue"]
    ]
    return [[event.type.removeprefix(PREFIX), event.event_id] for event in compact(queue)]


ANSWERS: dict[str, Callable[[Any], Any]] = {"writer_dedupe": writer_dedupe}
