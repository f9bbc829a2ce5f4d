"""The agents as the page lists them: facts of each, filters and order as the address says."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from urllib.parse import urlencode

from argocd.agents.vocabulary import Mode
from sidecars.principal.fleet_page.record import ConnectionRecord, FleetRecord, LastError
from sidecars.principal.fleet_page.tallies import HEALTH, SYNC, Tally
from sidecars.principal.principal import Principal

LONGEST_TERM = 253
"""Of what anybody may look for: no name is longer."""


class AgentPresence(StrEnum):
    CONNECTED = "connected"
    AWAY = "away"
    NEVER_SEEN = "never seen"
    """Since this principal started."""


NOT_CONNECTED = "not connected"
"""Away or never seen, as a filter."""
STATES = (*(each.value for each in AgentPresence), NOT_CONNECTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFacts:
    name: str
    mode: str
    state: AgentPresence
    version: str
    connection: ConnectionRecord | None
    queue: int
    lag_seconds: float
    tally: Tally
    stuck: int
    last_error: LastError | None


def agent_names(principal: Principal) -> list[str]:
    """Those whose cluster the hub's Argo CD knows."""
    return sorted(str(name) for name in principal.hub_state.clusters.terms("agent"))


def facts(principal: Principal, name: str) -> AgentFacts:
    record: FleetRecord = principal.record
    agent = principal.known_agents.get(name)
    queue, lag = 0, 0.0
    if agent is not None:
        figures = agent.link.outbox.figures()
        queue = figures.waiting + figures.under_way
        lag = figures.oldest_seconds if queue else 0.0
        state = AgentPresence.CONNECTED if agent.link.connected else AgentPresence.AWAY
        mode: Mode | None = agent.mode
    else:
        state, mode = AgentPresence.NEVER_SEEN, principal.hub_state.mode_of(name)
    return AgentFacts(
        name=name,
        mode=mode.value if mode else "",
        state=state,
        version=principal.hub_state.versions.get(name, ""),
        connection=record.connections.get(name),
        queue=queue,
        lag_seconds=lag,
        tally=record.tallies.of(name),
        stuck=record.stuck.count(name),
        last_error=record.last_errors.get(name),
    )


def _moment(found: datetime | None) -> float:
    return found.timestamp() if found else 0.0


_ORDERS: Mapping[str, Callable[[AgentFacts], object]] = {
    "name": lambda agent: agent.name,
    "state": lambda agent: (agent.state, agent.name),
    "version": lambda agent: (agent.version, agent.name),
    "since": lambda agent: _moment(agent.connection.since if agent.connection else None),
    "applications": lambda agent: agent.tally.applications,
    "degraded": lambda agent: agent.tally.health["Degraded"],
    "queue": lambda agent: agent.queue,
    "lag": lambda agent: agent.lag_seconds,
    "certificate": lambda agent: _moment(agent.connection.certificate_end if agent.connection else None),
    "error": lambda agent: _moment(agent.last_error.when if agent.last_error else None),
}
_STUCK = "yes"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What the address asks for; what it cannot mean is left out."""

    name: str = ""
    state: str = ""
    mode: str = ""
    health: str = ""
    sync: str = ""
    stuck: str = ""
    sort: str = "name"
    order: str = "asc"

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "View":
        def one_of(key: str, known: Iterable[str], default: str = "") -> str:
            given = query.get(key, "")
            return given if given in known else default

        return cls(
            name=query.get("name", "").strip()[:LONGEST_TERM],
            state=one_of("state", STATES),
            mode=one_of("mode", {each.value for each in Mode}),
            health=one_of("health", HEALTH),
            sync=one_of("sync", SYNC),
            stuck=one_of("stuck", {_STUCK}),
            sort=one_of("sort", _ORDERS, "name"),
            order=one_of("order", {"asc", "desc"}, "asc"),
        )

    @property
    def filters(self) -> dict[str, str]:
        kept = {
            "name": self.name,
            "state": self.state,
            "mode": self.mode,
            "health": self.health,
            "sync": self.sync,
            "stuck": self.stuck,
        }
        return {key: value for key, value in kept.items() if value}

    def shows(self, agent: AgentFacts) -> bool:
        return (
            self.name in agent.name
            and (not self.state or self._is_in_state(agent))
            and (not self.mode or agent.mode == self.mode)
            and (not self.health or agent.tally.health[self.health] > 0)
            and (not self.sync or agent.tally.sync[self.sync] > 0)
            and (not self.stuck or agent.stuck > 0)
        )

    def _is_in_state(self, agent: AgentFacts) -> bool:
        if self.state == NOT_CONNECTED:
            return agent.state is not AgentPresence.CONNECTED
        return agent.state == self.state

    def ordered(self, agents: Iterable[AgentFacts]) -> list[AgentFacts]:
        return sorted(agents, key=_ORDERS[self.sort], reverse=self.order == "desc")  # type: ignore[arg-type]

    def sorted_by(self, column: str) -> str:
        """The address of the same page in another order; the same column again turns it round."""
        turned = self.sort == column and self.order == "asc"
        return "?" + urlencode({**self.filters, "sort": column, "order": "desc" if turned else "asc"})

    def direction(self, column: str) -> str:
        """As aria-sort calls it; empty where the page is not in the column's order."""
        if self.sort != column:
            return ""
        return "ascending" if self.order == "asc" else "descending"
