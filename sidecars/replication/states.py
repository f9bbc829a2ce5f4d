"""The five states of a principal of a pair, as argocd-agent names them, and how one follows another."""

from enum import StrEnum


class HaState(StrEnum):
    RECOVERING = "recovering"
    """Finding out what to be."""
    SYNCING = "syncing"
    """A replica before the end of its first sync."""
    REPLICATING = "replicating"
    DISCONNECTED = "disconnected"
    """A replica that has synced once and has no stream now."""
    ACTIVE = "active"

    @property
    def serves(self) -> bool:
        """Agents, replicas, and the health check by which traffic is steered."""
        return self is HaState.ACTIVE


class StateDetail(StrEnum):
    """What argocd-agent has no state for; on the wire it stays one of the five."""

    NONE = ""
    WAITING = "waiting"
    """For an operator's word, or for a peer."""
    PROMOTING = "promoting"
    DEMOTING = "demoting"
    DIVERGED = "diverged"
    """It has served under an epoch that another has passed: until a comparison is equal it may have a surplus."""


_NEXT: dict[HaState, frozenset[HaState]] = {
    HaState.RECOVERING: frozenset(
        {HaState.ACTIVE, HaState.SYNCING, HaState.REPLICATING, HaState.DISCONNECTED}
    ),
    # With force: argocd-agent knows no way out for a replica whose primary died during the first sync.
    HaState.SYNCING: frozenset({HaState.REPLICATING, HaState.ACTIVE}),
    HaState.REPLICATING: frozenset({HaState.DISCONNECTED, HaState.ACTIVE}),
    HaState.DISCONNECTED: frozenset({HaState.REPLICATING, HaState.ACTIVE}),
    # Not replicating, as argocd-agent has it: nothing is replicated before there is a stream.
    HaState.ACTIVE: frozenset({HaState.DISCONNECTED}),
}


def is_allowed(old: HaState, new: HaState) -> bool:
    """Staying is no transition, and always allowed."""
    return new is old or new in _NEXT[old]
