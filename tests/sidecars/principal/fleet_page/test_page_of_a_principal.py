"""The fleet page of a real principal: over its own port, with agents over grpc, and of a pair."""

import asyncio
import re
from datetime import UTC, datetime, timedelta

import aiohttp
import pytest

from argocd.agents.vocabulary import Mode
from kube.embedded import EmbeddedStore
from kube.resources import APP_PROJECTS, APPLICATIONS
from scripts.pictures.sample_fleet import sample_fleet
from sidecars.principal.fleet_page import page as fleet_page
from tests.sidecars import processes
from tests.sidecars.pair_in_memory import (
    ARGOCD,
    Hub,
    Pair,
    application,
    describe,
    described,
    project,
    until,
)
from tests.sidecars.processes import PATIENCE, Pki
from tests.sidecars.replication.paired_principals import FencedStore, regions
from tests.sidecars.wire.listening_principal import until as eventually

AGENT = "agent-a"


async def test_it_shows_a_connected_agent_with_version_and_certificate_and_the_change_that_reached_it() -> (
    None
):
    store, pki = EmbeddedStore(namespaces=[ARGOCD, AGENT]), Pki()
    workload = EmbeddedStore(namespaces=[ARGOCD])
    await Hub(store).know(AGENT)
    await pki.equip(
        workload, namespace=ARGOCD, name="argocd-agent-client-tls", pair=pki.pair(AGENT, server=False)
    )
    async with processes.principal(store, pki, allowed_namespaces=(AGENT,)) as principal:
        before = (await processes.fetch(principal.pages.port, "/"))[1]
        assert "never seen" in before
        agent = processes.agent(workload, port=principal.port)
        async with processes.started(agent), asyncio.timeout(PATIENCE):
            await agent.connected.wait()
            await store.create(APP_PROJECTS, project(), namespace=ARGOCD)
            await store.create(
                APPLICATIONS, application(status={"health": {"status": "Degraded"}}), namespace=AGENT
            )
            await until(workload, APPLICATIONS, lambda there: "shop" in there)
            assert principal.principal is not None
            travelled = principal.principal.record.travelled
            await eventually(lambda: any(each.kind == "Application" for each in travelled))
            shown = before
            while shown == before:  # a page is shown again for a moment
                status, shown = await processes.fetch(principal.pages.port, "/")
    assert status == 200
    ends = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%d")
    for text in ("connected", "0.9.0", ends, "1 Degraded", f"hub → {AGENT}", f"Application {AGENT}/shop"):
        assert text in shown, text


async def test_it_shows_what_a_managed_agent_over_grpc_undoes_again_and_again() -> None:
    store, pki = EmbeddedStore(namespaces=[ARGOCD, AGENT]), Pki()
    workload = EmbeddedStore(namespaces=[ARGOCD])
    await Hub(store).know(AGENT)
    async with (
        processes.principal(store, pki, allowed_namespaces=(AGENT,)) as principal,
        processes.connected_agent(workload, pki, name=AGENT, port=principal.port),
        asyncio.timeout(PATIENCE),
    ):
        await store.create(APP_PROJECTS, project("web", description="as told"), namespace=ARGOCD)
        await until(workload, APP_PROJECTS, lambda there: "web" in there)
        for number in range(3):
            await describe(workload, "web", f"hunter2 {number}")
            await until(workload, APP_PROJECTS, described("web", "as told"))
        assert principal.principal is not None
        found = principal.principal.record.stuck
        await eventually(lambda: found.count(AGENT) == 1)
        shown = (await processes.fetch(principal.pages.port, "/"))[1]
    for words in (f"{ARGOCD}/web", "drift at the agent", "put back 3 times", "UTC: spec.description."):
        assert words in shown, words
    assert "There, <code>kubectl get -o yaml --show-managed-fields</code> names the writer" in shown
    assert "hunter2" not in shown


