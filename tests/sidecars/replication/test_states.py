"""The five states and their order."""

import pytest

from sidecars.replication.states import HaState, is_allowed

ARGOCD_AGENTS = {
    (HaState.RECOVERING, HaState.ACTIVE),
    (HaState.RECOVERING, HaState.SYNCING),
    (HaState.RECOVERING, HaState.REPLICATING),
    (HaState.RECOVERING, HaState.DISCONNECTED),
    (HaState.SYNCING, HaState.REPLICATING),
    (HaState.REPLICATING, HaState.DISCONNECTED),
    (HaState.REPLICATING, HaState.ACTIVE),
    (HaState.DISCONNECTED, HaState.REPLICATING),
    (HaState.DISCONNECTED, HaState.ACTIVE),
    (HaState.ACTIVE, HaState.REPLICATING),
}
OURS_ALONE = {(HaState.SYNCING, HaState.ACTIVE), (HaState.ACTIVE, HaState.DISCONNECTED)}
THEIRS_ALONE = {(HaState.ACTIVE, HaState.REPLICATING)}


@pytest.mark.parametrize("new", HaState)
@pytest.mark.parametrize("old", HaState)
def test_states_follow_one_another_as_in_argocd_agent_but_for_the_differences_that_are_documented(
    old: HaState, new: HaState
) -> None:
    expected = (old, new) in (ARGOCD_AGENTS | OURS_ALONE) - THEIRS_ALONE or old is new
    assert is_allowed(old, new) is expected


def test_only_the_active_one_serves() -> None:
    assert [state for state in HaState if state.serves] == [HaState.ACTIVE]
