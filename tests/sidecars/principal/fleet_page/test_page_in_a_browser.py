"""The fleet page in a real browser: live, searchable, readable by everybody, with a few agents."""

import asyncio
import re
import shutil
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from kube.embedded import EmbeddedStore
from scripts.pictures import axe
from scripts.pictures.chromium import Tab, tab
from scripts.pictures.sample_fleet import SampleFleet, sample_fleet
from sidecars.principal.fleet_page.page import FleetPage
from sidecars.principal.fleet_page.regions import RegionFacts
from tiphys.http_server import HttpPages

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PATIENCE = 30.0
PHONE, DESK = (390, 844), (1280, 900)
LIVE = "document.getElementById('live').textContent.trim() === 'live'"
UNTOUCHED = "window.untouched = true"
"""Gone once the page is loaded anew."""

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: apt-get install chromium"),
]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def chromium(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tab]:
    """One for all of them: it takes seconds to start."""
    assert CHROMIUM
    async with tab(CHROMIUM, tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def fleet() -> AsyncIterator[SampleFleet]:
    async with sample_fleet(3, regions=True) as running:
        yield running


def row(name: str) -> str:
    return f"document.getElementById('agent-{name}').textContent"


async def opened(chromium: Tab, fleet: SampleFleet, query: str = "") -> None:
    await chromium.open(fleet.address + query, size=DESK, dark=False, scripts=True)
    await chromium.until(LIVE)
    await chromium.evaluate(UNTOUCHED)


async def test_an_agent_goes_away_and_comes_back_without_a_reload(fleet: SampleFleet, chromium: Tab) -> None:
    await opened(chromium, fleet)
    assert "connected" in await chromium.evaluate(row("eu-west-prod"))
    await fleet.disconnect("eu-west-prod")
    await chromium.until(f"{row('eu-west-prod')}.includes('away')")
    await chromium.until("document.getElementById('part-summary').textContent.includes('1not connected')")
    await fleet.connect("eu-west-prod")
    await chromium.until(f"{row('eu-west-prod')}.includes('connected')")
    await fleet.register("us-central-prod")
    await chromium.until("document.getElementById('agent-us-central-prod') !== null")
    assert await chromium.evaluate("window.untouched") is True


async def test_a_stuck_object_is_found_and_its_reason_read_then_it_goes(
    fleet: SampleFleet, chromium: Tab
) -> None:
    await opened(chromium, fleet)
    message = 'spec.path: Invalid value: \\"hunter2\\": no such folder'
    fleet.refuse("eu-west-prod", namespace="eu-west-prod", name="payments", message=message)
    stuck = "document.getElementById('part-stuck').textContent"
    await chromium.until(f"{stuck}.includes('eu-west-prod/payments')")
    words = await chromium.evaluate(stuck)
    assert "refused by the agent" in words
    assert "spec.path: Invalid value: (not shown): no such folder" in words
    assert "grant on the agent's cluster" in words
    await chromium.until(f"{row('eu-west-prod')}.includes('1 stuck')")
    assert "hunter2" not in await chromium.markup()
    await fleet.mend("eu-west-prod", "payments")
    await chromium.until(f"{stuck}.includes('Nothing')")
    assert await chromium.evaluate("window.untouched") is True


async def test_drift_at_an_agent_is_told_with_its_field_and_what_to_do(
    fleet: SampleFleet, chromium: Tab
) -> None:
    await opened(chromium, fleet)
    field = "spec.source.targetRevision"
    fleet.undo("eu-west-prod", name="payments", times=12, seconds=400, fields=(field,))
    stuck = "document.getElementById('part-stuck').textContent"
    await chromium.until(f"{stuck}.includes('eu-west-prod/payments')")
    words = await chromium.evaluate(stuck)
    assert "drift at the agent" in words
    assert "changed on the agent's cluster and put back 12 times" in words
    assert f": {field}." in words
    assert "names the writer: stop it, or change the object here" in words
    await chromium.until(f"{row('eu-west-prod')}.includes('1 stuck')")
    await fleet.mend("eu-west-prod", "payments")
    fleet.undo("eu-west-prod", name="payments", times=14, seconds=460, fields=(field,))
    await chromium.until(f"{stuck}.includes('14 times')")
    assert await chromium.evaluate("window.untouched") is True


async def test_the_search_answers_why_and_as_whom_by_keyboard(fleet: SampleFleet, chromium: Tab) -> None:
    await opened(chromium, fleet)
    await chromium.type("input[name=project]", "billing")
    await chromium.type("input[name=agent]", "us-east-prod", then="Enter")
    await chromium.until("document.querySelector('.answer') !== null")
    answer = await chromium.evaluate("document.querySelector('.answer').textContent")
    assert (
        "The project billing does not go to agent us-east-prod: no entry of spec.sourceNamespaces" in answer
    )
    assert "project=billing&agent=us-east-prod" in await chromium.evaluate("location.search")
    await chromium.type("input[name=application]", "eu-west-prod/checkout", then="Enter")
    await chromium.until(
        "(document.querySelector('.answer') || {textContent: ''}).textContent.includes('syncs as')"
    )
    answer = await chromium.evaluate("document.querySelector('.answer').textContent")
    assert "syncs as system:serviceaccount:checkout:checkout-deployer" in answer


async def test_what_one_types_stays_while_the_page_changes(fleet: SampleFleet, chromium: Tab) -> None:
    await opened(chromium, fleet)
    await chromium.type("input[name=project]", "bil")
    await fleet.register("us-central-prod")  # the list of agents is fetched anew
    await chromium.until("document.getElementById('agent-us-central-prod') !== null")
    assert await chromium.evaluate("document.querySelector('input[name=project]').value") == "bil"
    assert await chromium.evaluate("document.activeElement.name") == "project"


async def test_without_scripts_it_shows_the_same(fleet: SampleFleet, chromium: Tab) -> None:
    await chromium.open(f"{fleet.address}?sort=name&order=desc", size=DESK, dark=False)
    shown = await chromium.markup()
    for text in (
        "us-east-prod",
        "0.9.0",
        "hub.us.example.org",
        "replicating",
        "Recent changes",
        "hub → ",
    ):
        assert text in shown
    assert not re.search(r"\s(on[a-z]+|style)=", shown)
    assert re.findall(r"<script[^>]*>", shown) == ['<script src="fleet.js" defer="">']
    assert shown.index("agent-us-east-prod") < shown.index("agent-eu-north-prod")
    assert 'aria-sort="descending"' in shown


async def test_filters_are_in_the_address(fleet: SampleFleet, chromium: Tab) -> None:
    await fleet.disconnect("eu-west-prod")
    await opened(chromium, fleet, "?state=away")
    rows = "[...document.querySelectorAll('#rows tr')].map((row) => row.id).join()"
    assert await chromium.evaluate(rows) == "agent-eu-west-prod"
    await fleet.disconnect("us-east-prod")
    await chromium.until(f"{rows} === 'agent-eu-west-prod,agent-us-east-prod'")


async def test_a_figure_leads_to_the_agents_that_it_counts(fleet: SampleFleet, chromium: Tab) -> None:
    await fleet.disconnect("eu-west-prod")
    await fleet.register("us-central-prod")
    await opened(chromium, fleet)
    await chromium.until("document.getElementById('part-summary').textContent.includes('2not connected')")
    await chromium.evaluate(
        "[...document.querySelectorAll('a.card')].find((card) => card.textContent.includes('not connected')).click()"
    )
    rows = "[...document.querySelectorAll('#rows tr')].map((row) => row.id).join()"
    await chromium.until(f"{rows} === 'agent-eu-west-prod,agent-us-central-prod'")
    assert await chromium.evaluate("location.search") == "?state=not+connected"


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
async def test_nothing_is_wider_than_the_window(
    fleet: SampleFleet, chromium: Tab, size: tuple[int, int]
) -> None:
    fleet.refuse("eu-west-prod", namespace="eu-west-prod", name="payments", message="x" * 300)
    await fleet.register("a" * 63)
    asked = "?project=billing&agent=us-east-prod&application=eu-west-prod/checkout"
    await chromium.open(fleet.address + asked, size=size, dark=False)
    assert await chromium.width() <= size[0]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
async def test_axe_finds_nothing(
    fleet: SampleFleet, chromium: Tab, axe_script: str, size: tuple[int, int], *, dark: bool
) -> None:
    await fleet.disconnect("us-east-prod")
    fleet.refuse("eu-west-prod", namespace="eu-west-prod", name="payments", message="forbidden")
    asked = "?project=billing&agent=us-east-prod&application=eu-west-prod/checkout"
    await chromium.open(fleet.address + asked, size=size, dark=dark, scripts=True)
    await chromium.until(LIVE)
    await chromium.evaluate(axe_script)
    assert await chromium.evaluate(axe.FINDINGS) == []


@pytest_asyncio.fixture(loop_scope="module")
async def standby() -> AsyncIterator[str]:
    """The address of a principal that serves nobody."""
    page = FleetPage(
        EmbeddedStore(),
        lambda: None,
        waits=lambda: "standing by: replicating",
        regions=lambda: [
            RegionFacts(name="this region", ours=True, state="replicating", epoch=6, lag="none"),
            RegionFacts(name="hub.us.example.org:8443", ours=False, state="active", epoch=7),
        ],
    )
    pages = HttpPages({}, host="127.0.0.1", port=0, routes=page.routes)
    serving = asyncio.ensure_future(pages.run())
    try:
        async with asyncio.timeout(PATIENCE):
            await pages.listening.wait()
        yield f"http://127.0.0.1:{pages.port}/"
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
async def test_a_standby_says_that_it_waits_and_axe_finds_nothing(
    standby: str, chromium: Tab, axe_script: str, size: tuple[int, int], *, dark: bool
) -> None:
    await chromium.open(standby, size=size, dark=dark, scripts=True)
    shown = await chromium.markup()
    for words in ("standing by: replicating", "this region", "hub.us.example.org:8443", "active"):
        assert words in shown
    assert await chromium.width() <= size[0]
    await chromium.evaluate(axe_script)
    assert await chromium.evaluate(axe.FINDINGS) == []
