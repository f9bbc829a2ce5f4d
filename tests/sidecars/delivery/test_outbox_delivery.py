"""Until a peer acknowledges: resends, reconnects, bounds."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from argocd.agents.vocabulary import Message
from sidecars.delivery.observers import OutboxObserver, OverflowedKeys
from sidecars.delivery.outbox import Outbox, OutboxLimits
from sidecars.delivery.timing import Backoff, Budget, Timing
from sidecars.wire.events import Event, acknowledgement
from tiphys.errors import CallError

Make = Callable[..., Event]
STEADY = OutboxLimits(resend=Backoff(base=5.0, factor=2.0, ceiling=15.0, jitter=0.0))


@pytest.fixture
def outbox(timing: Timing) -> Outbox:
    return Outbox(peer="agent-a", timing=timing, limits=STEADY)


def take(outbox: Outbox) -> Event:
    event = outbox.take()
    assert event is not None
    return event


def test_an_event_is_sent_again_unchanged_until_it_is_acknowledged(
    outbox: Outbox, make: Make, clock: Any
) -> None:
    outbox.add(make(Message.SPEC_UPDATE))
    first = take(outbox)
    for wait in (5, 10, 15, 15):
        clock.advance(wait - 0.1)
        assert outbox.take() is None
        clock.advance(0.1)
        assert take(outbox) == first
    assert outbox.acknowledge(acknowledgement(first))
    clock.advance(1000)
    assert outbox.take() is None
    assert outbox.figures().resent == 4


def test_jitter_spreads_resends() -> None:
    backoff = Backoff(base=5.0, jitter=0.5)
    delays = {backoff.delay(1, Random(seed)) for seed in range(50)}
    assert len(delays) == 50
    assert all(5.0 <= delay <= 7.5 for delay in delays)
    assert backoff.delay(10_000, Random(1)) <= 180.0


def test_a_new_stream_gets_all_that_was_under_way_at_once_and_in_order(outbox: Outbox, make: Make) -> None:
    names = ["c", "a", "b"]
    for name in names:
        outbox.add(make(Message.SPEC_UPDATE, name))
    before = [take(outbox) for _ in names]
    assert outbox.take() is None
    outbox.resume()
    assert [take(outbox) for _ in names] == before


def test_what_is_stale_is_not_sent_again(outbox: Outbox, make: Make) -> None:
    outbox.add(make(Message.SPEC_UPDATE, version=1))
    stale = take(outbox)
    outbox.add(make(Message.SPEC_UPDATE, version=2))
    assert outbox.take() is None
    outbox.resume()
    assert take(outbox).event_id.endswith("_2")
    assert not outbox.acknowledge(acknowledgement(stale))
    assert outbox.take() is None


def test_a_deletion_does_not_wait_for_an_event_that_the_peer_cannot_deal_with(
    outbox: Outbox, make: Make, clock: Any
) -> None:
    outbox.add(make(Message.SPEC_UPDATE, version=1))
    take(outbox)
    clock.advance(5)
    take(outbox)  # no answer to the first, and the next resend is 10 s away
    outbox.add(make(Message.DELETE, version=2))
    assert take(outbox).type == Message.DELETE


def test_a_command_under_way_is_sent_again_although_state_follows(outbox: Outbox, make: Make) -> None:
    outbox.add(make(Message.SET_OPERATION, version=1))
    command = take(outbox)
    outbox.add(make(Message.SPEC_UPDATE, version=2))
    outbox.resume()
    assert take(outbox) == command


def test_an_acknowledgement_counts_once_and_only_for_its_event(outbox: Outbox, make: Make) -> None:
    # Made from one version of an object, these two share both ids.
    outbox.add(make(Message.SPEC_UPDATE, version=1))
    update = take(outbox)
    outbox.add(make(Message.SET_OPERATION, version=1))
    assert outbox.acknowledge(acknowledgement(update))
    command = take(outbox)
    assert (command.resource_id, command.event_id) == (update.resource_id, update.event_id)
    assert not outbox.acknowledge(acknowledgement(update))
    assert outbox.figures().under_way == 1
    assert outbox.acknowledge(acknowledgement(command))


def test_an_acknowledgement_without_our_number_is_matched_by_its_ids(outbox: Outbox, make: Make) -> None:
    outbox.add(make(Message.SPEC_UPDATE, "other"))
    outbox.add(make(Message.SPEC_UPDATE))
    take(outbox)
    bare = replace(acknowledgement(take(outbox)), extensions={})
    assert outbox.acknowledge(bare)
    assert not outbox.acknowledge(bare)
    assert outbox.figures().under_way == 1


def test_an_acknowledgement_for_an_earlier_process_changes_nothing(
    outbox: Outbox, make: Make, timing: Timing
) -> None:
    earlier = Outbox(peer="agent-a", timing=timing)
    for box in (earlier, outbox):
        box.add(make(Message.SPEC_UPDATE))
    ours = take(outbox)
    assert not outbox.acknowledge(acknowledgement(take(earlier)))
    assert outbox.acknowledge(acknowledgement(ours))


def test_a_full_outbox_marks_the_key_and_keeps_what_it_has(make: Make, timing: Timing) -> None:
    told: list[str] = []

    class Observer(OutboxObserver):
        def marked(self, peer: str, key: str) -> None:
            told.append(f"{peer} {key}")

    limits = OutboxLimits(bytes=20_000, reserve_bytes=5_000)
    outbox = Outbox(peer="agent-a", timing=timing, limits=limits, observer=Observer())
    assert outbox.add(make(Message.SPEC_UPDATE, "first", padding=15_000))
    assert not outbox.add(make(Message.SPEC_UPDATE, "second", padding=5_000))
    assert outbox.add(make(Message.SET_OPERATION, "third", padding=5_000)), "commands have a reserve"
    assert told == ["agent-a application/argocd/second"]
    assert outbox.take_marks() == OverflowedKeys(("application/argocd/second",))
    assert not outbox.take_marks()
    assert outbox.figures().waiting == 2


def test_newer_state_that_does_not_fit_takes_the_stale_with_it(make: Make, timing: Timing) -> None:
    outbox = Outbox(peer="agent-a", timing=timing, limits=OutboxLimits(bytes=20_000))
    assert outbox.add(make(Message.SPEC_UPDATE, "first", padding=10_000))
    assert outbox.add(make(Message.SPEC_UPDATE, "second", version=1))
    assert not outbox.add(make(Message.SPEC_UPDATE, "second", version=2, padding=9_000))
    assert outbox.take_marks().keys == ("application/argocd/second",)
    assert take(outbox).subject == "argocd/first"
    assert outbox.take() is None
    assert outbox.figures().bytes < 12_000


def test_a_command_is_refused_while_the_state_that_it_was_given_for_is_missing(
    make: Make, timing: Timing
) -> None:
    outbox = Outbox(peer="agent-a", timing=timing, limits=OutboxLimits(bytes=20_000))
    assert outbox.add(make(Message.SPEC_UPDATE, "first", padding=18_000))
    assert not outbox.add(make(Message.SPEC_UPDATE, "second"))
    assert not outbox.add(make(Message.SET_OPERATION, "second"))
    assert outbox.add(make(Message.SET_OPERATION, "first"))
    assert outbox.add(make(Message.DELETE, "second"))
    assert outbox.take_marks()
    assert outbox.add(make(Message.SET_OPERATION, "second"))


def test_one_event_always_fits(make: Make, timing: Timing) -> None:
    outbox = Outbox(peer="agent-a", timing=timing, limits=OutboxLimits(bytes=1))
    assert outbox.add(make(Message.SPEC_UPDATE, padding=1_000_000))


def test_too_many_marks_mean_everything(make: Make, timing: Timing) -> None:
    outbox = Outbox(peer="agent-a", timing=timing, limits=OutboxLimits(bytes=1, marks=2))
    for number in range(5):
        outbox.add(make(Message.SPEC_UPDATE, f"app-{number}"))
    assert outbox.take_marks() == OverflowedKeys((), everything=True)


def test_peers_share_a_budget_and_return_their_part(make: Make, timing: Timing) -> None:
    budget = Budget(limit=10_000, share=0)
    away = Outbox(peer="away", timing=timing, budget=budget)
    here = Outbox(peer="here", timing=timing, budget=budget)
    away.add(make(Message.SPEC_UPDATE, padding=8_000))
    assert here.add(make(Message.SPEC_UPDATE, "first"))
    assert not here.add(make(Message.SPEC_UPDATE, "second"))
    away.clear()
    assert here.add(make(Message.SPEC_UPDATE, "second"))
    for _ in range(2):
        here.acknowledge(acknowledgement(take(here)))
    assert budget.used == 0


def test_a_peer_that_is_there_has_its_share_while_others_have_used_up_the_budget(
    make: Make, timing: Timing
) -> None:
    budget = Budget(limit=10_000, share=5_000)
    away = Outbox(peer="away", timing=timing, budget=budget)
    here = Outbox(peer="here", timing=timing, budget=budget)
    away.add(make(Message.SPEC_UPDATE, padding=20_000))
    for version in range(20):
        assert here.add(make(Message.SPEC_UPDATE, f"app-{version}"))
        here.acknowledge(acknowledgement(take(here)))
    assert here.add(make(Message.SPEC_UPDATE, "first"))
    assert not here.add(make(Message.SPEC_UPDATE, "second", padding=4_000))
    assert here.take_marks()


def test_acknowledgements_are_bounded_because_the_peer_asks_again(make: Make, timing: Timing) -> None:
    outbox = Outbox(peer="agent-a", timing=timing, limits=OutboxLimits(acknowledgements=2))
    for version in (1, 2, 3):
        outbox.add(acknowledgement(make(Message.SPEC_UPDATE, version=version)))
    assert [take(outbox).event_id[-1] for _ in range(2)] == ["2", "3"]


def test_figures_tell_age_bytes_and_latency(make: Make, timing: Timing, clock: Any) -> None:
    seconds: list[float] = []

    class Observer(OutboxObserver):
        def acknowledged(self, peer: str, event: Event, seconds_since: float) -> None:
            seconds.append(seconds_since)

    outbox = Outbox(peer="agent-a", timing=timing, observer=Observer())
    outbox.add(make(Message.SPEC_UPDATE, "first", padding=5_000))
    clock.advance(3)
    outbox.add(make(Message.SPEC_UPDATE, "second"))
    clock.advance(1)
    figures = outbox.figures()
    assert figures.oldest_seconds == 4
    assert 7_000 < figures.bytes < 8_000
    outbox.acknowledge(acknowledgement(take(outbox)))
    assert seconds == [4]
    assert outbox.figures().oldest_seconds == 1


async def test_next_waits_for_an_event_and_holds_no_timer_when_idle(make: Make) -> None:
    outbox = Outbox(peer="agent-a")
    async with asyncio.timeout(30):
        waiting = asyncio.create_task(outbox.next())
        await asyncio.sleep(0)
        assert not _timers()
        outbox.add(make(Message.SPEC_UPDATE))
        event = await waiting
        waiting = asyncio.create_task(outbox.next())
        await asyncio.sleep(0)
        assert len(_timers()) == 1, "the resend"
        outbox.acknowledge(acknowledgement(event))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not _timers()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def test_next_sends_again_when_the_time_has_come(make: Make) -> None:
    outbox = Outbox(peer="agent-a", limits=OutboxLimits(resend=Backoff(base=0.001)))
    outbox.add(make(Message.SPEC_UPDATE))
    async with asyncio.timeout(30):
        assert await outbox.next() == await outbox.next()


async def test_two_readers_at_once_are_refused() -> None:
    outbox = Outbox(peer="agent-a")
    waiting = asyncio.create_task(outbox.next())
    await asyncio.sleep(0)
    with pytest.raises(CallError, match="two streams"):
        await outbox.next()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)


async def test_an_outbox_is_settled_when_all_is_acknowledged(make: Make) -> None:
    outbox = Outbox(peer="agent-a")
    outbox.add(make(Message.SPEC_UPDATE))
    settled = asyncio.create_task(outbox.settled())
    event = take(outbox)
    await asyncio.sleep(0)
    assert not settled.done()
    outbox.acknowledge(acknowledgement(event))
    async with asyncio.timeout(30):
        await settled


def _timers() -> list[asyncio.TimerHandle]:
    """Those of outboxes; the test's own time limit has one too."""
    scheduled: list[asyncio.TimerHandle] = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
    return [timer for timer in scheduled if not timer.cancelled() and "Outbox" in repr(timer)]
