"""What leaves an outbox, in which order."""

from collections.abc import Callable
from functools import partial

import pytest

from argocd.agents.vocabulary import Message, Target
from sidecars.delivery.lanes import ORDER
from sidecars.delivery.observers import OutboxObserver
from sidecars.delivery.outbox import Outbox, OutboxLimits
from sidecars.delivery.timing import Timing
from sidecars.wire.events import SENT_AT, Event, acknowledgement, heartbeat, message_event
from tiphys.errors import CallError

Make = Callable[..., Event]


@pytest.fixture
def outbox(timing: Timing) -> Outbox:
    return Outbox(peer="agent-a", timing=timing, incarnation="here")


def taken(outbox: Outbox) -> list[tuple[str, str]]:
    """Type and event id of all that leaves now, unacknowledged."""
    events = []
    while (event := outbox.take()) is not None:
        events.append((event.type.rpartition(".")[2], event.event_id.rpartition("_")[2]))
    return events


def deliver(outbox: Outbox) -> list[tuple[str, str]]:
    """As `taken`, with a peer that acknowledges each at once."""
    events = []
    while (event := outbox.take()) is not None:
        events.append((event.type.rpartition(".")[2], event.event_id.rpartition("_")[2]))
        outbox.acknowledge(acknowledgement(event))
    return events


def test_the_newest_state_of_an_object_is_all_that_leaves(outbox: Outbox, make: Make) -> None:
    for version in (1, 2, 3):
        outbox.add(make(Message.SPEC_UPDATE, version=version))
    assert deliver(outbox) == [("spec-update", "3")]


def test_spec_and_status_are_two_kinds_of_state(outbox: Outbox, make: Make) -> None:
    outbox.add(make(Message.SPEC_UPDATE, version=1))
    outbox.add(make(Message.STATUS_UPDATE, version=2))
    outbox.add(make(Message.SPEC_UPDATE, version=3))
    assert deliver(outbox) == [("status-update", "2"), ("spec-update", "3")]


def test_a_creation_is_not_merged_with_the_update_after_it(outbox: Outbox, make: Make) -> None:
    outbox.add(make(Message.CREATE, version=1))
    outbox.add(make(Message.SPEC_UPDATE, version=2))
    assert deliver(outbox) == [("create", "1"), ("spec-update", "2")]


def test_commands_are_never_merged(outbox: Outbox, make: Make) -> None:
    for version in (1, 2, 3):
        outbox.add(make(Message.SET_OPERATION, version=version))
    assert deliver(outbox) == [("set-operation", "1"), ("set-operation", "2"), ("set-operation", "3")]


def test_a_command_stays_behind_the_state_that_it_was_given_for(outbox: Outbox, make: Make) -> None:
    outbox.add(make(Message.SPEC_UPDATE, version=1))
    outbox.add(make(Message.SET_OPERATION, version=1))
    outbox.add(make(Message.SPEC_UPDATE, version=2))
    outbox.add(make(Message.SPEC_UPDATE, version=3))
    assert deliver(outbox) == [("spec-update", "1"), ("set-operation", "1"), ("spec-update", "3")]


def test_a_deletion_supersedes_all_that_waits_and_says_which_commands(make: Make, timing: Timing) -> None:
    told: list[str] = []

    class Observer(OutboxObserver):
        def superseded(self, peer: str, event: Event) -> None:
            told.append(event.type)

    outbox = Outbox(peer="agent-a", timing=timing, observer=Observer())
    outbox.add(make(Message.CREATE, version=1))
    outbox.add(make(Message.SET_OPERATION, version=2))
    outbox.add(make(Message.DELETE, version=3))
    assert deliver(outbox) == [("delete", "3")]
    assert told == [Message.CREATE, Message.SET_OPERATION]
    assert outbox.figures().superseded == 2


def test_an_object_that_was_recreated_is_deleted_before_it_is_created(outbox: Outbox, make: Make) -> None:
    outbox.add(make(Message.SPEC_UPDATE, version=1, uid="old"))
    outbox.add(make(Message.DELETE, version=2, uid="old"))
    outbox.add(make(Message.CREATE, version=3, uid="new"))
    assert deliver(outbox) == [("delete", "2"), ("create", "3")]


