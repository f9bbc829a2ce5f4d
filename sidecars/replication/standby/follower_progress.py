"""How following goes, in figures: for an operator, and for whoever decides on a promotion."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sidecars.replication.kinds import BY_NAME
from sidecars.replication.standby.dead_letters import UnwrittenObject
from sidecars.replication.standby.go_primary import HISTORY as GO_HISTORY
from sidecars.replication.standby.surplus import SurplusObject


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerProgress:
    history: str
    seen: int
    """The highest sequence that the primary has told of."""
    applied: int
    """Everything up to here is written, or a dead letter."""
    synced_once: bool
    """Kept in the cluster: what makes a restarted replica promotable."""
    connected: bool
    digests_equal: Mapping[str, bool] = field(default_factory=dict)
    """Of the last comparison, which is kept in the cluster too."""
    compared_at: datetime | None = None
    compared_seconds: float | None = None
    held_deletions: Mapping[str, int] = field(default_factory=dict)
    dead_letters: Sequence[UnwrittenObject] = ()
    left_over: bool = False
    """The process before this one had dead letters or deletions that waited: a comparison finds them again."""
    missing: int = 0
    """Of a first sync: objects that the primary has and this standby has not; -1 before it has told."""
    expected: int = 0
    """Of a first sync: all objects that the primary has; 0 before it has told."""
    may_have_surplus: bool = False
    """It has served, and no comparison with a primary was equal since."""
    surplus: Sequence[SurplusObject] = ()
    """The last that were deleted because the primary does not have them, or replaced after this one had served."""
    surplus_count: int = 0
    problem: str = ""
    """Why there is no stream."""

    @property
    def follows_argocd_agent(self) -> bool:
        """The last primary was argocd-agent's, which has no pair, no epoch and nothing to compare with."""
        return self.history.startswith(GO_HISTORY)

    @property
    def is_equal(self) -> bool:
        """Every kind was compared, and nothing differed."""
        return all(self.digests_equal.get(kind) is True for kind in BY_NAME)

    @property
    def is_complete(self) -> bool:
        """Whether everything that was seen is written and the last comparison was equal."""
        return (
            self.synced_once
            and self.applied >= self.seen
            and not self.held_deletions
            and not self.dead_letters
            and not self.left_over
            and self.is_equal
        )
