"""Applications by health and sync, of each agent and of all: counted as they change, never by a walk over them."""

from collections import Counter
from collections.abc import Callable, Iterable
from sys import intern

from argocd.reading import text
from kube.store import Object

UNKNOWN = "Unknown"
HEALTH = ("Healthy", "Progressing", "Degraded", "Suspended", "Missing", UNKNOWN)
SYNC = ("Synced", "OutOfSync", UNKNOWN)


class Tally:
    """`health` and `sync` by Argo CD's own words; another word counts as Unknown."""

    __slots__ = ("applications", "health", "sync")

    def __init__(self) -> None:
        self.applications = 0
        self.health: Counter[str] = Counter()
        self.sync: Counter[str] = Counter()

    def add(self, health: str, sync: str, number: int) -> None:
        self.applications += number
        self.health[health] += number
        self.sync[sync] += number

    @property
    def by_health(self) -> tuple[tuple[str, int], ...]:
        return tuple([(word, self.health[word]) for word in HEALTH])

    @property
    def by_sync(self) -> tuple[tuple[str, int], ...]:
        return tuple([(word, self.sync[word]) for word in SYNC])


NOTHING = Tally()
_Place = tuple[str, str]


class ApplicationTallies:
    """Knows of each Application only where it is counted, so that a change can be taken back."""

    def __init__(self, agent_of: Callable[[Object], str]) -> None:
        """`agent_of` is empty for an Application that belongs to none."""
        self._agent_of = agent_of
        self._counted: dict[_Place, tuple[str, str, str]] = {}
        self._agents: dict[str, Tally] = {}
        self.total = Tally()

    def of(self, agent: str) -> Tally:
        return self._agents.get(agent, NOTHING)

    def changed(self, old: Object | None, new: Object | None) -> set[str]:
        """The agents whose tally is another now."""
        item = new if new is not None else old
        place = text(item, "metadata", "namespace"), text(item, "metadata", "name")
        before = self._counted.get(place)
        after = self._counts(new)
        if before == after:
            return set()
        if before is not None:
            self._add(before, -1)
            del self._counted[place]
        if after is not None:
            self._add(after, 1)
            self._counted[place] = after
        return {each[0] for each in (before, after) if each is not None}

    def count_again(self, applications: Iterable[Object]) -> None:
        """An agent has another mode now: what belongs to it may be another."""
        for application in applications:
            self.changed(application, application)

    def _counts(self, application: Object | None) -> tuple[str, str, str] | None:
        agent = self._agent_of(application) if application is not None else ""
        if not agent:
            return None
        health = text(application, "status", "health", "status")
        sync = text(application, "status", "sync", "status")
        return (
            intern(agent),
            intern(health) if health in HEALTH else UNKNOWN,
            intern(sync) if sync in SYNC else UNKNOWN,
        )

    def _add(self, counted: tuple[str, str, str], number: int) -> None:
        agent, health, sync = counted
        tally = self._agents.setdefault(agent, Tally())
        tally.add(health, sync, number)
        if not tally.applications:
            del self._agents[agent]
        self.total.add(health, sync, number)
