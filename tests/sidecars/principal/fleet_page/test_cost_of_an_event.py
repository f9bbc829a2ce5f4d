"""What the page costs while nobody looks at it: the same for one of few agents and for one of many."""

import sys
from types import FrameType
from typing import Any

import pytest

from argocd.agents.vocabulary import Message, Target
from scripts.pictures.sample_fleet import SampleFleet, application, sample_fleet
from sidecars.principal.fleet_page import record as recorded
from sidecars.wire.events import Event

FEW, MANY = 4, 60
AGENT = "eu-west-prod"


def lines_of(fleet: SampleFleet, what: str) -> int:
    """Executed in the record, its tallies and what is stuck."""
    folder, lines = recorded.__file__.rpartition("/")[0], 0

    def note(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        if not frame.f_code.co_filename.startswith(folder):
            return None
        lines += event == "line"
        return note

    record = fleet.principal.record
    told = Event(
        type=Message.SPEC_UPDATE,
        target=Target.APPLICATION,
        resource_id="r",
        event_id="e",
        subject=f"{AGENT}/web",
        extensions={"sentat": "2026-01-01T00:00:00Z"},
    )
    old = application("web", agent=AGENT, state=("Healthy", "Synced"))
    new = application("web", agent=AGENT, state=("Degraded", "OutOfSync"))
    before = sys.gettrace()
    sys.settrace(note)
    try:
        match what:
            case "acknowledged":
                record.acknowledged(AGENT, told, 0.1)
            case "applied":
                record.applied(AGENT, told)
            case _:
                record._application(old, new)
    finally:
        sys.settrace(before)
    return lines


@pytest.mark.parametrize("what", ["acknowledged", "applied", "an Application changed"])
async def test_it_does_not_grow_with_the_fleet(what: str) -> None:
    counted = []
    for agents in (FEW, MANY):
        async with sample_fleet(agents, applications=2) as fleet:
            counted.append(lines_of(fleet, what))
    few, many = counted
    assert 0 < many <= few + 5
    assert few < 100
