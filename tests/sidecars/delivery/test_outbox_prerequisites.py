"""Applications wait for their project, for nothing else, and not for ever."""

from collections.abc import Callable

import pytest

from argocd.agents.vocabulary import Message, Target
from sidecars.delivery.outbox import Outbox, OutboxLimits
from sidecars.delivery.timing import Timing
from sidecars.wire.events import Event, acknowledgement
from tests.sidecars.delivery.conftest import Clock

Make = Callable[..., Event]


@pytest.fixture
def outbox(timing: Timing) -> Outbox:
    return Outbox(peer="agent-a", timing=timing)


def project(make: Make, message: Message = Message.CREATE, *, version: int = 1) -> Event:
    return make(message, name="web", target=Target.PROJECT, version=version)


def taken(outbox: Outbox) -> list[Event]:
    events = []
    while (event := outbox.take()) is not None:
        events.append(event)
    return events


def names(events: list[Event]) -> list[str]:
    return [event.subject.rpartition("/")[2] for event in events]


def test_an_application_leaves_when_its_project_has_arrived(outbox: Outbox, make: Make) -> None:
    outbox.add(project(make), provides="web")
    outbox.add(make(Message.CREATE, name="shop"), needs="web")
    outbox.add(make(Message.CREATE, name="other"), needs="elsewhere")
    [sent, other] = taken(outbox)
    assert names([sent, other]) == ["web", "other"]
    outbox.acknowledge(acknowledgement(sent))
    assert names(taken(outbox)) == ["shop"]


def test_a_project_that_was_added_later_is_waited_for_too(outbox: Outbox, make: Make) -> None:
    outbox.add(make(Message.CREATE, name="shop"), needs="web")
    outbox.add(project(make), provides="web")
    [sent] = taken(outbox)
    assert names([sent]) == ["web"]
    outbox.acknowledge(acknowledgement(sent))
    assert names(taken(outbox)) == ["shop"]


def test_all_that_brings_the_project_is_waited_for(outbox: Outbox, make: Make) -> None:
    outbox.add(project(make), provides="web")
    outbox.add(make(Message.CREATE, name="repo", target=Target.REPOSITORY), provides="web")
    outbox.add(make(Message.CREATE, name="shop"), needs="web")
    first, second = taken(outbox)
    outbox.acknowledge(acknowledgement(first))
    assert taken(outbox) == []
    outbox.acknowledge(acknowledgement(second))
    assert names(taken(outbox)) == ["shop"]


def test_a_command_waits_with_the_application_that_it_is_for(outbox: Outbox, make: Make) -> None:
    outbox.add(project(make), provides="web")
    outbox.add(make(Message.CREATE, name="shop", version=1), needs="web")
    outbox.add(make(Message.SET_OPERATION, name="shop", version=2))
    [sent] = taken(outbox)
    outbox.acknowledge(acknowledgement(sent))
    [created] = taken(outbox)
    assert created.type == Message.CREATE
    outbox.acknowledge(acknowledgement(created))
    assert [event.type for event in taken(outbox)] == [Message.SET_OPERATION]


def test_the_newest_of_what_waits_leaves_and_a_deletion_at_once(outbox: Outbox, make: Make) -> None:
    outbox.add(project(make), provides="web")
    outbox.add(make(Message.SPEC_UPDATE, name="shop", version=1), needs="web")
    outbox.add(make(Message.SPEC_UPDATE, name="goes", version=1), needs="web")
    [sent] = taken(outbox)
    outbox.add(make(Message.SPEC_UPDATE, name="shop", version=2), needs="web")
    assert taken(outbox) == []
    outbox.add(make(Message.DELETE, name="goes", version=2))
    assert [event.type for event in taken(outbox)] == [Message.DELETE]
    outbox.acknowledge(acknowledgement(sent))
    assert [event.event_id.rpartition("_")[2] for event in taken(outbox)] == ["2"]


def test_a_project_that_does_not_get_through_holds_nobody_up(
    outbox: Outbox, make: Make, clock: Clock
) -> None:
    outbox.add(project(make), provides="web")
    outbox.add(make(Message.CREATE, name="shop"), needs="web")
    assert names(taken(outbox)) == ["web"]
    clock.advance(10)
    assert names(taken(outbox)) == ["web", "shop"]


def test_a_project_that_changes_all_the_time_holds_nobody_up(
    outbox: Outbox, make: Make, clock: Clock
) -> None:
    outbox.add(project(make, version=1), provides="web")
    outbox.add(make(Message.CREATE, name="shop"), needs="web")
    for version in range(2, 12):
        for sent in taken(outbox):
            outbox.add(project(make, Message.SPEC_UPDATE, version=version), provides="web")
            clock.advance(1)
            outbox.acknowledge(acknowledgement(sent))
            if sent.subject.endswith("shop"):
                return
    pytest.fail("the Application never left")


def test_a_project_that_found_no_room_is_not_waited_for(timing: Timing, make: Make) -> None:
    outbox = Outbox(peer="agent-a", timing=timing, limits=OutboxLimits(bytes=1))
    outbox.add(make(Message.CREATE, name="other"))
    assert not outbox.add(project(make), provides="web")
    [sent] = taken(outbox)
    outbox.acknowledge(acknowledgement(sent))
    outbox.add(make(Message.CREATE, name="shop"), needs="web")
    assert names(taken(outbox)) == ["shop"]
