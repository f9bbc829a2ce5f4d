"""What an inbox does with what arrives."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import structlog

from argocd.agents.vocabulary import Message, Target
from kube.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    UnauthorizedError,
    UnavailableError,
)
from sidecars.delivery.inbox import InboxLimits
from sidecars.delivery.outcomes import (
    DeadLetter,
    DeadLetterReason,
    DeliveryVerdict,
    judge,
    log_dead_letter,
)
from sidecars.delivery.timing import Budget
from sidecars.wire.errors import MalformedError
from sidecars.wire.events import Event
from tests.sidecars.delivery.controlled_inbox import SECOND, World, failing
from tests.simulation.virtual_time import run

Make = Callable[..., Event]


def test_an_event_is_applied_and_then_acknowledged(make: Make) -> None:
    async def program() -> None:
        world = World()
        world.plans["guestbook 1"] = lambda: asyncio.sleep(5)
        await world.put(make(Message.SPEC_UPDATE))
        await asyncio.sleep(4)
        assert not world.acknowledged
        await world.settled()
        assert world.applied == world.acknowledged == ["guestbook 1"]

    run(program())


def test_one_objects_events_stay_in_order_and_others_do_not_wait(make: Make) -> None:
    async def program() -> None:
        world = World()
        world.plans["slow 1"] = lambda: asyncio.sleep(10)
        await world.put(
            make(Message.CREATE, "slow", 1),
            make(Message.SPEC_UPDATE, "slow", 2),
            make(Message.SPEC_UPDATE, "quick", 1),
        )
        await world.settled()
        assert world.applied == ["quick 1", "slow 1", "slow 2"]

    run(program())


def test_side_by_side_is_bounded_and_an_idle_inbox_has_no_task(make: Make) -> None:
    async def program() -> None:
        world = World(limits=InboxLimits(workers=3))
        for number in range(10):
            world.plans[f"app-{number} 1"] = lambda: asyncio.sleep(1)
        await world.put(*(make(Message.CREATE, f"app-{number}") for number in range(10)))
        await asyncio.sleep(0.5)
        assert len(world.begun) == 3
        assert len(asyncio.all_tasks()) == 4
        await world.settled()
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == 1
        assert world.time() == pytest.approx(4.0)

    run(program())


def test_a_gate_bounds_the_work_of_all_inboxes(make: Make) -> None:
    async def program() -> None:
        gate = asyncio.Semaphore(2)
        worlds = [World(gate=gate) for _ in range(4)]
        for world in worlds:
            world.plans["guestbook 1"] = lambda: asyncio.sleep(1)
            await world.put(make(Message.CREATE))
        await asyncio.sleep(0.5)
        assert sum(len(world.begun) for world in worlds) == 2
        for world in worlds:
            await world.settled()

    run(program())


def test_a_passing_error_is_retried_while_the_acknowledgement_waits(make: Make) -> None:
    async def program() -> None:
        world = World()
        world.plans["guestbook 1"] = failing(UnavailableError("no answer"), UnavailableError("no answer"))
        await world.put(make(Message.SPEC_UPDATE))
        await asyncio.sleep(1.5)
        assert not world.acknowledged
        assert len(asyncio.all_tasks()) == 1, "nobody sits and waits for the next try"
        await world.settled()
        assert world.begun == ["guestbook 1"] * 3
        assert world.acknowledged == ["guestbook 1"]
        assert world.time() == pytest.approx(2.0)

    run(program())


def test_it_is_busy_while_something_is_dealt_with_and_not_while_that_waits_to_be_tried_again(
    make: Make,
) -> None:
    async def program() -> None:
        world = World()
        attempts: list[float] = []

        async def plan() -> None:
            attempts.append(world.time())
            await asyncio.sleep(0.2)
            if len(attempts) == 1:
                raise UnavailableError("not now")

        world.plans["guestbook 1"] = plan
        assert not world.inbox.is_busy
        await world.put(make(Message.SPEC_UPDATE))
        for busy in (True, False, True):
            assert world.inbox.is_busy is busy
            await asyncio.sleep(0.21 if busy else 1.0)
        await world.settled()
        assert (len(attempts), world.inbox.is_busy) == (2, False)

    run(program())


def test_retries_end_as_a_dead_letter(make: Make) -> None:
    async def program() -> None:
        world = World(limits=InboxLimits(retry=SECOND, patience_seconds=5))
        world.plans["guestbook 1"] = failing(*(UnavailableError("no answer") for _ in range(100)))
        await world.put(make(Message.SPEC_UPDATE))
        await world.settled()
        (letter,) = world.letters
        assert (letter.reason, letter.attempts) == (DeadLetterReason.EXHAUSTED, 6)
        assert world.acknowledged == ["guestbook 1"]

    run(program())


def test_whoever_is_refused_rests_also_where_every_tenth_event_is_taken(make: Make) -> None:
    async def program() -> None:
        limits = InboxLimits()
        world = World(limits=limits)
        began = world.time()
        for number in range(1_000):
            if number % 10:
                world.plans[f"app-{number} 1"] = failing(InvalidError("no"))
            await world.put(make(Message.SPEC_UPDATE, name=f"app-{number}"))
        await world.settled()
        assert len(world.letters) == 900
        rests = len(world.letters) - len(world.applied) - limits.refusals
        assert world.time() - began > 0.9 * rests * limits.refused_seconds

    run(program())


def test_whoever_was_refused_rests_no_longer_when_enough_was_taken(make: Make) -> None:
    async def program() -> None:
        limits = InboxLimits()
        world = World(limits=limits)
        for number in range(1_000):
            world.plans[f"bad-{number} 1"] = failing(InvalidError("no"))
            await world.put(make(Message.SPEC_UPDATE, name=f"bad-{number}"))
        await world.settled()
        for number in range(2 * limits.refusals):
            await world.put(make(Message.SPEC_UPDATE, name=f"good-{number}"))
        await world.settled()
        began = world.time()
        for number in range(limits.refusals):
            world.plans[f"later-{number} 1"] = failing(InvalidError("no"))
            await world.put(make(Message.SPEC_UPDATE, name=f"later-{number}"))
        await world.settled()
        assert world.time() == began

    run(program())


def test_what_can_never_be_applied_is_reported_once_and_acknowledged(make: Make) -> None:
    async def program() -> None:
        world = World()
        world.plans["guestbook 1"] = failing(InvalidError("spec.project is required"))
        await world.put(make(Message.SPEC_UPDATE))
        await world.settled()
        await world.put(make(Message.SPEC_UPDATE))
        (letter,) = world.letters
        assert letter.reason == DeadLetterReason.REJECTED
        assert letter.key == "application/argocd/guestbook"
        assert letter.message == "spec.project is required"
        assert world.begun == ["guestbook 1"]
        assert world.acknowledged == ["guestbook 1", "guestbook 1"]

    run(program())


def test_a_repositorys_dead_letter_does_not_quote_the_api_server() -> None:
    event = Event(type=Message.CREATE, target=Target.REPOSITORY, resource_id="r", event_id="e")
    error = InvalidError("data.password: hunter2")
    letter = DeadLetter(
        peer="agent-a", key="k", event=event, reason=DeadLetterReason.REJECTED, error=error, attempts=1
    )
    assert letter.message == letter.log_message == "InvalidError"


def test_the_log_line_of_a_dead_letter_has_fields_and_no_values() -> None:
    event = Event(type=Message.CREATE, target=Target.APPLICATION, resource_id="r", event_id="e")
    field = "spec.source.helm.parameters[0].value"
    words = f'Application.argoproj.io "web" is invalid: {field}: Invalid value: "hunter2": too short'
    causes = [{"reason": "FieldValueInvalid", "message": 'Invalid value: "hunter2"', "field": field}]
    error = InvalidError(words, status={"details": {"causes": causes}})
    letter = DeadLetter(
        peer="agent-a", key="k", event=event, reason=DeadLetterReason.REJECTED, error=error, attempts=1
    )
    with structlog.testing.capture_logs() as lines:
        log_dead_letter(letter)
    assert [line["error"] for line in lines] == [f"InvalidError: {field} (FieldValueInvalid)"]
    assert letter.message == words  # the condition is read by those who may read the object


def test_a_handlers_crash_is_noticed_tried_again_and_reported(make: Make) -> None:
    async def program() -> None:
        world = World()
        world.plans["broken 1"] = failing(*(KeyError("spec") for _ in range(100)))
        world.plans["cancelled 1"] = _cancels_itself
        with structlog.testing.capture_logs() as lines:
            await world.put(make(Message.SPEC_UPDATE, "broken"), make(Message.SPEC_UPDATE, "cancelled"))
            await world.settled()
        assert [letter.reason for letter in world.letters] == [
            DeadLetterReason.CRASHED,
            DeadLetterReason.CRASHED,
        ]
        assert world.seen.count("crash") == 6
        assert sorted(world.acknowledged) == ["broken 1", "cancelled 1"]
        assert {line["event"] for line in lines} == {"handler crashed", "dead letter"}

    run(program())


def test_a_handler_that_hangs_counts_as_a_passing_error(make: Make) -> None:
    async def program() -> None:
        world = World(limits=InboxLimits(retry=SECOND, handling_seconds=3))
        world.plans["guestbook 1"] = _Once(lambda: asyncio.sleep(1000))
        await world.put(make(Message.SPEC_UPDATE))
        await world.settled()
        assert world.seen == ["retry"]
        assert world.acknowledged == ["guestbook 1"]

    run(program())


def test_a_report_that_cannot_be_made_does_not_hold_up_the_rest(make: Make) -> None:
    async def program() -> None:
        async def report(letter: DeadLetter) -> None:
            raise UnavailableError("no answer")

        world = World(report=report)
        world.plans["guestbook 1"] = failing(InvalidError("no"))
        await world.put(make(Message.SPEC_UPDATE, version=1), make(Message.SPEC_UPDATE, version=2))
        await world.settled()
        assert world.acknowledged == ["guestbook 1", "guestbook 2"]

    run(program())


def test_a_reader_waits_when_too_many_bytes_do(make: Make) -> None:
    async def program() -> None:
        world = World(limits=InboxLimits(bytes=10_000, workers=1))
        for number in range(4):
            world.plans[f"app-{number} 1"] = lambda: asyncio.sleep(1)
        for number in range(4):
            await world.put(make(Message.CREATE, f"app-{number}", padding=7_000))
            assert world.inbox.bytes < 10_000
        assert world.time() == pytest.approx(3.0)
        await world.settled()
        assert world.inbox.bytes == 0

    run(program())


def test_an_event_larger_than_the_bound_is_taken_alone(make: Make) -> None:
    async def program() -> None:
        world = World(limits=InboxLimits(bytes=10))
        await world.put(make(Message.CREATE, padding=7_000))
        await world.settled()
        assert world.applied == ["guestbook 1"]

    run(program())


def test_a_worker_that_dies_of_our_own_mistake_is_noticed_by_the_reader(make: Make) -> None:
    async def program() -> None:
        world = World()

        def broken(event: Event) -> None:
            raise ZeroDivisionError

        world.inbox._acknowledge = broken
        with structlog.testing.capture_logs() as lines:
            await world.put(make(Message.SPEC_UPDATE))
            await asyncio.sleep(1)
        assert [line["event"] for line in lines] == ["inbox worker died"]
        with pytest.raises(RuntimeError, match="agent-a died"):
            await world.put(make(Message.SPEC_UPDATE, version=2))

    run(program())


def test_a_closed_inbox_leaves_what_is_not_applied_to_the_peers_resend(make: Make) -> None:
    async def program() -> None:
        world = World()
        world.plans["guestbook 1"] = lambda: asyncio.sleep(1000)
        await world.put(make(Message.SPEC_UPDATE))
        await asyncio.sleep(1)
        await world.inbox.close()
        assert not world.acknowledged
        assert len(asyncio.all_tasks()) == 1

    run(program())


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (InvalidError("no"), DeliveryVerdict.REJECT),
        (NotFoundError("no"), DeliveryVerdict.REJECT),
        (ForbiddenError("denied the request"), DeliveryVerdict.REJECT),
        (ForbiddenError("exceeded quota: count"), DeliveryVerdict.RETRY),
        (MalformedError("no JSON"), DeliveryVerdict.REJECT),
        (ConflictError("changed"), DeliveryVerdict.RETRY),
        (UnauthorizedError("token expired"), DeliveryVerdict.RETRY),
        (TimeoutError(), DeliveryVerdict.RETRY),
        (ConnectionResetError(), DeliveryVerdict.RETRY),
        (KeyError("spec"), DeliveryVerdict.CRASH),
    ],
    ids=lambda value: value.name if isinstance(value, DeliveryVerdict) else repr(value),
)
def test_errors_are_judged_by_whether_another_try_can_help(
    error: Exception, verdict: DeliveryVerdict
) -> None:
    assert judge(error) is verdict


class _Once:
    def __init__(self, plan: Callable[[], Awaitable[None]]) -> None:
        self._plan: Callable[[], Awaitable[None]] | None = plan

    async def __call__(self) -> None:
        plan, self._plan = self._plan, None
        if plan is not None:
            await plan()


async def _cancels_itself() -> None:
    raise asyncio.CancelledError


def test_peers_share_what_may_wait_and_each_goes_on_with_its_share(make: Make) -> None:
    async def program() -> None:
        budget = Budget(limit=10_000, share=4_000)
        busy, modest = World(budget=budget), World(budget=budget)
        for world in (busy, modest):
            for number in range(10):
                world.plans[f"app-{number} 1"] = lambda: asyncio.sleep(1)
        events = [make(Message.CREATE, f"app-{number}", padding=2_000) for number in range(10)]
        flood = asyncio.ensure_future(busy.put(*events))
        await asyncio.sleep(0)
        assert not flood.done()
        assert busy.inbox.bytes <= budget.limit
        await modest.put(events[0])
        late = asyncio.ensure_future(modest.put(*events[1:]))
        async with asyncio.timeout(1_000):
            await asyncio.gather(flood, late)
        await busy.settled()
        await modest.settled()
        assert len(busy.applied) == len(modest.applied) == len(events)
        assert budget.used == 0

    run(program())


def test_an_inbox_that_closes_returns_its_part(make: Make) -> None:
    async def program() -> None:
        budget = Budget(limit=10_000)
        world = World(budget=budget)
        world.plans["guestbook 1"] = lambda: asyncio.sleep(100)
        await world.put(make(Message.CREATE))
        assert budget.used > 0
        await world.inbox.close()
        assert budget.used == 0

    run(program())
