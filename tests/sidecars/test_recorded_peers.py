"""A recorded Go peer plays its part: what Tiphys answers, and what it leaves behind, must be equivalent."""

import pytest

from argocd.agents.vocabulary import Mode
from kube.errors import NotFoundError
from tests.sidecars.recorded_peer import Rehearsal
from tests.sidecars.recorded_script import HUB, RECORDINGS, SPOKE

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(not RECORDINGS.is_dir(), reason="no recordings beside the repository"),
    pytest.mark.timeout(180),
]

AGENTS = {Mode.MANAGED: "agent-a", Mode.AUTONOMOUS: "agent-b"}


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("role", [HUB, SPOKE])
async def test_a_recorded_peer_meets_what_it_met_then(role: str, mode: Mode) -> None:
    rehearsal = Rehearsal(mode.value, role=role, mode=mode, agent=AGENTS[mode])
    await rehearsal.run()

    assert not rehearsal.problems, "\n".join(rehearsal.problems)
    assert rehearsal.compared >= 15


async def test_what_differs_from_the_recording_is_found() -> None:
    """An autonomous agent takes nothing that the managed one was given."""
    rehearsal = Rehearsal("managed", role=SPOKE, mode=Mode.AUTONOMOUS, agent="agent-a", patience=0.2)
    with pytest.raises(NotFoundError, match="team"):
        await rehearsal.run()
    assert any("then" in each and "ours   null" in each for each in rehearsal.problems)