async def test_both_regions_of_a_pair_show_both() -> None:
    a, b = FencedStore(), FencedStore()
    async with regions(a, b) as (one, two):
        await asyncio.gather(one.start(), two.start())
        await one.until("active")
        await two.until("replicating")
        assert one.process is not None
        assert two.process is not None
        primary, standby = one.process.pages.port, two.process.pages.port

        async def shows(port: int, *regions: tuple[str, str]) -> str:
            """Each by its name, with what is told of it."""
            async with asyncio.timeout(PATIENCE):
                while True:
                    shown = (await processes.fetch(port, "/"))[1]
                    if all(re.search(pattern, told(shown, name)) for name, pattern in regions):
                        return shown
                    await asyncio.sleep(0.05)

        await shows(
            primary,
            ("this region", r"^active epoch 1 lag —"),
            (f"localhost:{two.port}", r"^replicating epoch 0 lag \d+\.\d s"),
        )
        waiting = await shows(
            standby,
            ("this region", r"^replicating epoch 0 lag none"),
            (f"localhost:{one.port}", r"^active epoch 1 lag —"),
        )
        assert "standing by: replicating" in waiting
        await one.stop()
        await shows(standby, (f"localhost:{one.port}", r"^unreachable "))


def told(page: str, region: str) -> str:
    """State, epoch, lag and more, as somebody reads them."""
    part = page.partition(f"<h3>{region}</h3>")[2].partition("</dl>")[0]
    return " ".join(re.sub(r"<[^>]+>", " ", part).split())


async def test_listeners_have_a_bound_and_a_place_that_is_left_is_free_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fleet_page, "LISTENERS", 2)
    async with sample_fleet(1) as fleet, aiohttp.ClientSession() as session:
        stamp = fleet.principal.record.news.stamp
        address = f"{fleet.address}events?since={stamp}"

        async def listen() -> aiohttp.ClientResponse:
            response = await session.get(address)
            if response.status == 200:
                assert (await response.content.readuntil(b"\n\n")).startswith(b"event: fleet")
            return response

        async with asyncio.timeout(PATIENCE):
            first, second, third = await listen(), await listen(), await listen()
            assert [first.status, second.status, third.status] == [200, 200, 503]
            first.close()
            while True:
                again = await listen()
                if again.status == 200:
                    break
                await asyncio.sleep(0.05)
            second.close()
            again.close()


@pytest.mark.parametrize("since", ["", "nonsense", "another-1", "-1"])
async def test_whoever_has_seen_another_time_is_told_to_load_the_page(since: str) -> None:
    async with (
        sample_fleet(1) as fleet,
        aiohttp.ClientSession() as session,
        session.get(f"{fleet.address}events", params={"since": since}) as response,
    ):
        assert await response.content.readuntil(b"\n\n") == b"event: reload\ndata: {}\n\n"


HOSTILE = "<script>alert(1)</script>"


@pytest.mark.parametrize(
    "query",
    [
        {"name": HOSTILE},
        {"project": HOSTILE, "agent": HOSTILE},
        {"application": HOSTILE},
        {"state": HOSTILE, "sort": HOSTILE, "order": HOSTILE, "health": "x", "stuck": "maybe"},
        {"name": "x" * 5000},
        {"agent": "only"},
        {"application": "a/b/c"},
    ],
)
async def test_whatever_the_address_says_it_is_answered_and_never_becomes_markup(
    query: dict[str, str],
) -> None:
    async with (
        sample_fleet(1) as fleet,
        aiohttp.ClientSession() as session,
        session.get(fleet.address, params=query) as response,
    ):
        shown = await response.text()
    assert response.status == 200
    assert HOSTILE not in shown
    assert len(shown) < 100_000
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


async def test_drift_that_is_undone_again_and_again_is_stuck() -> None:
    """Somebody's hand on an autonomous agent's project, three times."""
    pair = Pair(mode=Mode.AUTONOMOUS)
    await pair.hub.know(AGENT)
    async with pair.together() as (principal, _agent), asyncio.timeout(PATIENCE):
        await pair.workload.create(APP_PROJECTS, project("web", description="as told"), namespace=ARGOCD)
        mirror = f"{AGENT}-web"
        await until(pair.hub.store, APP_PROJECTS, lambda there: mirror in there)
        for number in range(3):
            await describe(pair.hub.store, mirror, f"by hand {number}")
            await until(pair.hub.store, APP_PROJECTS, described(mirror, "as told"))
        (found,) = principal.record.stuck.of(AGENT)
    assert (found.reason.value, found.place) == ("drift", f"{ARGOCD}/{mirror}")
    assert "3 times" in found.words
