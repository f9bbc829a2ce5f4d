"""What a principal becomes when it starts: the record decides, and the peer's word; a flag only where there is no record."""

from dataclasses import replace
from typing import Any

import pytest

from sidecars.replication.control.settings import HaSettings, PreferredRole, RestartPolicy
from sidecars.replication.control.start import PeerView, Start, decide
from sidecars.replication.handshake import Handshake
from sidecars.replication.record import HandoverStep, HaRecord, HaRole
from sidecars.replication.states import HaState

SERVED = HaRecord(pair="p", principal="b", role=HaRole.ACTIVE, epoch=3, served_epoch=3, peer_epoch=2)
CLOSED = replace(SERVED, role=HaRole.STANDBY, step=HandoverStep.FENCED)
"""A switchover came as far as that, and gave no token."""
THEIRS = Handshake(
    pair="p", principal="a", state=HaState.REPLICATING, epoch=2, namespace="argocd", mapping="namespace"
)
UNKNOWN = replace(THEIRS, pair="", epoch=0, state=HaState.RECOVERING)
"""It has no record."""
AWAY = PeerView(problem="no answer")
STRANGER = PeerView(handshake=THEIRS, differences=("pair p here, q there",))
REPLICA = {"preferred_role": PreferredRole.REPLICA}
RESTARTS = {"restart_policy": RestartPolicy.ACTIVE}


def says(**changes: Any) -> PeerView:
    return PeerView(handshake=replace(THEIRS, **changes))


def turned_away(**changes: Any) -> PeerView:
    """By a peer that does not list this one, and says what it is all the same."""
    return replace(says(**changes), problem="not in allowed replication clients")


def blank(**changes: Any) -> PeerView:
    return PeerView(handshake=replace(UNKNOWN, **changes))


def go(state: str) -> PeerView:
    """One of argocd-agent's, by its health page."""
    return PeerView(plain_state=state)


@pytest.mark.parametrize(
    ("record", "flags", "peer", "handed_over", "start", "words"),
    [
        # No record: a flag, and what the peer answers.
        (None, REPLICA, None, False, Start.STANDBY, "as a replica"),
        (None, REPLICA, AWAY, False, Start.STANDBY, "as a replica"),
        (None, {}, None, False, Start.BOOTSTRAP, "without a peer"),
        (None, {}, AWAY, False, Start.WAIT, "`tiphys ha resume --bootstrap`"),
        (None, RESTARTS, AWAY, False, Start.WAIT, "`tiphys ha resume --bootstrap`"),
        (None, {}, AWAY, True, Start.WAIT, "`tiphys ha resume --bootstrap`"),
        (None, {}, STRANGER, False, Start.WAIT, "pair p here, q there"),
        (None, {}, says(state=HaState.ACTIVE), False, Start.STANDBY, "the peer is active"),
        (None, {}, says(), False, Start.WAIT, "the peer has a record (pair p, epoch 2)"),
        (None, {}, blank(), False, Start.WAIT, "the peer goes first"),
        (None, {}, blank(principal="c"), False, Start.BOOTSTRAP, "the peer has no record"),
        (None, {}, blank(state=HaState.SYNCING), False, Start.BOOTSTRAP, "the peer has no record"),
        (None, {}, go("active"), False, Start.STANDBY, "the peer is active"),
        (None, {}, go("replicating"), False, Start.BOOTSTRAP, "the peer is replicating"),
        (None, {}, go(""), False, Start.WAIT, "--ha-peer-health-url"),
        # It was active.
        (SERVED, {}, None, False, Start.ACTIVE, "there is no peer"),
        (SERVED, REPLICA, says(), False, Start.ACTIVE, "the peer is not active"),
        (SERVED, {}, AWAY, False, Start.WAIT, "`tiphys ha resume`"),
        (SERVED, RESTARTS, AWAY, False, Start.ACTIVE, "--ha-restart-policy=active"),
        (SERVED, {}, AWAY, True, Start.ACTIVE, "another replica of this principal"),
        (SERVED, {}, STRANGER, False, Start.WAIT, "the peer is none of this pair"),
        (SERVED, RESTARTS, STRANGER, False, Start.WAIT, "the peer is none of this pair"),
        (SERVED, RESTARTS, says(epoch=4), False, Start.STANDBY, "the peer has served under epoch 4"),
        (SERVED, {}, says(epoch=4), True, Start.STANDBY, "the peer has served under epoch 4"),
        (SERVED, {}, turned_away(epoch=4), False, Start.STANDBY, "the peer has served under epoch 4"),
        (SERVED, RESTARTS, turned_away(epoch=4), True, Start.STANDBY, "the peer has served under epoch 4"),
        (SERVED, {}, turned_away(epoch=4, pair="q"), False, Start.WAIT, "`tiphys ha resume`"),
        (SERVED, {}, turned_away(), False, Start.WAIT, "`tiphys ha resume`"),
        (SERVED, {}, says(state=HaState.ACTIVE), False, Start.STANDBY, "the peer is active"),
        (SERVED, {}, go("active"), False, Start.STANDBY, "the peer is active"),
        (SERVED, {}, go("active"), True, Start.STANDBY, "the peer is active"),
        (SERVED, {}, go("disconnected"), False, Start.ACTIVE, "the peer is not active"),
        (SERVED, {}, go(""), False, Start.WAIT, "does not tell its state"),
        (SERVED, RESTARTS, go(""), False, Start.ACTIVE, "the peer is not active"),
        # It was not, whatever its flag and whoever else is away.
        (replace(SERVED, role=HaRole.STANDBY), RESTARTS, AWAY, True, Start.STANDBY, "says standby"),
        (replace(SERVED, role=HaRole.PROMOTING, epoch=5), RESTARTS, None, True, Start.WAIT, "to epoch 5"),
        # A switchover that gave no token: nobody else can go on, but for a peer that was promoted meanwhile.
        (CLOSED, {}, says(), False, Start.ACTIVE, "gave no token"),
        (CLOSED, {}, says(epoch=4), False, Start.STANDBY, "the peer has served under epoch 4"),
        (CLOSED, {}, AWAY, True, Start.WAIT, "gave no token"),
        (replace(CLOSED, token={"nonce": "n"}), {}, says(), False, Start.STANDBY, "says standby"),
    ],
)
def test_it_starts_as_its_record_and_its_peer_say(
    record: HaRecord | None,
    flags: dict[str, Any],
    peer: PeerView | None,
    *,
    handed_over: bool,
    start: Start,
    words: str,
) -> None:
    decision = decide(record, HaSettings(**flags), peer, principal="b", handed_over=handed_over)
    assert decision.start is start
    assert words in decision.reason
