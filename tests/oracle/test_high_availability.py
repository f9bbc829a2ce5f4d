"""argocd-agent's own tables on states, options, promotion and health, asked of ours; where ours differ, it is said why."""

import json
from pathlib import Path
from typing import Any

import pytest

from sidecars.process.serving_gate import ServingGate
from sidecars.replication.control.fence import FenceReport
from sidecars.replication.control.promotion import RefusedRoleChangeError, Word, check_promotion
from sidecars.replication.control.settings import HaSettings, PreferredRole
from sidecars.replication.control.start import PeerView, Start, decide
from sidecars.replication.handshake import Handshake
from sidecars.replication.kinds import BY_NAME
from sidecars.replication.peer import PeerLink
from sidecars.replication.record import HaRecord, HaRole
from sidecars.replication.standby.follower_progress import FollowerProgress
from sidecars.replication.states import HaState, is_allowed
from tiphys.errors import CallError

CASES = Path(__file__).resolve().parents[3] / "shared" / "oracle" / "ha.json"

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(not CASES.is_file(), reason="no cases with known answers beside the repository"),
]

DIFFERENT = {
    "transition-active-replicating": "nothing is replicated before there is a stream: active -> disconnected",
    "transition-active-disconnected": "as above",
    "transition-syncing-active": "with force, where the primary died during the first sync",
    "ctl-start-primary-peer": "the peer is asked first",
    "ctl-demote-active": "to disconnected",
    "opt-peer-empty": "a primary may have no peer",
    "opt-admin-port-0": "as in the command line: the default",
}


def tables() -> dict[str, list[Any]]:
    if not CASES.is_file():
        return {}
    return {table["about"]: table["cases"] for table in json.loads(CASES.read_text())["tables"]}


def cases(*abouts: str) -> list[Any]:
    return [
        pytest.param(case["input"], case["expect"], id=case["id"])
        for about in abouts
        for case in tables().get(about, [])
        if case["id"] not in DIFFERENT
    ]


@pytest.mark.parametrize(
    ("given", "expected"), cases("wire/label spelling of a state", "health and agent acceptance of a state")
)
def test_states_are_spelt_and_serve_alike(given: Any, expected: Any) -> None:
    state = HaState(given["state"])
    answers = {"string": state.value, "healthy": state.serves, "accepts_agents": state.serves}
    assert {key: answers[key] for key in expected} == expected


@pytest.mark.parametrize(("given", "expected"), cases("is the transition in the table of allowed ones"))
def test_transitions_are_allowed_alike(given: Any, expected: Any) -> None:
    old, new = HaState(given["from"]), HaState(given["to"])
    assert (old is not new and is_allowed(old, new)) is expected["allowed"]


@pytest.mark.parametrize(("given", "expected"), cases("option validation", "peer address option"))
def test_options_are_judged_alike(given: Any, expected: Any) -> None:
    settings = HaSettings(
        preferred_role=PreferredRole(given.get("role", "primary")),
        peer_address=given.get("peer", ""),
        allowed_clients=frozenset({"peer"}),
    )
    if "ok" in expected:
        settings.check()
        if settings.peer_address:
            PeerLink(settings.peer_address, None, mine=lambda: HANDSHAKE)
    else:
        with pytest.raises(CallError, match=expected["error_contains"]):
            settings.check()


HANDSHAKE = Handshake(
    pair="p", principal="b", state=HaState.ACTIVE, epoch=1, namespace="argocd", mapping="namespace"
)
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


def controlled(given: Any) -> Any:
    """What becomes of an operation, in argocd-agent's words."""
    match given["op"]:
        case "start":
            if not given["enabled"]:
                return ServingGate().state
            settings = HaSettings(
                preferred_role=PreferredRole(given["role"]), peer_address=given.get("peer", "")
            )
            peer = PeerView(problem="no answer") if settings.peer_address else None
            start = decide(None, settings, peer, principal="a", handed_over=False).start
            return {Start.BOOTSTRAP: "active", Start.STANDBY: "syncing"}[start]
        case "agent-connect":
            return ServingGate(given["state"]).refusal("Subscribe") or "ok"
        case "promote":
            state = HaState(given["state"])
            record = HaRecord(pair="p", principal="a", role=HaRole.STANDBY, epoch=0, peer_epoch=1)
            check_promotion(
                Word(who="x", why="y", force=given["force"], epoch=1),
                state=state,
                record=record,
                progress=WHOLE,
                peer=PeerView(handshake=HANDSHAKE)
                if state is HaState.REPLICATING
                else PeerView(problem="away"),
                fence=FenceReport(""),
            )
            return "active"
    raise AssertionError(given["op"])


# The others are asked of a running pair: tests/sidecars/replication/test_pair.py.
DECIDED = [
    case for case in cases("HA controller") if case.values[0]["op"] in {"start", "agent-connect", "promote"}
]


@pytest.mark.parametrize(("given", "expected"), DECIDED)
def test_operations_of_the_controller_end_alike(given: Any, expected: Any) -> None:
    if "error_text" in expected:
        assert controlled(given) == expected["error_text"]
    elif "error_contains" in expected:
        with pytest.raises((RefusedRoleChangeError, ValueError), match=expected["error_contains"]):
            controlled(given)
    else:
        assert controlled(given) == expected.get("state", "ok")
