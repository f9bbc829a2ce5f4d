"""What speaks against a promotion, each by itself, in figures; and what a force must name."""

from dataclasses import replace
from typing import Any

import pytest

from sidecars.replication.control.fence import FenceReport
from sidecars.replication.control.promotion import (
    RefusedRoleChangeError,
    Word,
    check_promotion,
    check_standing,
)
from sidecars.replication.control.start import PeerView
from sidecars.replication.handshake import Handshake
from sidecars.replication.kinds import BY_NAME
from sidecars.replication.record import HaRecord, HaRole
from sidecars.replication.standby.dead_letters import UnwrittenObject
from sidecars.replication.standby.follower_progress import FollowerProgress
from sidecars.replication.states import HaState

WORD = Word(who="jo", why="region A is down")
RECORD = HaRecord(pair="p", principal="b", role=HaRole.STANDBY, epoch=0, peer_epoch=3)
WHOLE = FollowerProgress(
    history="h",
    seen=7,
    applied=7,
    synced_once=True,
    connected=False,
    digests_equal=dict.fromkeys(BY_NAME, True),
    compared_at=None,
    compared_seconds=3.0,
    held_deletions={},
    dead_letters=(),
    missing=0,
    problem="",
)
AWAY = PeerView(problem="no answer")
PEER = Handshake(
    pair="p", principal="a", state=HaState.ACTIVE, epoch=3, namespace="argocd", mapping="namespace"
)
LETTER = UnwrittenObject(kind="applications", namespace="agent-a", name="web", reason="spec", digest=b"")
FENCED = FenceReport("")


def check(word: Word = WORD, *, state: HaState = HaState.DISCONNECTED, **more: Any) -> None:
    known: dict[str, Any] = {"record": RECORD, "progress": WHOLE, "peer": AWAY, "fence": FENCED, **more}
    check_promotion(word, state=state, **known)


def test_a_replica_that_has_everything_is_promoted_without_force_while_its_peer_is_away() -> None:
    check()
    check(peer=None)
    check(peer=PeerView(handshake=replace(PEER, state=HaState.DISCONNECTED)))


PROBLEMS: list[tuple[dict[str, Any], str]] = [
    ({"peer": PeerView(handshake=PEER)}, "still replicating from peer"),
    ({"peer": PeerView(plain_state="active")}, "still replicating from peer"),
    ({"peer": PeerView(problem="turned away", handshake=PEER)}, "still replicating from peer"),
    (
        {"progress": replace(WHOLE, synced_once=False, missing=8)},
        "the first sync is not complete: 8 of its objects are missing",
    ),
    ({"progress": replace(WHOLE, synced_once=False, missing=-1)}, "an unknown number of its objects"),
    (
        {"progress": replace(WHOLE, seen=9)},
        "2 changes were seen and not applied: applied 7 of 9 in history h, compared 3 s ago",
    ),
    ({"progress": replace(WHOLE, dead_letters=(LETTER,))}, "1 objects could not be written here"),
    ({"progress": replace(WHOLE, left_over=True)}, "before it restarted not everything could be written"),
    (
        {"progress": replace(WHOLE, digests_equal={**WHOLE.digests_equal, "clusters": False})},
        "the last comparison found differences in clusters",
    ),
    ({"progress": replace(WHOLE, digests_equal={}, compared_seconds=None)}, "nothing was compared"),
    ({"progress": replace(WHOLE, digests_equal={"clusters": True})}, "not every kind was compared"),
    (
        {"progress": replace(WHOLE, held_deletions={"applications": 25})},
        "deletions wait for `tiphys ha accept-deletions`: 25 applications",
    ),
    ({"fence": FenceReport("the policy is gone")}, "this cluster is not fenced: the policy is gone"),
]


@pytest.mark.parametrize(("changed", "words"), PROBLEMS)
def test_each_of_these_speaks_against_it_and_a_force_overrides_it(
    changed: dict[str, Any], words: str
) -> None:
    with pytest.raises(RefusedRoleChangeError) as refused:
        check(**changed)
    assert words in str(refused.value)
    check(replace(WORD, force=True, epoch=3), **changed)


def test_all_that_speaks_against_it_is_told_at_once() -> None:
    with pytest.raises(RefusedRoleChangeError) as refused:
        check(
            peer=PeerView(handshake=PEER),
            progress=replace(WHOLE, seen=9, held_deletions={"clusters": 30}),
            fence=FenceReport("the policy is gone"),
        )
    assert str(refused.value).count("; ") == 4  # the peer's line has one of its own


def test_whoever_served_last_lacks_nothing_that_its_peer_could_have() -> None:
    check(record=replace(RECORD, served_epoch=4), progress=replace(WHOLE, seen=9, digests_equal={}))


@pytest.mark.parametrize(
    ("force", "words"),
    [
        ({"why": " "}, "--force needs --reason"),
        ({"epoch": None}, "--force needs --epoch 3, the highest that was seen here; given was none"),
        ({"epoch": 2}, "given was 2"),
        ({"epoch": 4}, "given was 4"),
    ],
)
def test_a_force_names_its_reason_and_the_epoch_that_was_seen(force: dict[str, Any], words: str) -> None:
    with pytest.raises(RefusedRoleChangeError) as refused:
        check(replace(WORD, **{"force": True, "epoch": 3, **force}))
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("state", "changed", "words"),
    [
        (HaState.ACTIVE, {}, "already active"),
        (HaState.RECOVERING, {}, "can only promote from replicating or disconnected"),
        (HaState.RECOVERING, {"record": None}, "can only promote from replicating or disconnected"),
        (HaState.SYNCING, {"record": replace(RECORD, pair="")}, "has never met its primary"),
    ],
)
def test_no_force_promotes_what_is_no_replica(state: HaState, changed: dict[str, Any], words: str) -> None:
    for word in (WORD, replace(WORD, force=True, epoch=3)):
        with pytest.raises(RefusedRoleChangeError, match=words):
            check(word, state=state, **changed)


def test_a_promotion_that_was_interrupted_is_finished_from_recovering() -> None:
    check(state=HaState.RECOVERING, record=replace(RECORD, role=HaRole.PROMOTING, epoch=4))


def test_what_came_while_the_question_was_asked_counts_when_following_has_stopped() -> None:
    late = replace(WHOLE, seen=8)
    with pytest.raises(RefusedRoleChangeError, match="1 changes were seen and not applied"):
        check_standing(WORD, record=RECORD, progress=late)
    check_standing(replace(WORD, force=True, epoch=3), record=RECORD, progress=late)
    check_standing(WORD, record=RECORD, progress=WHOLE)
