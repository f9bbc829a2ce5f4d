"""What an operator reads on the page: of each agent, and of what is stuck, with the object, the reason and what to do."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from html import unescape
from typing import Any

import orjson
import pytest

from argocd.agents.vocabulary import Mode
from kube.embedded import EmbeddedStore
from kube.errors import InvalidError
from kube.resources import APP_PROJECTS, APPLICATIONS, SECRETS
from kube.store import Object, Resource
from scripts.pictures.sample_fleet import ARGOCD, SampleFleet, sample_fleet
from sidecars.principal.fleet_page import drawn
from sidecars.principal.fleet_page import page as fleet_page
from sidecars.principal.fleet_page.page import FleetPage
from sidecars.principal.fleet_page.stuck import ADVICE, StuckReason
from sidecars.principal.principal import Principal
from tests.sidecars import processes
from tests.sidecars.pair_in_memory import Hub, Pair, application, project
from tests.sidecars.processes import Pki
from tests.sidecars.wire.listening_principal import until as eventually
from tiphys.http_server import HttpPage, ServerSentEvents

AGENT = "agent-a"
PATIENCE = 60.0
LIMIT = 128 << 10
ONE = "eu-west-prod"


def page_of(principal: Principal) -> FleetPage:
    return FleetPage(EmbeddedStore(), lambda: principal, waits=lambda: "")


async def shown(page: FleetPage) -> str:
    answer = await page.routes["/"]({})
    assert isinstance(answer, HttpPage)
    return answer.body.decode()


def cells(markup: str, agent: str) -> dict[str, str]:
    """Of an agent's row, by what they are about; the second is the state."""
    found = re.search(rf'<tr role="row" id="agent-{agent}">(.*?)</tr>', markup, re.DOTALL)
    assert found is not None
    parts = re.findall(r"<t[dh] ([^>]*)>(.*?)</t[dh]>", found[1], re.DOTALL)
    labels = (re.search(r'data-of="([^"]+)"', attributes) for attributes, _ in parts)
    names = [label[1] if label else ("agent", "state")[number] for number, label in enumerate(labels)]
    return {name: inside for name, (_, inside) in zip(names, parts, strict=True)}


