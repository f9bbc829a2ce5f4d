"""An agent that asks without end costs the principal a few looks a minute, and gets its answer in the end."""

import asyncio
from collections.abc import Iterator

import orjson
import pytest

from argocd.agents.vocabulary import Message, Mode, Target
from kube.embedded import EmbeddedStore
from kube.resources import APP_PROJECTS
from sidecars.delivery.comparison import COMPARE, COMPARISON_WANTED, TARGET, ComparisonQuestion
from sidecars.delivery.comparison_turns import TURNS, ComparisonTurns
from sidecars.principal.agents import QUESTIONS
from sidecars.principal.state import HubState
from sidecars.wire.events import Event
from tests.sidecars.pair_in_memory import ARGOCD, OURS, PLAIN, Hub, Pair, Pipe, pipes, project, until
from tests.sidecars.scripted_ends import AGENT, acknowledged


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How often all that an agent shall have, or has told of, was listed."""
    listed: list[str] = []
    for name in ("all_expected", "mirrors_of"):
        original = getattr(HubState, name)

        def counted(self: HubState, agent: str, *, _original: object = original) -> Iterator[object]:
            listed.append(agent)
            return _original(self, agent)  # type: ignore[operator,no-any-return]

        monkeypatch.setattr(HubState, name, counted)
    return listed


def event(number: int, kind: str, target: str, payload: bytes) -> Event:
    name = f"storm-{number}"
    return Event(type=kind, target=target, resource_id=name, event_id=name, payload=payload)


async def storm(mode: Mode, events: list[Event], *, extensions: frozenset[str]) -> Pipe:
    hub = Hub(EmbeddedStore(namespaces=[ARGOCD, AGENT]), allowed_namespaces=(AGENT,))
    await hub.know(AGENT)
    async with hub.running() as principal:
        here, there = pipes()
        serving = asyncio.ensure_future(principal.serve(AGENT, mode, here, extensions=extensions))
        try:
            for number, each in enumerate(events):
                # Something changes all the time: no list is as good as the last one.
                await hub.store.create(APP_PROJECTS, project(f"p-{number}"), namespace=ARGOCD)
                await acknowledged(there, each)
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
    return here


async def test_a_managed_agent_that_wants_comparisons_without_end_gets_four(looks: list[str]) -> None:
    wanted = orjson.dumps({"scope": "specs", "round": ""})
    events = [event(number, COMPARISON_WANTED, TARGET, wanted) for number in range(50)]
    await storm(Mode.MANAGED, events, extensions=OURS)
    assert len(looks) <= 2 * TURNS  # a round lists when it begins and when it ends


async def test_an_autonomous_agent_that_begins_rounds_without_end_gets_four(looks: list[str]) -> None:
    events = [
        event(
            number,
            COMPARE,
            TARGET,
            ComparisonQuestion(
                scope="specs", round=f"round-{number}", number=0, marks={"": bytes(16)}
            ).payload(),
        )
        for number in range(50)
    ]
    await storm(Mode.AUTONOMOUS, events, extensions=OURS)
    assert len(looks) <= TURNS + 1  # what it has at its first stream


async def test_a_go_agent_that_asks_for_lists_without_end_gets_four(looks: list[str]) -> None:
    kind = Message.REQUEST_SYNCED_RESOURCE_LIST
    events = [
        event(number, kind, Target.RESOURCE_RESYNC, orjson.dumps({"checksum": "AAAA"}))
        for number in range(50)
    ]
    await storm(Mode.MANAGED, events, extensions=PLAIN)
    assert len(looks) <= TURNS + 1


async def test_a_go_agents_questions_about_objects_end_with_its_inventory() -> None:
    asked = {"name": "web", "namespace": "", "uid": "u", "kind": "AppProject", "checksum": None}
    count = QUESTIONS + 200
    hub = Hub(EmbeddedStore(namespaces=[ARGOCD, AGENT]))
    await hub.know(AGENT)
    async with hub.running() as principal:
        here, there = pipes()
        serving = asyncio.ensure_future(principal.serve(AGENT, Mode.MANAGED, here, extensions=PLAIN))
        for number in range(count):
            name = f"q-{number}"
            payload = orjson.dumps({**asked, "name": name})
            await acknowledged(there, event(number, Message.REQUEST_UPDATE, Target.RESOURCE_RESYNC, payload))
        told = [each for each in here.sent if each.type == Message.DELETE]
        assert 0 < len(told) <= QUESTIONS + 20  # and those of the time that has passed
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def test_what_had_no_turn_is_compared_when_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ComparisonTurns, "take", _second_time())
    monkeypatch.setattr(ComparisonTurns.__init__, "__kwdefaults__", {"limit": 1, "seconds": 0.05})
    pair = Pair()
    await pair.hub.know(AGENT)
    await pair.hub.store.create(APP_PROJECTS, project("web"), namespace=ARGOCD)
    async with pair.together():
        await until(pair.workload, APP_PROJECTS, lambda there: "web" in there)


def _second_time() -> object:
    asked = iter(range(1_000_000))
    return lambda _self: next(asked) > 0


def test_a_turn_comes_back_every_quarter_of_a_minute() -> None:
    now = [0.0]
    turns = ComparisonTurns(lambda: now[0])
    assert [turns.take() for _ in range(6)] == [True] * 4 + [False] * 2
    now[0] = 15.0
    assert [turns.take() for _ in range(2)] == [True, False]
    now[0] = 3600.0
    assert [turns.take() for _ in range(6)] == [True] * 4 + [False] * 2
