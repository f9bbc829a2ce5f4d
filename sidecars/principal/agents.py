"""The agents that have logged in since this principal started, each with its link."""

from collections.abc import Callable, Iterable, Iterator

from argocd.agents.routing import AgentIndex
from argocd.agents.vocabulary import Mode
from sidecars.delivery.comparison_turns import ComparisonTurns
from sidecars.mirroring.link import Link
from sidecars.mirroring.resync_events import ResyncRound
from sidecars.principal.operations import Operations, Place
from sidecars.wire.proxy_payloads import ClusterCacheInfo

QUESTIONS = 1024
"""A minute, about objects that are not there: an agent may have what its principal has forgotten."""

REPORTS = 16
"""At once, then four a minute: the log and the metric have them all."""


class KnownAgent:
    __slots__ = (
        "_clock", "_met", "_silent", "cluster", "link", "lists", "mode", "name", "operations", "questions", "reports",
        "round",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        mode: Mode,
        make_link: Callable[["KnownAgent"], Link],
        *,
        clock: Callable[[], float],
    ) -> None:
        self.name = name
        self.mode = mode
        self.cluster = ClusterCacheInfo()
        """What its Argo CD counted, as it said last."""
        self.operations = Operations()
        self.round = ResyncRound()
        self._clock = clock
        self.lists = ComparisonTurns(clock)
        """Questions about everything, of an agent that does not compare."""
        self.questions = ComparisonTurns(clock, limit=QUESTIONS, seconds=60 / QUESTIONS)
        """Those about one object."""
        self.reports = ComparisonTurns(clock, limit=REPORTS)
        """Events of Kubernetes, in Argo CD's namespace, about what it told and nobody could write."""
        self._silent: set[Place] = set()
        self._met = False
        self.link = make_link(self)

    def meets(self) -> bool:
        """Whether this process has told it nothing yet; from now on it has."""
        first, self._met = not self._met, True
        return first

    # Rounds of questions with an agent that does not compare.

    def allow_questions(self, objects: int) -> None:
        """As many as there are objects that it may ask about, and some."""
        limit = QUESTIONS + objects
        self.questions = ComparisonTurns(self._clock, limit=limit, seconds=60 / limit)

    def begin_round(self, keys: Iterable[str]) -> None:
        """Of all that a managed agent should have."""
        self.round = ResyncRound(keys)

    def expect_word(self, places: Iterable[Place]) -> None:
        """It is asked about all of its Applications: until it tells of one, that is silent."""
        self._silent = set(places)

    def is_silent(self, place: Place) -> bool:
        return place in self._silent

    def spoke(self, place: Place) -> None:
        self._silent.discard(place)


class KnownAgents:
    """Modes come from logins: an agent that has never been seen gets nothing yet, and all of it when it comes."""

    def __init__(
        self,
        index: AgentIndex,
        *,
        make_link: Callable[[KnownAgent], Link],
        clock: Callable[[], float],
    ) -> None:
        self._index = index
        self._clock = clock
        self._make_link = make_link
        self._agents: dict[str, KnownAgent] = {}

    def __iter__(self) -> Iterator[KnownAgent]:
        return iter(list(self._agents.values()))

    def __len__(self) -> int:
        return len(self._agents)

    def get(self, name: str) -> KnownAgent | None:
        return self._agents.get(name)

    def join(self, name: str, mode: Mode) -> tuple[KnownAgent, KnownAgent | None]:
        """The agent, and the one that it was in another mode, whose link is to be closed."""
        known = self._agents.get(name)
        if known is not None and known.mode is mode:
            return known, None
        agent = self._agents[name] = KnownAgent(name, mode, self._make_link, clock=self._clock)
        self._index.put(name, mode)
        return agent, known

    def drop(self, name: str) -> KnownAgent | None:
        self._index.drop(name)
        return self._agents.pop(name, None)