def test_deletions_of_two_uids_both_leave(outbox: Outbox, make: Make) -> None:
    outbox.add(make(Message.DELETE, version=1, uid="old"))
    outbox.add(make(Message.CREATE, version=2, uid="new"))
    outbox.add(make(Message.DELETE, version=3, uid="new"))
    assert deliver(outbox) == [("delete", "1"), ("delete", "3")]


def test_one_event_of_an_object_is_under_way_at_a_time(outbox: Outbox, make: Make) -> None:
    outbox.add(make(Message.CREATE, version=1))
    outbox.add(make(Message.SPEC_UPDATE, version=2))
    outbox.add(make(Message.CREATE, "other", version=3))
    assert taken(outbox) == [("create", "1"), ("create", "3")]


def test_acknowledgements_and_the_heartbeat_leave_before_data(outbox: Outbox, make: Make) -> None:
    outbox.add(make(Message.SET_OPERATION, version=1))
    outbox.add(make(Message.SPEC_UPDATE, "other", version=2))
    outbox.add(heartbeat(new_id=lambda: "old_beat"))
    outbox.add(heartbeat(new_id=lambda: "new_beat"))
    outbox.add(acknowledgement(make(Message.STATUS_UPDATE, version=9)))
    assert taken(outbox) == [
        ("processed", "9"),
        ("ping", "beat"),
        ("set-operation", "1"),
        ("spec-update", "2"),
    ]


def test_a_command_overtakes_the_state_of_other_objects(outbox: Outbox, make: Make) -> None:
    outbox.add(make(Message.SPEC_UPDATE, "first", version=1))
    outbox.add(make(Message.SPEC_UPDATE, "second", version=2))
    outbox.add(make(Message.SET_OPERATION, "second", version=3))
    assert deliver(outbox) == [("spec-update", "2"), ("set-operation", "3"), ("spec-update", "1")]


def test_of_a_clusters_counters_the_newest_leave(outbox: Outbox) -> None:
    for number in (1, 2, 3):
        outbox.add(
            message_event(
                Message.CLUSTER_CACHE_INFO_UPDATE,
                target=Target.CLUSTER_CACHE_INFO_UPDATE,
                new_id=partial(str, f"counters_{number}"),
            )
        )
    assert deliver(outbox) == [("cluster-cache-info-update", "3")]


def test_requests_have_nothing_to_do_with_each_other(outbox: Outbox) -> None:
    for number in (1, 2):
        outbox.add(
            message_event(
                Message.REQUEST_UPDATE,
                target=Target.RESOURCE_RESYNC,
                new_id=partial(str, f"request_{number}"),
            )
        )
    assert taken(outbox) == [("request-update", "1"), ("request-update", "2")]


def test_windows_bound_what_is_under_way_and_state_does_not_hold_up_commands(
    make: Make, timing: Timing
) -> None:
    outbox = Outbox(peer="agent-a", timing=timing, limits=OutboxLimits(state_window=2, command_window=1))
    for number in range(4):
        outbox.add(make(Message.SPEC_UPDATE, f"state-{number}", version=number))
    assert len(taken(outbox)) == 2
    outbox.add(make(Message.SET_OPERATION, "one", version=7))
    outbox.add(make(Message.SET_OPERATION, "two", version=8))
    assert taken(outbox) == [("set-operation", "7")]
    assert outbox.figures().under_way == 3
    assert outbox.figures().waiting == 3


def test_an_event_is_numbered_and_dated_when_it_first_leaves(outbox: Outbox, make: Make) -> None:
    outbox.add(make(Message.SPEC_UPDATE))
    event = outbox.take()
    assert event is not None
    assert event.extensions == {ORDER: "here.0", SENT_AT: "2026-11-16T00:16:40Z"}


def test_an_event_that_no_peer_would_take_is_refused(outbox: Outbox) -> None:
    with pytest.raises(CallError, match="no resource id"):
        outbox.add(Event(type=Message.SPEC_UPDATE, target="application", resource_id="", event_id="1"))
