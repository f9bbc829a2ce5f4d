"""A request to an agent: its deadline, its withdrawal, its duplicates, and whose answer counts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from argocd.agents.vocabulary import Message, Target
from kube.store import Store
from sidecars.agent.agent import Agent
from sidecars.delivery.interactive import InteractiveLimits
from sidecars.principal.principal import Principal
from sidecars.proxies import requests
from sidecars.proxies.requests import (
    AgentNotConnectedError,
    NoAnswerError,
    RequestLimitError,
    RequestTooLargeError,
)
from sidecars.wire.capabilities import READS
from sidecars.wire.events import Event, message_event
from tests.sidecars.pair_in_memory import OURS, PLAIN, Pair, Pipe, connected
from tests.sidecars.virtual_clock import runtime
from tests.simulation.virtual_time import run
from tiphys.errors import ObjectError

AGENT = "agent-a"


class Echo:
    """Answers with what it was asked, when it may."""

    def __init__(self) -> None:
        self.began: list[bytes] = []
        self.cancelled: list[bytes] = []
        self.at_once = 0
        self.most_at_once = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def handle(self, event: Event) -> bytes | None:
        self.began.append(event.payload)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled.append(event.payload)
            raise
        finally:
            self.at_once -= 1
        if event.payload == b"crash":
            raise RuntimeError("a mistake")
        return event.payload

    def refusal(self, event: Event, *, status: int, message: str) -> bytes | None:
        return f"{status} {message}".encode()

    def mutates(self, event: Event) -> bool:
        return event.type != "GET"


class World:
    def __init__(self, principal: Principal, agent: Agent, here: Pipe, there: Pipe, echo: Echo) -> None:
        self.principal = principal
        self.agent = agent
        self.here = here
        self.there = there
        self.echo = echo

    async def ask(self, text: str, *, method: str = "GET", seconds: float = 30.0) -> str:
        event = question(text, method=method)
        answer = await self.principal.requests.ask(AGENT, event, seconds=seconds, mutates=method != "GET")
        return answer.payload.decode()

    def begin(self, text: str, *, method: str = "GET", seconds: float = 30.0) -> asyncio.Task[str]:
        return asyncio.ensure_future(self.ask(text, method=method, seconds=seconds))

    def asked(self) -> list[str]:
        return [event.payload.decode() for event in self.here.sent if event.target == Target.RESOURCE]


def question(text: str, *, method: str = "GET") -> Event:
    return message_event(method, target=Target.RESOURCE, payload=text.encode())


@asynccontextmanager
async def world(
    *, slots: int = 64, extensions: frozenset[str] = OURS, workload: Store | None = None
) -> AsyncIterator[World]:
    pair = Pair(runtime=runtime(), workload=workload)
    async with (
        pair.principal_alone() as principal,
        pair.agent_alone() as agent,
        connected(principal, agent, extensions=extensions) as (here, there),
    ):
        echo = Echo()
        agent.dispatcher.serve(Target.RESOURCE, echo, slots=slots)
        await asyncio.sleep(1)
        here.sent.clear()
        there.sent.clear()
        yield World(principal, agent, here, there, echo)


def test_an_agent_answers_what_it_is_asked() -> None:
    async def program() -> None:
        async with world() as at:
            assert await at.ask("one") == "one"
            answers = await asyncio.gather(*(at.ask(str(number)) for number in range(100)))
            assert answers == [str(number) for number in range(100)]

    run(program())


def test_the_agent_gives_up_at_the_deadline_by_itself() -> None:
    async def program() -> None:
        async with world() as at:
            at.echo.gate.clear()
            with pytest.raises(NoAnswerError, match="gave no answer within 5 s"):
                await at.ask("one", seconds=5)
            await asyncio.sleep(1)
            assert at.echo.cancelled == [b"one"]

    run(program())


def test_a_caller_who_leaves_takes_the_request_along() -> None:
    async def program() -> None:
        async with world() as at:
            at.echo.gate.clear()
            asking = at.begin("one")
            await asyncio.sleep(0.1)
            asking.cancel()
            await asyncio.sleep(0.1)
            assert at.echo.cancelled == [b"one"]
            assert not [event for event in at.there.sent if event.target == Target.RESOURCE], (
                "no answer to nobody"
            )

    run(program())


def test_a_read_that_is_under_way_is_sent_again_on_the_next_stream_and_a_change_is_not() -> None:
    async def program() -> None:
        pair = Pair(runtime=runtime())
        async with pair.principal_alone() as principal, pair.agent_alone() as agent:
            echo = Echo()
            agent.dispatcher.serve(Target.RESOURCE, echo)
            async with connected(principal, agent) as (here, _):
                await asyncio.sleep(1)
                here.drops = lambda event: event.target == Target.RESOURCE  # the stream is about to die
                read = asyncio.ensure_future(principal.requests.ask(AGENT, question("read"), seconds=20))
                write = asyncio.ensure_future(
                    principal.requests.ask(AGENT, question("write", method="PUT"), seconds=20, mutates=True)
                )
                await asyncio.sleep(1)
            async with connected(principal, agent):
                assert (await read).payload == b"read"
                with pytest.raises(NoAnswerError, match="not known"):
                    await write
            assert echo.began == [b"read"]

    run(program())


def test_an_answer_finds_its_way_over_the_next_stream() -> None:
    async def program() -> None:
        pair = Pair(runtime=runtime())
        async with pair.principal_alone() as principal, pair.agent_alone() as agent:
            echo = Echo()
            agent.dispatcher.serve(Target.RESOURCE, echo)
            echo.gate.clear()
            async with connected(principal, agent):
                await asyncio.sleep(1)
                asking = asyncio.ensure_future(
                    principal.requests.ask(AGENT, question("write", method="POST"), seconds=20, mutates=True)
                )
                await asyncio.sleep(1)
            echo.gate.set()
            await asyncio.sleep(1)
            async with connected(principal, agent):
                assert (await asking).payload == b"write"
            assert echo.began == [b"write"]

    run(program())


def test_towards_a_go_agent_nothing_is_sent_twice_and_nothing_withdrawn() -> None:
    async def program() -> None:
        async with world(extensions=PLAIN) as at:
            at.echo.gate.clear()
            asking = at.begin("one")
            await asyncio.sleep(0.1)
            asking.cancel()
            at.principal.known_agents.get(AGENT).link.outbox.resume()  # type: ignore[union-attr]
            await asyncio.sleep(60)
            assert at.asked() == ["one"]

    run(program())


def test_an_answer_of_an_agent_that_was_not_asked_is_refused() -> None:
    async def program() -> None:
        async with world() as at:
            at.echo.gate.clear()
            event = question("one")
            asking = asyncio.ensure_future(at.principal.requests.ask(AGENT, event, seconds=30))
            await asyncio.sleep(0.1)
            forged = message_event(
                Message.RESPONSE, target=Target.RESOURCE, payload=b"forged", event_id=event.event_id
            )
            at.principal.requests.receive("agent-b", forged)
            at.echo.gate.set()
            assert (await asking).payload == b"one"
            at.principal.requests.receive(AGENT, forged)  # late: nobody waits

    run(program())


def test_a_change_that_was_never_sent_is_not_said_to_have_run_perhaps() -> None:
    async def program() -> None:
        async with world() as at:
            at.echo.gate.clear()
            reads = [at.begin(str(number)) for number in range(requests.TURNS)]
            await asyncio.sleep(0)  # they have their turns
            with pytest.raises(NoAnswerError) as refused:
                await at.ask("write", method="DELETE", seconds=requests.SLOW_SECONDS / 2)
            assert "not known" not in str(refused.value)
            assert "write" not in at.asked()
            with pytest.raises(NoAnswerError, match="whether it carried the request out is not known"):
                await at.ask("write", method="DELETE", seconds=1)
            at.echo.gate.set()
            await asyncio.gather(*reads)

    run(program())


def test_an_agent_that_is_not_there_is_said_so_at_once() -> None:
    async def program() -> None:
        async with world() as at:
            with pytest.raises(AgentNotConnectedError, match="agent-b is not connected"):
                await at.principal.requests.ask("agent-b", question("one"), seconds=30)

    run(program())


def test_an_agent_that_leaves_and_stays_away_is_not_waited_for() -> None:
    async def program() -> None:
        loop = asyncio.get_running_loop()
        async with world() as at:
            at.echo.gate.clear()
            asking = at.begin("one")
            await asyncio.sleep(0.1)
            began = loop.time()
            at.here.close()
            with pytest.raises(AgentNotConnectedError, match="lost its connection"):
                await asking
            assert loop.time() - began < 10

    run(program())


def test_one_agent_has_so_many_open_and_another_is_not_held_up() -> None:
    async def program() -> None:
        async with world() as at:
            at.echo.gate.clear()
            waiting = [at.begin(str(number)) for number in range(requests.MAX_OPEN)]
            await asyncio.sleep(0.1)
            with pytest.raises(RequestLimitError):
                await at.ask("one more")
            at.echo.gate.set()
            await asyncio.gather(*waiting)
            assert await at.ask("and now") == "and now"

    run(program())


def test_a_request_that_no_message_holds_is_said_so() -> None:
    async def program() -> None:
        async with world() as at:

            async def refuse(_event: Event) -> None:
                raise ObjectError("too large")

            at.here.send = refuse  # type: ignore[method-assign,assignment]
            with pytest.raises(RequestTooLargeError):
                await at.ask("x")

    run(program())


def test_a_handler_that_fails_says_that_and_no_more() -> None:
    async def program() -> None:
        async with world() as at:
            assert await at.ask("crash") == "500 the agent made a mistake: its log says more"
            assert await at.ask("one") == "one"

    run(program())


def test_what_comes_after_the_first_answer_goes_to_the_listener() -> None:
    async def program() -> None:
        async with world() as at:
            event = question("one")
            heard: list[Event] = []
            stop = at.principal.requests.listen(AGENT, event.event_id, heard.append)
            await at.principal.requests.ask(AGENT, event, seconds=5)
            at.agent.dispatcher.push(Target.RESOURCE, b"more", event_id=event.event_id)
            await asyncio.sleep(0.1)
            stop()
            at.agent.dispatcher.push(Target.RESOURCE, b"too late", event_id=event.event_id)
            await asyncio.sleep(0.1)
            assert [event.payload for event in heard] == [b"more"]

    run(program())


def test_an_answer_without_room_becomes_a_short_one_that_says_so() -> None:
    async def program() -> None:
        async with world() as at:
            at.echo.gate.clear()
            asking = at.begin("x" * 100_000)
            await asyncio.sleep(0.1)
            lane = at.agent.link.outbox.interactive
            lane._limits = InteractiveLimits(bytes=50_000)
            lane._charge(40_000)  # other answers wait
            at.echo.gate.set()
            assert await asking == "429 too many answers wait to be sent: try again later"

    run(program())


def test_an_acknowledgement_travels_with_the_answer_or_follows_soon() -> None:
    async def program() -> None:
        async with world() as at:
            await at.ask("one", method="POST")
            assert [event.is_acknowledgement for event in at.there.sent] == [True, False]
            assert not any(event.is_acknowledgement for event in at.here.sent)
            await asyncio.sleep(0.1)
            assert [event.is_acknowledgement for event in at.here.sent] == [False, True]
            at.echo.gate.clear()
            waiting = at.begin("two", method="POST")
            await asyncio.sleep(0.1)
            assert at.there.sent[-1].is_acknowledgement, "also before an answer that takes its time"
            at.echo.gate.set()
            await waiting

    run(program())


def test_a_read_is_one_message_each_way_and_nothing_of_it_is_kept() -> None:
    async def program() -> None:
        async with world() as at:
            await at.ask("one")
            await asyncio.sleep(1)
            assert [event.is_acknowledgement for event in at.here.sent + at.there.sent] == [False, False]
            link = at.principal.requests._link_of(AGENT)
            assert link is not None
            assert not link.outbox.interactive.bytes + at.agent.link.outbox.interactive.bytes

    run(program())


def test_reads_are_acknowledged_where_the_other_end_does_not_ask_again() -> None:
    async def program() -> None:
        async with world(extensions=OURS - {READS}) as at:
            await at.ask("one")
            await asyncio.sleep(0.1)
            for sent in (at.here.sent, at.there.sent):
                assert [event.is_acknowledgement for event in sent].count(True) == 1

    run(program())


def test_a_read_whose_answer_was_lost_with_its_stream_is_asked_again() -> None:
    async def program() -> None:
        pair = Pair(runtime=runtime())
        async with pair.principal_alone() as principal, pair.agent_alone() as agent:
            echo = Echo()
            agent.dispatcher.serve(Target.RESOURCE, echo)
            async with connected(principal, agent) as (_, there):
                await asyncio.sleep(1)
                there.drops = lambda event: event.target == Target.RESOURCE  # the stream is about to die
                read = asyncio.ensure_future(principal.requests.ask(AGENT, question("read"), seconds=20))
                await asyncio.sleep(1)
            async with connected(principal, agent):
                assert (await read).payload == b"read"
            assert echo.began == [b"read", b"read"]

    run(program())
