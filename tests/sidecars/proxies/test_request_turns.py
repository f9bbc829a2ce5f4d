"""A crowd of readers takes turns, and what keeps Applications in step does not wait behind it."""

import asyncio

from argocd.agents.vocabulary import Message, Target
from sidecars.mirroring.link import STATE_SECONDS
from sidecars.proxies import dispatcher, request_turns, requests
from sidecars.proxies.request_turns import RequestTurns
from sidecars.proxies.requests import WITHDRAW
from sidecars.wire.events import object_event
from tests.sidecars.pair_in_memory import project
from tests.sidecars.proxies.test_requests import AGENT, world
from tests.simulation.virtual_time import run


def test_a_change_passes_a_crowd_of_readers_after_a_bounded_number_of_them() -> None:
    async def program() -> None:
        async with world() as at:
            at.echo.gate.clear()
            readers = [at.begin(str(number)) for number in range(100)]
            await asyncio.sleep(0)  # all of them have asked, and nothing has left
            link = at.principal.requests._link_of(AGENT)
            assert link is not None
            change = object_event(Message.SPEC_UPDATE, target=Target.PROJECT, obj=project("web"))
            link.send(change)
            await asyncio.sleep(requests.SLOW_SECONDS / 2)
            sent = [event.target for event in at.here.sent]
            assert sent.index(Target.PROJECT) <= requests.TURNS, "before the others of them leave"
            assert change.event_id in [event.event_id for event in at.there.sent if event.is_acknowledgement]
            assert len(at.asked()) == requests.TURNS
            assert len(at.echo.began) == dispatcher.TURNS_BESIDE_STATE, (
                "dealt with beside a few that are at work"
            )
            at.echo.gate.set()
            assert await asyncio.gather(*readers) == [str(number) for number in range(100)]

    run(program())


def test_who_leaves_while_it_waits_for_its_turn_was_never_asked_for() -> None:
    async def program() -> None:
        async with world() as at:
            at.echo.gate.clear()
            readers = [at.begin(str(number)) for number in range(requests.TURNS)]
            late = at.begin("late", method="POST")
            await asyncio.sleep(requests.SLOW_SECONDS / 2)
            late.cancel()
            at.echo.gate.set()
            await asyncio.gather(*readers)
            assert "late" not in at.asked()
            assert WITHDRAW not in [event.type for event in at.here.sent]
            assert not at.principal.requests._turns

    run(program())


def test_slow_answers_hold_up_nobody() -> None:
    async def program() -> None:
        async with world() as at:
            at.echo.gate.clear()
            readers = [at.begin(str(number)) for number in range(2 * requests.TURNS)]
            await asyncio.sleep(requests.SLOW_SECONDS / 2)
            assert len(at.asked()) == requests.TURNS
            await asyncio.sleep(requests.SLOW_SECONDS)
            assert len(at.asked()) == 2 * requests.TURNS
            at.echo.gate.set()
            await asyncio.gather(*readers)

    run(program())


def test_readers_take_fewer_turns_while_a_change_is_on_its_way() -> None:
    async def program() -> None:
        async with world() as at:
            link = at.principal.requests._link_of(AGENT)
            assert link is not None
            at.echo.gate.clear()
            link.send(object_event(Message.SPEC_UPDATE, target=Target.PROJECT, obj=project("web")))
            readers = [at.begin(str(number)) for number in range(100)]
            await asyncio.sleep(requests.SLOW_SECONDS / 2)
            assert len(at.asked()) == requests.TURNS_BESIDE_STATE
            await asyncio.sleep(STATE_SECONDS)
            before = len(at.asked())
            await asyncio.sleep(requests.SLOW_SECONDS)
            assert len(at.asked()) == before + requests.TURNS, "and as many as ever when it has arrived"
            at.echo.gate.set()
            assert await asyncio.gather(*readers) == [str(number) for number in range(100)]

    run(program())


def test_nobodys_turn_comes_right_after_a_change_has_left() -> None:
    async def program() -> None:
        async with world() as at:
            link = at.principal.requests._link_of(AGENT)
            assert link is not None
            link.send(object_event(Message.SPEC_UPDATE, target=Target.PROJECT, obj=project("web")))
            readers = [at.begin(str(number)) for number in range(100)]
            await asyncio.sleep(requests.APPLYING_SECONDS / 2)
            assert at.asked() == []
            await asyncio.sleep(requests.APPLYING_SECONDS)
            assert len(at.asked()) >= requests.TURNS_BESIDE_STATE
            assert await asyncio.gather(*readers) == [str(number) for number in range(100)]

    run(program())


def test_changes_without_end_let_a_reader_go_on_after_each_pause() -> None:
    async def program() -> None:
        turns = RequestTurns(lambda: 0, seconds=60.0)
        held = [turns.turn() for _ in range(5)]
        taking = [asyncio.ensure_future(turns.take(turn)) for turn in held]
        for turn, taken in zip(held, taking, strict=True):
            await asyncio.sleep(request_turns.PAUSE_SECONDS * 0.9)
            assert not taken.done()
            await asyncio.sleep(request_turns.PAUSE_SECONDS * 0.2)
            assert (taken.done(), turns.taken) == (True, 1)
            turns.give(turn)
        assert turns._timer is None

    run(program())


def test_who_leaves_in_the_moment_in_which_it_is_called_passes_its_turn_on() -> None:
    async def program() -> None:
        turns = RequestTurns(lambda: 1, seconds=60.0)
        first = turns.turn()
        await turns.take(first)
        leaving, next_one = (asyncio.ensure_future(turns.take(turns.turn())) for _ in range(2))
        await asyncio.sleep(0)  # both wait
        turns.give(first)
        leaving.cancel()
        async with asyncio.timeout(1.0):
            await next_one
        assert leaving.cancelled()
        assert turns.taken == 1

    run(program())
