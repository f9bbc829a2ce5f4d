"""What a principal becomes when it starts: a decision on its record and on its peer's word, and nothing else."""

from dataclasses import dataclass
from enum import StrEnum

from sidecars.replication.control.settings import HaSettings, PreferredRole, RestartPolicy
from sidecars.replication.handshake import Handshake
from sidecars.replication.record import HaRecord, HaRole
from sidecars.replication.states import HaState


class Start(StrEnum):
    BOOTSTRAP = "bootstrap"
    """The first active one of a new pair."""
    ACTIVE = "active"
    STANDBY = "standby"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Decision:
    start: Start
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerView:
    """The peer as it answered just now. A peer of argocd-agent's has no handshake but, with luck, a state."""

    problem: str = ""
    """Why it is not known; empty where it answered."""
    handshake: Handshake | None = None
    plain_state: str = ""
    differences: tuple[str, ...] = ()

    @property
    def is_active(self) -> bool:
        state = self.handshake.state if self.handshake is not None else self.plain_state
        return state == HaState.ACTIVE


def decide(
    record: HaRecord | None,
    settings: HaSettings,
    peer: PeerView | None,
    *,
    principal: str,
    handed_over: bool,
    waits_when_interrupted: bool = True,
) -> Decision:
    """`peer` is None where none is configured. `handed_over`: another replica of this principal was seen at work
    less than a lease ago.
    """
    if record is None:
        return _first(settings, peer, principal=principal)
    if record.gave_no_token:
        # Not by what another replica did a moment ago: an operator may have promoted the peer, who saw a standby here.
        return _again(record, settings, peer, handed_over=False)
    if record.role is HaRole.STANDBY:
        return Decision(Start.STANDBY, "the record says standby")
    if record.role is HaRole.PROMOTING and waits_when_interrupted:
        return Decision(
            Start.WAIT,
            f"a promotion to epoch {record.epoch} was interrupted: `tiphys ha promote` finishes it,"
            " `tiphys ha demote` takes it back",
        )
    return _again(record, settings, peer, handed_over=handed_over)


def _first(settings: HaSettings, peer: PeerView | None, *, principal: str) -> Decision:
    if settings.preferred_role is PreferredRole.REPLICA:
        return Decision(Start.STANDBY, "first start as a replica")
    if peer is None:
        return Decision(Start.BOOTSTRAP, "first start, without a peer")
    if peer.problem or peer.differences:
        words = peer.problem or "; ".join(peer.differences)
        return Decision(
            Start.WAIT,
            f"first start, and whether the peer is active is not known ({words}):"
            " `tiphys ha resume --bootstrap` makes this one the first active",
        )
    if peer.is_active:
        return Decision(Start.STANDBY, "first start, and the peer is active")
    told = peer.handshake
    if told is None:
        if not peer.plain_state:
            return Decision(
                Start.WAIT,
                "first start, and the peer is argocd-agent's: name its --ha-peer-health-url, or"
                " `tiphys ha resume --bootstrap`",
            )
        return Decision(Start.BOOTSTRAP, f"first start, and the peer is {peer.plain_state}")
    if told.pair or told.epoch:
        return Decision(
            Start.WAIT,
            f"first start, and the peer has a record (pair {told.pair}, epoch {told.epoch}) and is"
            f" {told.state}: promote it, or `tiphys ha resume --bootstrap` here",
        )
    if told.state is HaState.RECOVERING and told.principal < principal:
        return Decision(Start.WAIT, "two primaries start for the first time: the peer goes first")
    return Decision(Start.BOOTSTRAP, "first start, and the peer has no record")


def _again(record: HaRecord, settings: HaSettings, peer: PeerView | None, *, handed_over: bool) -> Decision:
    told_here = "a switchover from here gave no token" if record.gave_no_token else "the record says active"
    # One of argocd-agent's has no epoch by which this one would hear of its promotion later.
    if peer is not None and not peer.problem and peer.handshake is None and peer.is_active:
        return Decision(Start.STANDBY, "the peer is active")
    told = None if peer is None or peer.differences else peer.handshake
    # Whoever hears of a higher epoch serves no more, also where it is turned away or would only go on.
    if told is not None and told.pair == record.pair and told.epoch > record.served_epoch:
        return Decision(
            Start.STANDBY,
            f"the peer has served under epoch {told.epoch}, this one under {record.served_epoch}",
        )
    if handed_over:
        return Decision(Start.ACTIVE, "another replica of this principal was active a moment ago")
    if peer is None:
        return Decision(Start.ACTIVE, f"{told_here}, and there is no peer")
    if peer.problem:
        if settings.restart_policy is RestartPolicy.ACTIVE:
            return Decision(
                Start.ACTIVE, f"--ha-restart-policy=active, although the peer is not known: {peer.problem}"
            )
        return Decision(
            Start.WAIT,
            f"{told_here} under epoch {record.epoch}, and whether the peer was promoted since is not"
            f" known ({peer.problem}): `tiphys ha resume` where it was not",
        )
    if peer.differences:
        return Decision(Start.WAIT, f"the peer is none of this pair: {'; '.join(peer.differences)}")
    if peer.is_active:
        return Decision(Start.STANDBY, "the peer is active")
    if told is None and not peer.plain_state and settings.restart_policy is not RestartPolicy.ACTIVE:
        return Decision(
            Start.WAIT,
            "the peer is argocd-agent's and does not tell its state: name its --ha-peer-health-url, or"
            " `tiphys ha resume`",
        )
    return Decision(Start.ACTIVE, f"{told_here}, and the peer is not active")
