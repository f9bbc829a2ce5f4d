"""Whether a replica may be promoted: what speaks against it, with figures, for an operator to read."""

from dataclasses import dataclass

from sidecars.replication.control.fence import FenceReport
from sidecars.replication.control.start import PeerView
from sidecars.replication.record import HaRecord, HaRole
from sidecars.replication.standby.follower_progress import FollowerProgress
from sidecars.replication.states import HaState
from tiphys.errors import CallError, SurroundingsError


class RefusedRoleChangeError(CallError):
    """The state is unchanged."""


class UnknownOutcomeError(SurroundingsError):
    """It may have happened, or may happen yet: whoever asked looks at both sides before anything else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """An operator's: who gives it and why. `epoch` is the highest that he saw, which a force must name."""

    who: str
    why: str = ""
    force: bool = False
    epoch: int | None = None


def objections(
    record: HaRecord, progress: FollowerProgress, peer: PeerView | None, fence: FenceReport
) -> list[str]:
    """What a force overrides, and nothing but a force."""
    found = []
    if serves(peer, record):
        found.append(
            "still replicating from peer: it is reachable and active; `tiphys ha switchover` there loses nothing"
        )
    found += _behind(record, progress)
    if progress.held_deletions:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(progress.held_deletions.items()))
        found.append(f"deletions wait for `tiphys ha accept-deletions`: {kinds}")
    if not fence.stands:
        found.append(f"this cluster is not fenced: {fence.problem}")
    return found


def serves(peer: PeerView | None, record: HaRecord | None) -> bool:
    """Whether the peer is active. One of our own pair that turns us away says so too, over mutual TLS."""
    if peer is None or not peer.is_active:
        return False
    told = peer.handshake
    return not peer.problem or (told is not None and record is not None and told.pair == record.pair)


def check_standing(word: Word, *, record: HaRecord, progress: FollowerProgress) -> None:
    """Once more when nothing is written any more: a stream may have begun since the question was asked."""
    if not word.force and (found := _behind(record, progress)):
        raise RefusedRoleChangeError("; ".join(found))


def _behind(record: HaRecord, progress: FollowerProgress) -> list[str]:
    # Nobody has served since this one did: it has all there is. A peer of argocd-agent's serves under no epoch.
    if record.served_epoch > record.peer_epoch and not progress.follows_argocd_agent:
        return []
    if not progress.synced_once:
        missing = "an unknown number" if progress.missing < 0 else str(progress.missing)
        return [f"the first sync is not complete: {missing} of its objects are missing"]
    found = []
    if progress.seen > progress.applied:
        count = progress.seen - progress.applied
        found.append(f"{count} changes were seen and not applied: {figures(progress)}")
    if progress.dead_letters:
        found.append(f"{len(progress.dead_letters)} objects could not be written here: `tiphys ha status`")
    elif progress.left_over:
        found.append(
            "before it restarted not everything could be written here, and nothing was compared since"
        )
    differing = sorted(kind for kind, equal in progress.digests_equal.items() if not equal)
    if progress.follows_argocd_agent:
        found.append("the primary is argocd-agent's, with which nothing can be compared")
    elif differing:
        found.append(f"the last comparison found differences in {', '.join(differing)}")
    elif progress.compared_seconds is None:
        found.append("nothing was compared with the primary yet")
    elif not progress.is_equal:
        found.append("not every kind was compared with the primary yet")
    return found


def check_promotion(
    word: Word,
    *,
    state: HaState,
    record: HaRecord | None,
    progress: FollowerProgress,
    peer: PeerView | None,
    fence: FenceReport,
) -> None:
    """Raises RefusedRoleChangeError with all that speaks against it."""
    if state is HaState.ACTIVE:
        raise RefusedRoleChangeError("already active")
    interrupted = record is not None and record.role is HaRole.PROMOTING
    if record is None or (state is HaState.RECOVERING and not interrupted):
        raise RefusedRoleChangeError(
            "can only promote from replicating or disconnected, with force also from syncing; this one is"
            f" {state}: see `tiphys ha resume`"
        )
    if not record.pair and not progress.follows_argocd_agent:
        raise RefusedRoleChangeError(
            "this replica has never met its primary: there is nothing to promote; see `tiphys ha resume --bootstrap`"
        )
    found = objections(record, progress, peer, fence)
    if not word.force:
        if found:
            raise RefusedRoleChangeError("; ".join(found))
        return
    if not word.why.strip():
        raise RefusedRoleChangeError("--force needs --reason: it is kept in the audit trail")
    if word.epoch != record.highest_epoch:
        raise RefusedRoleChangeError(
            f"--force needs --epoch {record.highest_epoch}, the highest that was seen here; given was"
            f" {word.epoch if word.epoch is not None else 'none'}: look at `tiphys ha status` again"
        )


def figures(progress: FollowerProgress) -> str:
    age = progress.compared_seconds
    compared = "never compared" if age is None else f"compared {age:.0f} s ago"
    return f"applied {progress.applied} of {progress.seen} in history {progress.history or '-'}, {compared}"
