"""OpenTelemetry's trace context: carried where there is one, never invented."""

import asyncio
from dataclasses import replace

import pytest

from argocd.agents.vocabulary import PREFIX, Message, Mode, Target
from kube.embedded import AdmissionRequest, Admitted, EmbeddedStore, Hooks
from kube.errors import InvalidError
from sidecars.wire import payloads
from sidecars.wire.events import TRACE_PARENT, TRACE_STATE, Event, message_event, object_event
from tests.sidecars.captured_logs import Lines, logged
from tests.sidecars.pair_in_memory import ARGOCD, PATIENCE, Pipe, application, project
from tests.sidecars.scripted_ends import AGENT, acknowledged, heard, scripted, scripted_agent

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
STATE = "vendor=t61rcWkgMzE"


@pytest.fixture
def lines() -> Lines:
    return logged()


def traced(event: Event, parent: str = PARENT, state: str = STATE) -> Event:
    return replace(event, extensions={**event.extensions, TRACE_PARENT: parent, TRACE_STATE: state})


def sample(name: str = "sample") -> Event:
    item = project(name)
    item["metadata"] |= {"namespace": ARGOCD, "uid": f"u-{name}", "resourceVersion": "1"}
    return object_event(Message.CREATE, target=Target.PROJECT, obj=item)


def shop(*, version: str = "1") -> Event:
    item = application(metadata={"namespace": AGENT, "uid": "u", "resourceVersion": version})
    return object_event(Message.CREATE, target=Target.APPLICATION, obj=item)


# About an Application that the principal does not have: it answers with a deletion.
QUESTION = message_event(
    PREFIX + "request-update",
    target=Target.RESOURCE_RESYNC,
    payload=payloads.write(
        payloads.RequestUpdate(name="gone", namespace=ARGOCD, uid="u", kind="Application")
    ),
)


async def exchanged(pipe: Pipe, event: Event) -> tuple[Event, Event]:
    """The answer and the acknowledgement, which may come in either order."""
    await pipe.send(event)
    found: dict[str, Event] = {}
    async with asyncio.timeout(PATIENCE):
        while len(found) < 2:
            said = await pipe.receive()
            assert said is not None
            if said.type in {Message.DELETE, Message.PROCESSED}:
                found[said.type] = said
    return found[Message.DELETE], found[Message.PROCESSED]


async def test_lines_about_an_event_have_its_trace_and_those_after_it_have_none(lines: Lines) -> None:
    async with scripted(Mode.AUTONOMOUS) as (_, pipe):
        await acknowledged(pipe, traced(sample("with")))
        await acknowledged(pipe, sample("without"))
    first, second = lines("applied")
    assert (first["key"], first["traceparent"]) == (f"{ARGOCD}/with", PARENT)
    assert second["key"] == f"{ARGOCD}/without"
    assert "traceparent" not in second


async def test_an_answer_has_the_trace_of_its_question() -> None:
    async with scripted(Mode.MANAGED) as (_, pipe):
        for said in await exchanged(pipe, traced(QUESTION)):
            assert (said.extensions[TRACE_PARENT], said.extensions[TRACE_STATE]) == (PARENT, STATE)


async def test_without_a_trace_there_is_none() -> None:
    async with scripted(Mode.MANAGED) as (_, pipe):
        for said in await exchanged(pipe, QUESTION):
            assert TRACE_PARENT not in said.extensions


async def test_what_an_agent_says_of_an_event_that_it_could_not_apply_has_its_trace(lines: Lines) -> None:
    async def refuse(_: AdmissionRequest) -> Admitted:
        raise InvalidError("spec: never")

    store = EmbeddedStore(namespaces=[ARGOCD], hooks=Hooks(admission=refuse))
    async with scripted_agent(store, mode=Mode.MANAGED) as pipe:
        await pipe.send(traced(shop()))
        error = await heard(pipe, Message.ERROR)
        assert error.extensions[TRACE_PARENT] == PARENT
    (line,) = lines("dead letter")
    assert line["traceparent"] == PARENT


@pytest.mark.parametrize(
    "parent",
    [
        "",
        "nonsense",
        PARENT.upper(),
        f"ff{PARENT[2:]}",
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01",
        f"{PARENT}\n",
    ],
)
async def test_what_is_no_trace_is_not_carried_on(parent: str, lines: Lines) -> None:
    async with scripted(Mode.MANAGED) as (_, pipe):
        answer, _ = await exchanged(pipe, traced(QUESTION, parent=parent))
        assert TRACE_PARENT not in answer.extensions
        assert TRACE_STATE not in answer.extensions
    assert lines("applied")
    assert not any("traceparent" in line for line in lines("applied"))


async def test_a_state_that_is_too_long_is_left_out() -> None:
    async with scripted(Mode.MANAGED) as (_, pipe):
        answer, _ = await exchanged(pipe, traced(QUESTION, state="x" * 513))
        assert answer.extensions[TRACE_PARENT] == PARENT
        assert TRACE_STATE not in answer.extensions
