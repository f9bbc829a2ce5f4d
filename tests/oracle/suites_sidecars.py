"""What the sidecars do with events, asked by cases with known answers."""

import asyncio
import re
from collections.abc import Callable
from typing import Any

from argocd.agents.routing import AgentMapping
from argocd.agents.vocabulary import PREFIX, Target
from sidecars.delivery.lanes import compact
from sidecars.proxies.redis import keys
from sidecars.proxies.redis.keys import KeyRefusedError
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


def redis_agent_from_key(given: dict[str, Any]) -> str | dict[str, bool]:
    """`lookup` is what destination mapping knows of Applications, in words."""
    known = re.search(r"^\(?(.+?)\)? -> (\S+)$", given.get("lookup") or "")

    def agent_of(namespace: str, name: str) -> str:
        if known is None:
            return ""
        place = re.sub(r"[,/]\s*", "/", known[1])
        return known[2] if place in {"any", f"{namespace}/{name}"} else ""

    try:
        parsed = keys.parse(given["key"])
    except KeyRefusedError:
        return {"error": True}
    if parsed is None:
        return ""
    return keys.agent_of(
        parsed,
        own_namespace=given.get("principalNs") or "",
        mapped_by=AgentMapping.DESTINATION if known else AgentMapping.NAMESPACE,
        agent_of_application=agent_of,
    )


def redis_strip_namespace(given: dict[str, Any]) -> str | dict[str, bool]:
    try:
        own = keys.at_agent(given["key"], mapped_by=AgentMapping.NAMESPACE)
    except KeyRefusedError:
        return {"error": True}
    return "same" if own == given["key"] else own


ANSWERS: dict[str, Callable[[Any], Any]] = {
    "header_auth": header_auth,
    "redis_agent_from_key": redis_agent_from_key,
    "redis_strip_namespace": redis_strip_namespace,
    "writer_dedupe": writer_dedupe,
}
