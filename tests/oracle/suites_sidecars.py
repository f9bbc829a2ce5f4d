"""What the sidecars do with events, asked by cases with known answers."""

import asyncio
from collections.abc import Callable
from typing import Any

from argocd.agents.vocabulary import PREFIX, Target
from sidecars.delivery.lanes import compact
from sidecars.wire.auth.methods import CallCredentials, HeaderMethod, IdentityError, NamePattern
from sidecars.wire.events import Event


def writer_dedupe(given: dict[str, Any]) -> list[list[str]]:
    queue = [
        Event(type=PREFIX + kind, target=Target.APPLICATION, resource_id="guestbook_1", event_id=event_id)
        for kind, event_id in given["queue"]
    ]
    return [[event.type.removeprefix(PREFIX), event.event_id] for event in compact(queue)]


def header_auth(given: dict[str, Any]) -> str | dict[str, str]:
    """On the wire names of headers are lower case."""
    method = HeaderMethod(given["header"], NamePattern(given["regex"]))
    sent_as = str(given.get("sent_as") or given["header"]).lower()
    value = given.get("value")
    metadata = {} if value is None else {sent_as: [value]}
    try:
        return asyncio.run(method.identify(CallCredentials(metadata=metadata)))
    except IdentityError as error:
        return {"error": error.refusal.value}


ANSWERS: dict[str, Callable[[Any], Any]] = {"header_auth": header_auth, "writer_dedupe": writer_dedupe}
