"""How a principal's agents are doing: told by the principal as a page, read by the operator's commands."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from argocd.reading import sequence, text, value
from sidecars.principal.agents import KnownAgents
from sidecars.principal.fleet_page.regions import RegionFacts
from tiphys.http_server import HttpPage

PATH = "/agents"
VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStatus:
    """`lag_seconds` is the age of the oldest thing that the agent has not acknowledged."""

    name: str
    mode: str
    connected: bool
    queue: int
    queue_bytes: int
    lag_seconds: float


def statuses(known_agents: KnownAgents) -> Iterable[AgentStatus]:
    """Walks over the queues: for a person's question, not for a probe."""
    for agent in known_agents:
        figures = agent.link.outbox.figures()
        queue = figures.waiting + figures.under_way
        yield AgentStatus(
            name=agent.name,
            mode=agent.mode.value,
            connected=agent.link.connected,
            queue=queue,
            queue_bytes=figures.bytes,
            lag_seconds=round(figures.oldest_seconds, 3) if queue else 0.0,
        )


def page(known_agents: KnownAgents | None, *, regions: Sequence[RegionFacts] = ()) -> HttpPage:
    """For operators: names and how they are doing are nothing that everybody need know. None: a standby has no agents."""
    body = {
        "version": VERSION,
        "agents": [] if known_agents is None else [asdict(each) for each in statuses(known_agents)],
        **({"regions": [asdict(each) for each in regions]} if regions else {}),
    }
    return HttpPage(json.dumps(body).encode(), content_type="application/json")


def read(told: Any) -> dict[str, AgentStatus]:
    """By name; a principal of another version may tell more or less."""
    found: dict[str, AgentStatus] = {}
    for each in sequence(told, "agents"):
        name = text(each, "name")
        if name:
            found[name] = AgentStatus(
                name=name,
                mode=text(each, "mode"),
                connected=value(each, "connected") is True,
                queue=_number(each, "queue"),
                queue_bytes=_number(each, "queue_bytes"),
                lag_seconds=float(_number(each, "lag_seconds")),
            )
    return found


def read_regions(told: Any) -> tuple[RegionFacts, ...]:
    """Empty where the principal is not one of a pair."""
    return tuple(
        RegionFacts(
            name=text(each, "name"),
            ours=value(each, "ours") is True,
            state=text(each, "state"),
            detail=text(each, "detail"),
            epoch=_number(each, "epoch"),
            lag=text(each, "lag"),
        )
        for each in sequence(told, "regions")
    )


def _number(source: Mapping[str, Any], key: str) -> Any:
    found = value(source, key)
    return found if isinstance(found, int | float) and not isinstance(found, bool) else 0
