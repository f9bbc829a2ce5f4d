"""What an agent that is asked begins, when, how much of it at a time, and what it remembers of it."""

import asyncio
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from argocd.agents.vocabulary import Message, Target
from kube.embedded import EmbeddedStore
from kube.embedded.hooks import Call, Hooks
from kube.resources import APP_PROJECTS
from sidecars.delivery.interactive import DEADLINE
from sidecars.mirroring.link import STATE_SECONDS
from sidecars.proxies import dispatcher
from sidecars.proxies.redis.caches import AgentRedisCaches
from sidecars.proxies.requests import NoAnswerError
from sidecars.wire.events import object_event
from tests.sidecars.pair_in_memory import ARGOCD, project
from tests.sidecars.proxies.test_requests import AGENT, question, world
from tests.simulation.virtual_time import run


def test_no_more_than_its_slots_run_at_a_time_and_the_rest_follow() -> None:
    async def program() -> None:
        async with world(slots=3) as at:
            at.echo.gate.clear()
            waiting = [at.begin(str(number)) for number in range(20)]
            await asyncio.sleep(0.1)
            at.echo.gate.set()
            await asyncio.gather(*waiting)
            assert at.echo.most_at_once == 3

    run(program())


def test_a_few_new_ones_run_at_a_time_and_slow_ones_hold_up_nobody() -> None:
    async def program() -> None:
        async with world() as at:
            at.echo.gate.clear()
            waiting = [at.begin(str(number)) for number in range(20)]
            await asyncio.sleep(dispatcher.SLOW_SECONDS / 2)
            assert at.echo.at_once == dispatcher.TURNS
            await asyncio.sleep(20 / dispatcher.TURNS * dispatcher.SLOW_SECONDS)
            assert at.echo.at_once == 20
            at.echo.gate.set()
            await asyncio.gather(*waiting)
            assert await at.ask("and on") == "and on"
            assert at.agent.dispatcher._served[Target.RESOURCE].turns.taken == 0, "all given back"

    run(program())


def test_fewer_run_at_a_time_while_a_change_is_on_its_way_to_the_principal() -> None:
    async def program() -> None:
        async with world() as at:
            at.echo.gate.clear()
            change = object_event(Message.STATUS_UPDATE, target=Target.APPLICATION, obj=project("web"))
            at.agent.link.send(change)
            waiting = [at.begin(str(number)) for number in range(20)]
            await asyncio.sleep(dispatcher.SLOW_SECONDS / 2)
            assert at.echo.at_once == dispatcher.TURNS_BESIDE_STATE
            at.echo.gate.set()
            await asyncio.gather(*waiting)

    run(program())


def test_fewer_run_at_a_time_while_the_agent_writes_a_change_of_the_principal() -> None:
    async def program() -> None:
        written = asyncio.Event()

        async def slowly(call: Call) -> None:
            if call.resource is APP_PROJECTS and call.verb == "create":
                await written.wait()

        store = EmbeddedStore(namespaces=[ARGOCD], hooks=Hooks(faults=slowly))
        async with world(workload=store) as at:
            at.echo.gate.clear()
            await at.here.send(object_event(Message.SPEC_UPDATE, target=Target.PROJECT, obj=project("web")))
            await asyncio.sleep(2 * STATE_SECONDS)
            waiting = [at.begin(str(number)) for number in range(20)]
            await asyncio.sleep(dispatcher.SLOW_SECONDS / 2)
            assert at.echo.at_once == dispatcher.TURNS_BESIDE_STATE
            written.set()
            at.echo.gate.set()
            await asyncio.gather(*waiting)

    run(program())


def test_a_storm_of_words_that_nobody_waits_for_keeps_no_question_out() -> None:
    async def program() -> None:
        async with world() as at:
            at.agent.dispatcher.serve(Target.RESOURCE, at.echo, unawaited=1000)
            at.echo.gate.clear()
            for number in range(1000):
                at.agent.dispatcher.receive(question(str(number)))
            asked = at.begin("and a question")
            await asyncio.sleep(0.1)
            at.echo.gate.set()
            assert await asked == "and a question"

    run(program())


def test_what_only_few_may_do_at_a_time_takes_no_slot_while_it_waits() -> None:
    async def program() -> None:
        async with world() as at:
            few = asyncio.Semaphore(1)
            at.agent.dispatcher.serve(
                Target.RESOURCE,
                at.echo,
                slots=3,
                place=lambda event: few if event.payload.startswith(b"list") else nullcontext(),
            )
            at.echo.gate.clear()
            lists = [at.begin(f"list {number}") for number in range(10)]
            await asyncio.sleep(1)
            objects = [at.begin("one"), at.begin("two")]
            await asyncio.sleep(1)
            assert at.echo.began == [b"list 0", b"one", b"two"]
            at.echo.gate.set()
            await asyncio.gather(*lists, *objects)

    run(program())


def test_what_did_not_begin_before_its_deadline_never_begins() -> None:
    async def program() -> None:
        async with world(slots=1) as at:
            at.echo.gate.clear()
            first, second = at.begin("first", seconds=60), at.begin("second", method="POST", seconds=5)
            with pytest.raises(NoAnswerError, match="whether it carried the request out is not known"):
                await second
            at.echo.gate.set()
            assert await first == "first"
            await asyncio.sleep(1)
            assert at.echo.began == [b"first"]

    run(program())


def test_what_comes_when_its_time_is_over_never_begins() -> None:
    async def program() -> None:
        async with world() as at:
            late = replace(question("late", method="POST"), extensions={DEADLINE: "0"})
            at.agent.dispatcher.receive(late)
            await asyncio.sleep(1)
            assert at.echo.began == []
            answers = [event.payload for event in at.there.sent if event.target == Target.RESOURCE]
            assert answers == [b"504 its time was over when it came"]

    run(program())


def test_a_duplicate_of_what_changes_something_runs_once() -> None:
    async def program() -> None:
        async with world() as at:
            event = question("one", method="POST")
            for _ in range(3):
                at.agent.dispatcher.receive(event)
                await asyncio.sleep(0.1)
            await asyncio.sleep(dispatcher.REMEMBERED_SECONDS - 1)
            at.agent.dispatcher.receive(event)
            await asyncio.sleep(0.1)
            assert at.echo.began == [b"one"]

    run(program())


def test_a_name_under_which_an_agent_is_asked_for_keys_is_forgotten_with_it() -> None:
    async def program() -> None:
        async with world() as at:
            placing: Any = None
            caches = AgentRedisCaches(at.principal.requests, placing)
            caches._uuids = {AGENT: "1", "agent-gone": "2"}
            running = asyncio.ensure_future(caches.run())
            await asyncio.sleep(61)
            assert caches._uuids == {AGENT: "1"}
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    run(program())
