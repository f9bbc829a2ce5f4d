"""What a controller starts and stops. The real ones, and those of a simulation, look like this."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sidecars.replication.primary.source import ReplicaStatus
from sidecars.replication.report import ConnectedAgent
from sidecars.replication.standby.follower_progress import FollowerProgress


class ActivePart(Protocol):
    """Agents, served."""

    async def start(self, *, epoch: int, pair: str, promoted: bool) -> None:
        """`promoted`: agents know another principal, and may have what this one has never heard of."""
        ...

    async def stop(self, *, reason: str) -> None:
        """Nothing more is taken, what was taken is written, streams end, everything is forgotten."""
        ...

    @property
    def connected(self) -> int: ...

    def agents(self) -> Sequence[ConnectedAgent]:
        """Those that are connected, by name."""
        ...

    def held(self) -> "Sequence[HeldObject]": ...

    def met(self) -> Sequence[str]:
        """Agents that have come since, and had the time to show what they have; none before all that are known have."""
        ...

    def release(self, agent: str) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldObject:
    """An agent has it and this principal does not know it: nothing is said about it until somebody decides."""

    agent: str
    kind: str
    namespace: str
    name: str


class SourcePart(Protocol):
    """The log that replicas read."""

    async def start(self, *, epoch: int, history: str) -> None: ...

    async def stop(self) -> None: ...

    def current_log(self) -> Any:
        """None where it is not started."""
        ...

    @property
    def last_sequence(self) -> int: ...

    def replicas(self) -> Sequence[ReplicaStatus]: ...

    def digests(self) -> Mapping[str, str]: ...

    async def reached(self, identity: str) -> None:
        """Returns when that replica has what is the last now, and a comparison said so; bound it."""
        ...


class ReplicaPart(Protocol):
    """The copy that follows the active one."""

    async def load(self) -> None: ...

    async def start(self, *, may_have_surplus: bool = False) -> None:
        """`may_have_surplus`: it has written what its primary may not know."""
        ...

    async def stop(self) -> None:
        """Returns when every write in flight has ended."""
        ...

    def progress(self) -> FollowerProgress: ...

    def accept_deletions(self, kind: str) -> int: ...

    async def adopt(self) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PrincipalFacts:
    """Where a principal stands; two of a pair stand alike."""

    principal: str
    namespace: str
    mapping: str
    allowed_namespaces: tuple[str, ...] = ()
    authorities: tuple[str, ...] = field(default=())
    peer_address: str = ""
