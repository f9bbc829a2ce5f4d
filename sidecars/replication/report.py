"""What a principal tells its peer besides the handshake: kept in memory, shown to people, and deciding nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from argocd.reading import mapping, sequence, text, value
from sidecars.replication.kinds import BY_NAME

MAX_BYTES = 128 << 10
AGENT_LINES = 100
"""Agents that are named; the count tells the rest."""
_MAX_NUMBER = 1 << 63


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectedAgent:
    name: str
    mode: str
    since: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerReport:
    detail: str = ""
    sequence: int = 0
    """Of its log, or what it has written of its primary's."""
    lag_events: int = 0
    """Changes that it knows of and has not written, or that its replica has not."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """By kind."""
    connected_agents: int = 0
    agents: Sequence[ConnectedAgent] = ()

    def encoded(self) -> bytes:
        return orjson.dumps(self)

    @classmethod
    def read(cls, raw: bytes) -> "PeerReport | None":
        """None where nothing is told, or nothing that can be read."""
        try:
            told = orjson.loads(raw) if 0 < len(raw) <= MAX_BYTES else None
        except orjson.JSONDecodeError:
            return None
        if not isinstance(told, dict):
            return None
        digests = mapping(told, "digests")
        return cls(
            detail=text(told, "detail"),
            sequence=_number(told, "sequence"),
            lag_events=_number(told, "lag_events"),
            digests={kind: text(digests, kind) for kind in BY_NAME if kind in digests},
            connected_agents=_number(told, "connected_agents"),
            agents=[
                ConnectedAgent(name=text(each, "name"), mode=text(each, "mode"), since=text(each, "since"))
                for each in sequence(told, "agents")[:AGENT_LINES]
            ],
        )


def _number(told: Mapping[str, Any], key: str) -> int:
    found = value(told, key)
    return found if type(found) is int and 0 <= found < _MAX_NUMBER else 0
