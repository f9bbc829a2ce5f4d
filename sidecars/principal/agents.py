"""The agents that have logged in since this principal started, each with its link."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from argocd import names
from argocd.agents.index import AgentIndex
from argocd.agents.own_annotations import requests_on
from argocd.agents.routing import Mode
from argocd.reading import text, value
from kube.store import Object, version_number
from sidecars.mirroring.kinds import operation_digest
from sidecars.mirroring.link import Link
from sidecars.mirroring.resync_rounds import ResyncRound
from sidecars.wire.events import Event, EventType
from sidecars.wire.json_objects import read_object


class KnownAgent:
    """`met` once it has been told everything by this process."""

    __slots__ = (
        "_given",
        "_had",
        "_over",
        "_told",
        "link",
        "met",
        "mode",
        "name",
        "refused",
        "round",
        "settling",
        "silent",
        "unsure",
        "withheld",
    )

    def __init__(self, name: str, mode: Mode, make_link: Callable[["KnownAgent"], Link]) -> None:
        self.name = name
        self.mode = mode
        self.met = False
        self.settling = False
        """The first comparison is under way: the agent may not have yet what an operation is for."""
        self.refused: set[tuple[str, str]] = set()
        """Applications, by namespace and name, whose operation found no room in the queue."""
        self.unsure: set[tuple[str, str]] = set()
        """Those whose operation was there when this process began: the agent may have had it."""
        self.withheld: set[tuple[str, str]] = set()
        """Those of which the agent said that there is no operation, when it was not known to have had it."""
        self._had: dict[tuple[str, str], set[str]] = {}
        self._given: dict[tuple[str, str], tuple[str, int]] = {}
        self._over: dict[tuple[str, str], int] = {}
        self._told: dict[tuple[str, str], tuple[Any, Any, Any]] = {}
        self.round = ResyncRound()
        self.silent: set[tuple[str, str]] = set()
        """Applications of which it has told nothing since it was last asked about all of them."""
        self.link = make_link(self)

    # Operations that the agent is known to have had: only of those it can say that they are over.

    def gives(self, application: Mapping[str, Any]) -> bool:
        """Whether its operation is one that the agent was not given yet; from now on it was."""
        place, given = _place(application), (operation_digest(application), _version(application))
        if self._given.get(place, ("", 0))[0] == given[0]:
            return False
        if given[1] < self._over.get(place, 0):
            return False  # a watch shows the past: that one is over
        self._given[place] = given
        self._had.pop(place, None)  # the same one once more is a new one
        return True

    def found_no_room(self, application: Mapping[str, Any]) -> None:
        """It is given when there is some."""
        place = _place(application)
        self._given.pop(place, None)
        self.refused.add(place)

    def done(self, event: Event) -> bool:
        """Whether it should be asked how it stands now."""
        self.round.done(event)
        if event.type != EventType.SET_OPERATION:
            return False
        place = _subject(event)
        self._had.setdefault(place, set()).add(operation_digest(read_object(event.payload)))
        asks = place in self.withheld
        self.withheld.discard(place)
        return asks

    def operation_pending(self, hub: Object, *, namespace: str, name: str) -> bool:
        """Whether the hub's operation is one that the agent has not had: a status without it is older."""
        if value(hub, "operation") is None:
            return False
        pending = operation_digest(hub) not in self._had.get((namespace, name), ())
        if pending:
            self.withheld.add((namespace, name))
        return pending

    def operation_over(self, hub: Object) -> None:
        """The hub has none: the next one is a new one, even if it looks the same. A watch may show the past."""
        place = _place(hub)
        self._over[place] = max(_version(hub), self._over.get(place, 0))
        self.unsure.discard(place)
        if _version(hub) > self._given.get(place, ("", 0))[1]:
            self._given.pop(place, None)
            self._had.pop(place, None)

    # What the agent itself said of an Application's commands is no news to it.

    def says(self, application: Object, *, namespace: str, name: str) -> None:
        """Before it is written to the hub."""
        self._told[namespace, name] = _commands(application)
        self.silent.discard((namespace, name))
        if value(application, "operation") is not None:
            self._had.setdefault((namespace, name), set()).add(operation_digest(application))

    def knows(self, old: Object | None, new: Object | None) -> Object | None:
        """The old version with those commands of the new one that the agent told of."""
        if old is None or new is None:
            return old
        key = new["metadata"]["namespace"], new["metadata"]["name"]
        told = self._told.get(key)
        if _is_another_operation(old, new):
            old = {key: part for key, part in old.items() if key != "operation"}
        if told is None:
            return old
        operation, phase, *requests = (
            wanted if said == wanted else had
            for said, wanted, had in zip(told, _commands(new), _commands(old), strict=True)
        )
        return _with_commands(old, operation=operation, phase=phase, requests=requests)

    def forget(self, *, namespace: str, name: str) -> None:
        self._told.pop((namespace, name), None)
        self._had.pop((namespace, name), None)
        self._given.pop((namespace, name), None)
        self._over.pop((namespace, name), None)
        for places in (self.refused, self.silent, self.unsure, self.withheld):
            places.discard((namespace, name))


class KnownAgents:
    """Modes come from logins: an agent that has never been seen gets nothing yet, and all of it when it comes."""

    def __init__(self, index: AgentIndex, *, make_link: Callable[[KnownAgent], Link]) -> None:
        self._index = index
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
        agent = self._agents[name] = KnownAgent(name, mode, self._make_link)
        self._index.put(name, mode)
        return agent, known

    def drop(self, name: str) -> KnownAgent | None:
        self._index.drop(name)
        return self._agents.pop(name, None)


def _place(application: Mapping[str, Any]) -> tuple[str, str]:
    return application["metadata"]["namespace"], application["metadata"]["name"]


def _version(application: Mapping[str, Any]) -> int:
    return version_number(text(application, "metadata", "resourceVersion"))


def _subject(event: Event) -> tuple[str, str]:
    namespace, _, name = event.subject.partition("/")
    return namespace, name


def _is_another_operation(old: Object, new: Object) -> bool:
    """One was over and another given while the watch was away."""
    before, after = value(old, "operation"), value(new, "operation")
    return before is not None and after is not None and before != after


def _commands(application: Object) -> tuple[Any, ...]:
    requests = requests_on(application)
    return (
        value(application, "operation"),
        value(application, "status", "operationState", "phase"),
        *(requests.get(key) for key in names.REQUESTS),
    )


def _with_commands(application: Object, *, operation: Any, phase: Any, requests: Sequence[Any]) -> Object:
    status = value(application, "status") or {}
    state = {**(value(status, "operationState") or {}), "phase": phase}
    metadata = application["metadata"]
    annotations = {
        **(metadata.get("annotations") or {}),
        **dict(zip(names.REQUESTS, requests, strict=True)),
    }
    return {
        **application,
        "operation": operation,
        "status": {**status, "operationState": state},
        "metadata": {**metadata, "annotations": annotations},
    }
