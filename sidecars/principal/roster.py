"""The agents that have logged in since this principal started, each with its link."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from argocd import names
from argocd.agent_index import AgentIndex
from argocd.reading import value
from argocd.routing import Mode
from kube.store import Object
from sidecars.delivery.lanes import key_of
from sidecars.linking import Link
from sidecars.wire.events import Event, EventType


class Agent:
    """`met` once it has been told everything by this process."""

    __slots__ = ("_operations", "_told", "link", "met", "mode", "name", "refused", "unsure")

    def __init__(self, name: str, mode: Mode, make_link: Callable[["Agent"], Link]) -> None:
        self.name = name
        self.mode = mode
        self.met = False
        self.refused: set[tuple[str, str]] = set()
        """Applications, by namespace and name, whose operation found no room in the queue."""
        self.unsure: set[tuple[str, str]] = set()
        """Those whose operation was there when this process began: the agent may have had it."""
        self._operations: Counter[str] = Counter()
        self._told: dict[tuple[str, str], tuple[Any, Any, Any]] = {}
        self.link = make_link(self)

    # Operations on their way: a status that knows nothing of one is older than it.

    def send(self, event: Event) -> bool:
        accepted = self.link.send(event)
        if accepted and event.type == EventType.SET_OPERATION:
            self._operations[key_of(event)] += 1
        return accepted

    def done(self, event: Event) -> None:
        if event.type == EventType.SET_OPERATION:
            key = key_of(event)
            self._operations[key] -= 1
            if self._operations[key] <= 0:
                del self._operations[key]

    def operation_pending(self, *, namespace: str, name: str) -> bool:
        place = (namespace, name)
        on_its_way = f"application/{namespace}/{name}" in self._operations
        return on_its_way or place in self.refused or place in self.unsure

    # What the agent itself said of an Application's commands is no news to it.

    def says(self, application: Object, *, namespace: str, name: str) -> None:
        """Before it is written to the hub."""
        self._told[namespace, name] = _commands(application)

    def knows(self, old: Object | None, new: Object | None) -> Object | None:
        """The old version with those commands of the new one that the agent told of."""
        if old is None or new is None:
            return old
        key = new["metadata"]["namespace"], new["metadata"]["name"]
        told = self._told.get(key)
        if told is None:
            return old
        operation, phase, refresh = (
            wanted if said == wanted else had
            for said, wanted, had in zip(told, _commands(new), _commands(old), strict=True)
        )
        return _with_commands(old, operation=operation, phase=phase, refresh=refresh)

    def forget(self, *, namespace: str, name: str) -> None:
        self._told.pop((namespace, name), None)
        self.refused.discard((namespace, name))
        self.unsure.discard((namespace, name))


class Roster:
    """Modes come from logins: an agent that has never been seen gets nothing yet, and all of it when it comes."""

    def __init__(self, index: AgentIndex, *, make_link: Callable[[Agent], Link]) -> None:
        self._index = index
        self._make_link = make_link
        self._agents: dict[str, Agent] = {}

    def __iter__(self) -> Iterator[Agent]:
        return iter(list(self._agents.values()))

    def __len__(self) -> int:
        return len(self._agents)

    def get(self, name: str) -> Agent | None:
        return self._agents.get(name)

    def join(self, name: str, mode: Mode) -> tuple[Agent, Agent | None]:
        """The agent, and the one that it was in another mode, whose link is to be closed."""
        known = self._agents.get(name)
        if known is not None and known.mode is mode:
            return known, None
        agent = self._agents[name] = Agent(name, mode, self._make_link)
        self._index.put(name, mode)
        return agent, known

    def drop(self, name: str) -> Agent | None:
        self._index.drop(name)
        return self._agents.pop(name, None)


def _commands(application: Object) -> tuple[Any, Any, Any]:
    return (
        value(application, "operation"),
        value(application, "status", "operationState", "phase"),
        value(application, "metadata", "annotations", names.REFRESH),
    )


def _with_commands(application: Object, *, operation: Any, phase: Any, refresh: Any) -> Object:
    status = value(application, "status") or {}
    state = {**(value(status, "operationState") or {}), "phase": phase}
    metadata = application["metadata"]
    annotations = {**(metadata.get("annotations") or {}), names.REFRESH: refresh}
    return {
        **application,
        "operation": operation,
        "status": {**status, "operationState": state},
        "metadata": {**metadata, "annotations": annotations},
    }
