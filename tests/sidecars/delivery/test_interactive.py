"""What somebody waits for leaves before state, in its time, and not twice where that would do harm."""

import pytest

from argocd.agents.vocabulary import Message, Target
from sidecars.delivery.interactive import DEADLINE, RUN, InteractiveLimits, seconds_left
from sidecars.delivery.outbox import Outbox, OutboxLimits
from sidecars.delivery.timing import Budget, Timing
from sidecars.wire.events import Event, acknowledgement, message_event
from tests.sidecars.delivery.conftest import Clock, MakeEvent


def request(name: str, *, payload: bytes = b"") -> Event:
    return message_event("GET", target=Target.RESOURCE, payload=payload, new_id=lambda: name)


@pytest.fixture
def outbox(timing: Timing) -> Outbox:
    limits = OutboxLimits(interactive=InteractiveLimits(events=3, bytes=16_384))
    return Outbox(peer="agent-a", timing=timing, incarnation="here", limits=limits)


def left(outbox: Outbox) -> list[str]:
    names = []
    while (event := outbox.take()) is not None:
        names.append(event.event_id if event.target == Target.RESOURCE else event.type.rpartition(".")[2])
    return names


def test_a_request_overtakes_state_and_commands(outbox: Outbox, make: MakeEvent) -> None:
    outbox.add(make(Message.SPEC_UPDATE))
    outbox.add(make(Message.SET_OPERATION, name="other"))
    outbox.interactive.add(request("r1"), seconds=5, once=False)
    assert left(outbox) == ["r1", "set-operation", "spec-update"]


def test_state_leaves_after_a_bounded_number_of_requests_however_many_wait(
    timing: Timing, make: MakeEvent
) -> None:
    outbox = Outbox(peer="agent-a", timing=timing, incarnation="here")
    for number in range(100):
        outbox.interactive.add(request(f"r{number}"), seconds=5, once=False)
    outbox.add(make(Message.SPEC_UPDATE))
    outbox.add(make(Message.SET_OPERATION, name="other"))
    order = left(outbox)
    assert (order.index("set-operation"), order.index("spec-update")) == (RUN, 2 * RUN + 1)
    assert [name for name in order if name.startswith("r")] == [f"r{number}" for number in range(100)]


def test_the_time_that_is_left_travels(outbox: Outbox, clock: Clock) -> None:
    outbox.interactive.add(request("r1"), seconds=5, once=False)
    clock.advance(2)
    event = outbox.take()
    assert event is not None
    assert event.extensions[DEADLINE] == "3000"
    assert seconds_left(event) == 3.0


def test_a_peer_that_keeps_no_deadlines_is_told_none(outbox: Outbox) -> None:
    outbox.interactive.add(request("r1"), seconds=5, once=True, told=False)
    event = outbox.take()
    assert event is not None
    assert seconds_left(event) is None


def test_what_is_too_late_does_not_leave(outbox: Outbox, clock: Clock) -> None:
    outbox.interactive.add(request("r1"), seconds=5, once=False)
    outbox.interactive.add(request("r2"), seconds=9, once=False)
    clock.advance(6)
    assert left(outbox) == ["r2"]


def test_what_was_not_acknowledged_leaves_again_on_the_next_stream(outbox: Outbox) -> None:
    for name in ("r1", "r2"):
        outbox.interactive.add(request(name), seconds=5, once=False)
    assert left(outbox) == ["r1", "r2"]
    outbox.acknowledge(acknowledgement(request("r1")))
    outbox.interactive.add(request("r3"), seconds=5, once=False)
    outbox.resume()
    assert left(outbox) == ["r2", "r3"]


def test_what_is_sent_once_is_forgotten_as_it_leaves(outbox: Outbox) -> None:
    outbox.interactive.add(request("r1"), seconds=5, once=True)
    assert left(outbox) == ["r1"]
    outbox.resume()
    assert left(outbox) == []
    assert outbox.interactive.bytes == 0


def test_a_request_that_waits_is_withdrawn_and_one_that_left_is_not(outbox: Outbox) -> None:
    first, second = request("r1"), request("r2")
    outbox.interactive.add(first, seconds=5, once=False)
    outbox.take()
    outbox.interactive.add(second, seconds=5, once=False)
    assert not outbox.interactive.withdraw(first)
    assert outbox.interactive.withdraw(second)
    outbox.resume()
    assert left(outbox) == []
    assert (len(outbox.interactive), outbox.interactive.bytes) == (0, 0)


def test_a_request_that_left_and_waits_again_has_still_left(outbox: Outbox) -> None:
    first = request("r1")
    outbox.interactive.add(first, seconds=5, once=False)
    outbox.take()
    outbox.resume()
    assert not outbox.interactive.withdraw(first)


def test_there_is_room_for_so_many(outbox: Outbox, clock: Clock) -> None:
    added = [
        outbox.interactive.add(request(name), seconds=5, once=False) for name in ("r1", "r2", "r3", "r4")
    ]
    assert added == [True, True, True, False]
    clock.advance(6)
    assert outbox.interactive.add(request("r5"), seconds=5, once=False), (
        "those that nobody waits for made room"
    )


def test_there_is_room_for_so_many_bytes(outbox: Outbox) -> None:
    large = b"x" * 10_000
    assert outbox.interactive.add(request("r1", payload=large), seconds=5, once=False)
    assert not outbox.interactive.add(request("r2", payload=large), seconds=5, once=False)


def test_the_budget_of_all_peers_gets_back_what_was_used(timing: Timing) -> None:
    budget = Budget(limit=1 << 20)
    outbox = Outbox(peer="agent-a", timing=timing, budget=budget)
    for name in ("r1", "r2", "r3"):
        outbox.interactive.add(request(name), seconds=5, once=name == "r3")
    assert budget.used > 0
    left(outbox)
    outbox.acknowledge(acknowledgement(request("r1")))
    outbox.clear()
    assert budget.used == 0


@pytest.mark.parametrize("told", ["", "-1", "1.5", "٣", "9" * 10, "soon"])
def test_a_deadline_that_makes_no_sense_is_none(told: str) -> None:
    event = Event(
        type="GET", target=Target.RESOURCE, resource_id="r", event_id="r", extensions={DEADLINE: told}
    )
    assert seconds_left(event) is None
