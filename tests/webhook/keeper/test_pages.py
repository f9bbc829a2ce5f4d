"""The pages for people, asked without a server."""

import asyncio
import re
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from argocd.rules.catalogue import CATALOGUE
from kube.embedded import EmbeddedStore
from kube.resources import CONFIG_MAPS
from tests.sidecars.wire.listening_principal import until
from webhook.admission.cluster_state import ClusterState, Scope
from webhook.keeper.keeper import Keeper, KeeperOptions
from webhook.keeper.pages import chart, create_pages
from webhook.registration.table import Registration


@pytest.fixture
async def keeper(tmp_path: Path) -> Keeper:
    options = KeeperOptions(scope=Scope(), folder=tmp_path, identity="one", review_port=1)
    return Keeper(EmbeddedStore(), options)


@pytest.fixture
async def pages(keeper: Keeper) -> FlaskClient:
    state = ClusterState(EmbeddedStore(), Scope(), told=lambda _what, _trouble: None)
    return create_pages(
        keeper, state, Registration(argocd_namespace="argocd", home="tiphys-system")
    ).test_client()


async def test_the_status_page_draws_the_last_hour_and_links_the_rules_that_spoke(
    keeper: Keeper, pages: FlaskClient
) -> None:
    assert "No reviews." in pages.get("/").text
    keeper.reports.last_hour.add(reviews=40, denials=4, rules={"project/namespace": 3, "object/not-read": 1})
    shown = pages.get("/").text
    assert 'aria-label="40 reviews in the last hour, 4 of them denied, 40 in one minute at most"' in shown
    assert '<a href="rules/project/namespace"><code>project/namespace</code></a>' in shown
    assert '<a href="rules/object/not-read">' not in shown
    told = pages.get("/status.json").json
    assert told is not None
    assert (told["last_hour"]["reviews"], told["last_hour"]["denials"]) == (40, 4)


def test_a_chart_is_as_high_as_its_highest_minute_and_empty_without_any() -> None:
    assert "<rect" not in chart([(0, 0)] * 60)
    drawn = chart([(0, 0)] * 58 + [(10, 5), (20, 0)])
    assert re.findall(r'class="part-(\w+)".*?height="([\d.]+)"', drawn) == [
        ("reviews", "29.0"),
        ("denials", "14.5"),
        ("reviews", "58.0"),
    ]


async def test_every_rule_has_a_page_and_nothing_else_has(pages: FlaskClient) -> None:
    for rule in CATALOGUE:
        answer = pages.get(f"/rules/{rule.id}")
        assert answer.status_code == 200
        assert f"<h1>{rule.id}</h1>" in answer.text
        explained = answer.text[answer.text.index("What it asks for") : answer.text.index("<dl>")]
        assert "`" not in explained, "what is to be typed is shown as code"
        assert 'href="../../tiphys.css"' in answer.text
        assert "script-src 'self'" in answer.headers["Content-Security-Policy"]
    for path in ("/rules/project/none", "/rules/project", "/rules/..%2f..%2fetc/passwd"):
        assert pages.get(path).status_code == 404


@pytest.mark.parametrize("path", ["/", "/status.json", "/rules/project/namespace", "/tiphys.css"])
async def test_a_foreign_name_that_leads_to_loopback_opens_nothing(pages: FlaskClient, path: str) -> None:
    for host in ("evil.example.org:8081", "localhost.evil.org", "192.0.2.7", "evil.example.org<script>"):
        answer = pages.get(path, headers={"Host": host})
        assert answer.status_code in {400, 403}
        assert "rules" not in answer.text
    for host in ("localhost:8081", "127.0.0.1", "[::1]:8081"):
        assert pages.get(path, headers={"Host": host}).status_code == 200


async def test_denials_may_lead_to_a_rule_by_the_name_that_the_configuration_has(keeper: Keeper) -> None:
    store = EmbeddedStore(namespaces=["tiphys-system"])
    data = {"tiphys.yaml": "pages: {url: https://Tiphys.example.org/webhook}"}
    await store.create(CONFIG_MAPS, {"metadata": {"name": "tiphys"}, "data": data}, namespace="tiphys-system")
    state = ClusterState(store, Scope(), told=lambda _what, _trouble: None)
    pages = create_pages(
        keeper, state, Registration(argocd_namespace="argocd", home="tiphys-system")
    ).test_client()
    reading = asyncio.ensure_future(state.run_configuration())
    try:
        await until(lambda: bool(state.configuration.pages.url))
        rule = "/rules/project/namespace"
        assert pages.get(rule, headers={"Host": "tiphys.example.org"}).status_code == 200
        assert pages.get(rule, headers={"Host": "evil.example.org"}).status_code == 403
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
