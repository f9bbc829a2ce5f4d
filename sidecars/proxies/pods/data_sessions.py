"""What somebody at the control plane has open at an agent, until that agent's call comes for it."""

from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

from sidecars.proxies.requests import RequestLimitError


class DataSession(Protocol):
    """One log or terminal, of one agent."""

    @property
    def uuid(self) -> str: ...

    @property
    def agent(self) -> str: ...


S = TypeVar("S", bound=DataSession)


class DataSessions(Generic[S]):
    def __init__(self, *, per_agent: int, what: str) -> None:
        self._per_agent = per_agent
        self._what = what
        self._open: dict[str, S] = {}
        self._count: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, session: S) -> None:
        held = self._count.get(session.agent, 0)
        if held >= self._per_agent:
            raise RequestLimitError(f"{held} {self._what} of agent {session.agent} are open: close some")
        self._open[session.uuid] = session
        self._count[session.agent] = held + 1

    def remove(self, session: S) -> None:
        del self._open[session.uuid]
        self._count[session.agent] -= 1
        if not self._count[session.agent]:
            del self._count[session.agent]

    def of(self, agent: str) -> Iterator[S]:
        """The oldest first."""
        return (session for session in self._open.values() if session.agent == agent)

    def find(self, uuid: str, *, agent: str) -> S | None:
        """Another agent's is as good as none."""
        found = self._open.get(uuid)
        return found if found is not None and found.agent == agent else None