def words(markup: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", markup)).split())


@pytest.fixture
async def fleet() -> AsyncIterator[SampleFleet]:
    async with sample_fleet(3) as running, asyncio.timeout(PATIENCE):
        yield running


async def test_a_row_tells_since_when_it_is_connected_and_how_its_applications_are(
    fleet: SampleFleet,
) -> None:
    row = cells(await shown(page_of(fleet.principal)), ONE)
    since = fleet.principal.record.connections[ONE].since
    assert words(row["state"]) == f"connected since {since:%m-%d %H:%M:%S}"
    assert 'aria-label="Health: 6 Healthy, 1 Progressing, 1 Degraded"' in row["Applications"]
    assert 'aria-label="Sync: 6 Synced, 2 OutOfSync"' in row["Applications"]
    assert (row["queue"], row["lag"]) == ("0", "0")
    assert words(row["error"]) == "—"


async def test_a_row_tells_what_waits_and_for_how_long(fleet: SampleFleet) -> None:
    fleet.streams[ONE].answers = False
    there = await fleet.store.get(APPLICATIONS, name="web", namespace=ONE)
    await fleet.store.replace(APPLICATIONS, {**there, "spec": {**there["spec"], "revisionHistoryLimit": 3}})
    agent = fleet.principal.known_agents.get(ONE)
    assert agent is not None
    await eventually(lambda: agent.link.outbox.figures().under_way == 1)
    row = cells(await shown(page_of(fleet.principal)), ONE)
    assert row["queue"] == "1"
    assert re.fullmatch(r"\d+ ms|\d+\.\d s", row["lag"])


async def test_a_row_tells_the_last_error_and_how_much_is_stuck(fleet: SampleFleet) -> None:
    fleet.refuse(ONE, namespace=ONE, name="payments", message="quota exceeded")
    await eventually(lambda: fleet.principal.record.stuck.count(ONE) == 1)
    row = cells(await shown(page_of(fleet.principal)), ONE)
    when = fleet.principal.record.last_errors[ONE].when
    assert words(row["error"]) == f"1 stuck {when:%H:%M:%S} {ONE}/payments: quota exceeded"


async def test_a_row_tells_why_an_agent_is_away(fleet: SampleFleet) -> None:
    await fleet.disconnect(ONE)
    connection = fleet.principal.record.connections[ONE]
    assert connection.until is not None
    row = cells(await shown(page_of(fleet.principal)), ONE)
    assert words(row["state"]) == f"away until {connection.until:%m-%d %H:%M:%S} the peer finished"


async def test_a_certificate_turns_yellow_and_red_without_an_event(
    fleet: SampleFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fleet.disconnect(ONE)
    await fleet.connect(ONE, days=30)
    await fleet.settled()
    page = page_of(fleet.principal)
    end = fleet.principal.record.connections[ONE].certificate_end
    assert end is not None
    assert "<b" not in cells(await shown(page), ONE)["certificate"]

    class Later(datetime):
        passed = timedelta()

        @classmethod
        def now(cls, tz: Any = None) -> "Later":
            return cls.fromtimestamp(time.time(), tz) + cls.passed

    monkeypatch.setattr(drawn, "datetime", Later)
    monkeypatch.setattr(fleet_page, "IDLE_SECONDS", 0.05)
    answer = await page.routes["/events"]({"since": fleet.principal.record.news.stamp})
    assert isinstance(answer, ServerSentEvents)
    for days, colour in ((17, "warn"), (31, "bad")):
        Later.passed = timedelta(days=days)
        async for event in answer.events:
            rows = orjson.loads(event.decode().partition("data: ")[2]).get("rows", {})
            if ONE in rows:
                assert f'<b class="{colour}">' in rows[ONE]
                break


async def eventually_shown(page: FleetPage, so: Callable[[str], bool]) -> str:
    """A page is good for a moment after it was drawn."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if so(markup := await shown(page)):
                return markup
            await asyncio.sleep(0.02)


async def test_nothing_is_kept_of_an_agent_that_is_gone_though_it_never_connected(fleet: SampleFleet) -> None:
    page, record = page_of(fleet.principal), fleet.principal.record
    for name in ("never-there", "was-there"):
        await fleet.register(name)
    await eventually(lambda: len(fleet.principal.hub_state.clusters.terms("agent")) == 5)
    await fleet.connect("was-there")
    await eventually_shown(page, lambda markup: "agent-never-there" in markup and "agent-was-there" in markup)
    assert len(page._rows) == 5
    for name in ("never-there", "was-there"):
        await fleet.store.delete(SECRETS, name=f"cluster-{name}", namespace=ARGOCD)
    await eventually(lambda: len(fleet.principal.hub_state.clusters.terms("agent")) == 3)
    await eventually_shown(
        page, lambda markup: "there" not in "".join(re.findall(r'id="agent-[^"]*"', markup))
    )
    assert len(page._rows) == 3
    assert not {"never-there", "was-there"} & set(record.news.agents_since(0))
    assert not {"never-there", "was-there"} & set(record.connections)


# What is stuck.


class PickyHub(EmbeddedStore):
    """An API server that refuses one project."""

    async def create(self, resource: Resource, body: Object, **more: Any) -> Object:
        if body["metadata"].get("name") == f"{AGENT}-unwanted":
            raise InvalidError('AppProject is invalid: spec.description: Invalid value: "hunter2": no')
        return await super().create(resource, body, **more)


@asynccontextmanager
async def autonomous() -> AsyncIterator[tuple[Pair, Principal]]:
    pair = Pair(mode=Mode.AUTONOMOUS, hub_store=PickyHub(namespaces=[ARGOCD, AGENT]))
    await pair.hub.know(AGENT)
    async with pair.together() as (principal, _), asyncio.timeout(PATIENCE):
        yield pair, principal


async def stuck_row(principal: Principal, place: str) -> str:
    await eventually(lambda: any(each.place == place for each in principal.record.stuck))
    markup = await shown(page_of(principal))
    rows = re.findall(r"<tr role=\"row\">(.*?)</tr>", markup.partition('id="part-stuck"')[2], re.DOTALL)
    (found,) = [row for row in rows if f"{place}</th>" in row]
    return words(found)


def advice(reason: StuckReason) -> str:
    return " ".join(ADVICE[reason].replace("`", " ").split())


async def test_a_project_whose_name_is_taken_on_the_hub_is_a_conflict() -> None:
    async with autonomous() as (pair, principal):
        await pair.hub.store.create(APP_PROJECTS, project(f"{AGENT}-web"), namespace=ARGOCD)
        await pair.workload.create(APP_PROJECTS, project("web"), namespace=ARGOCD)
        told = await stuck_row(principal, f"{ARGOCD}/web")
    assert told.startswith(f"AppProject {ARGOCD}/web {AGENT} ")
    assert "conflict" in told
    assert f"is not a mirror of agent {AGENT}'s" in told
    assert told.endswith(advice(StuckReason.CONFLICT))


async def test_what_the_hub_refuses_is_told_with_its_reason_and_without_its_value() -> None:
    async with autonomous() as (pair, principal):
        await pair.workload.create(APP_PROJECTS, project("unwanted"), namespace=ARGOCD)
        told = await stuck_row(principal, f"{ARGOCD}/unwanted")
    assert "refused here" in told
    assert "spec.description: Invalid value: (not shown): no" in told
    assert "hunter2" not in told
    assert told.endswith(advice(StuckReason.REFUSED_HERE))


async def test_an_application_that_no_message_holds_is_told() -> None:
    hub, workload, pki = EmbeddedStore(namespaces=[ARGOCD, AGENT]), EmbeddedStore(namespaces=[ARGOCD]), Pki()
    await Hub(hub).know(AGENT)
    async with (
        processes.principal(
            hub, pki, serving={"max_message_bytes": LIMIT}, allowed_namespaces=(AGENT,)
        ) as process,
        processes.connected_agent(workload, pki, name=AGENT, port=process.port),
        asyncio.timeout(PATIENCE),
    ):
        large = application(metadata={"annotations": {"note": "x" * (LIMIT + 1)}})
        await hub.create(APPLICATIONS, large, namespace=AGENT)
        assert process.principal is not None
        told = await stuck_row(process.principal, f"{AGENT}/shop")
    assert told.startswith(f"Application {AGENT}/shop {AGENT} ")
    assert "too large" in told
    assert told.endswith(advice(StuckReason.TOO_LARGE))
