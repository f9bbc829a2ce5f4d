"""argocd-agent's tables of its resource proxy's port: who is let in, and what argocd-server is answered."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from sidecars.proxies.proxy_callers import _common_name
from sidecars.proxies.resource_proxy import ResourceProxy
from sidecars.wire.proxy_payloads import ResourceResponse
from tests.oracle.test_resource_proxy import pytestmark, table
from tests.sidecars import pair_in_memory
from tests.sidecars.proxies.answering_scene import AGENT, PATH, Scene, scene
from tests.sidecars.proxies.hub_caller import HubAnswer, hub_caller

__all__ = ["pytestmark"]

OTHERWISE = {
    "method-PUT": "served, as by an API server",
    "method-OPTIONS": "405 with a Status",
    "method-CONNECT": "no HTTP request that a server of ours reads: 400",
    "method-HEAD": "405",
    "rp-auth-cert-empty-cn": "our authorities issue none without a name; one that has none names nobody",
    "version": "the agent's own cluster is asked",
    "rp-http-no-tls": "without TLS nobody is heard at all",
    "rp-http-undecodable": "502: it is the agent's mistake, not the principal's",
    "rp-http-agent-error": "with a Status that says what is known",
    "rp-http-log-missing-names": "400 in other words",
}
ELSEWHERE = {
    "rp-http-other-uuid": "tests/sidecars/proxies/test_requests.py: the answer is nobody's, and the caller waits on",
    "e2e-rp-get": "tests/cluster/test_live_resources.py",
    "e2e-rp-get-absent": "tests/cluster/test_live_resources.py",
    "e2e-rp-unmanaged": "tests/cluster/test_live_resources.py: 403",
    "e2e-rp-status-sub": "tests/cluster/test_live_resources.py",
    "e2e-rp-scale-sub": "tests/cluster/test_live_resources.py",
    "e2e-rp-eviction-absent": "tests/cluster/test_live_resources.py: of what is absent, 404",
    "e2e-rp-action": "tests/cluster/argocd/test_live_objects.py: the action `restart`",
    "e2e-rp-self-registered": "tests/sidecars/proxies/test_proxy_tokens.py and test_cluster_secrets.py",
    "e2e-redis-tree": "tests/cluster/argocd/test_live_objects.py",
    "e2e-redis-push": "tests/sidecars/proxies/redis/test_through_agents.py",
    "e2e-logs": "tests/cluster/argocd/test_live_objects.py: logs",
    "e2e-terminal": "tests/cluster/argocd/test_live_objects.py: a terminal",
    "e2e-tracking": "tests/sidecars/proxies/test_argocd_cm.py",
}
"""Where a case needs more than a port: the test that has it."""


@pytest.fixture
async def at() -> AsyncIterator[Scene]:
    async with scene() as made:
        yield made


@pytest.mark.parametrize("case", table("resource proxy: HTTP methods"))
async def test_methods_are_served_as_argocd_agent_serves_them_or_refused(at: Scene, case: Any) -> None:
    method, path = case["input"]["method"], case["input"]["path"]
    status = await at.sent(f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    handled = case["expect"].get("handled", case["id"] == "method-PUT")
    assert [event.type for event in at.agent.asked] == ([method] if handled else [])
    expected = 200 if handled else 400 if method == "CONNECT" else 405
    assert status == expected
    assert (expected == case["expect"].get("status", 200)) or case["id"] in OTHERWISE


@pytest.mark.parametrize("case", table("resource proxy: /version"))
async def test_the_version_is_that_of_the_agents_cluster(at: Scene, case: Any) -> None:
    assert case["id"] in OTHERWISE
    at.agent.answer = ResourceResponse(status=200, resource='{"gitVersion": "v1.36.0"}')
    assert (await at.hub.get(case["input"]["path"])).json == {"gitVersion": "v1.36.0"}


@pytest.mark.parametrize("case", table("resource proxy: whose cluster"))
async def test_whose_cluster_is_asked_for_is_told_as_argocd_agent_tells_it(at: Scene, case: Any) -> None:
    """The agents of the tables have one name here: the one who is connected, and `agent-b` who is not."""
    given, expected = case["input"], case["expect"]
    if case["id"] == "rp-auth-cert-empty-cn":
        assert _common_name(nameless()) == "", "which is 401"
        return
    await pair_in_memory.Hub(at.store).know("agent-b")
    issue = at.process._serving.tokens.issue_for_proxy
    headers = {}
    if "authorization" in given:
        headers["Authorization"] = given["authorization"]
    asked = AGENT
    if "<" in given.get("authorization", ""):
        asked = "agent-b" if "client_cert_cn" in given else AGENT
        headers["Authorization"] = f"Bearer {await at.given(issue(asked), agent=asked)}"
    certificate = AGENT if "client_cert_cn" in given else None
    async with hub_caller(at.pki, at.port, agent=certificate) as caller:
        answer = await caller.get(PATH, **headers)
    if "agent" in expected:
        assert answer.status == (200 if asked == AGENT else 502)
        assert asked == AGENT or "agent-b is not connected" in answer.message
        return
    assert (answer.status, answer.message) == (401, "authentication failed")
    assert at.agent.asked == []


def nameless() -> x509.Certificate:
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder(x509.Name([]), x509.Name([]), key.public_key(), x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )


ANSWERS = [case for case in table("resource proxy: answers") if case.id not in ELSEWHERE]


@pytest.mark.parametrize("case", ANSWERS)
async def test_argocd_server_is_answered_as_argocd_agent_answers_it_and_told_why(
    monkeypatch: pytest.MonkeyPatch, case: Any
) -> None:
    given, expected = case["input"], case["expect"]
    if case["id"] == "rp-http-timeout":
        assert ResourceProxy.__init__.__kwdefaults__ is not None
        monkeypatch.setitem(ResourceProxy.__init__.__kwdefaults__, "seconds", 0.2)
    async with scene() as at:
        if case["id"] == "rp-http-no-tls":
            async with aiohttp.ClientSession() as session:
                with pytest.raises(aiohttp.ClientError):
                    await session.get(f"http://127.0.0.1:{at.port}{PATH}")
            return
        answer = await _answered(at, given)
    status = 502 if case["id"] == "rp-http-undecodable" else expected["http_status"]
    assert (answer.status, status == expected["http_status"] or case["id"] in OTHERWISE) == (status, True)
    if status == 200:
        assert (answer.body.decode(), answer.headers["Content-Type"]) == (
            expected["body"],
            expected["content_type"],
        )
    elif case["id"] == "rp-http-bad-name":
        assert answer.message == expected["body"]
    else:
        assert answer.message, "why"


async def _answered(at: Scene, given: Any) -> HubAnswer:
    if "response" in given and given["response"] is not None:
        at.agent.answer = ResourceResponse(**given["response"])

    async def silent(_event: Any) -> bytes | None:
        await asyncio.Event().wait()
        return None

    async def undecodable(_event: Any) -> bytes | None:
        return given["response_data"].encode()  # type: ignore[no-any-return]

    if "response_data" in given:
        at.agent.handle = undecodable  # type: ignore[method-assign,assignment]
    elif "response" in given and given["response"] is None:
        at.agent.handle = silent  # type: ignore[method-assign,assignment]
    name = given.get("client_cert_cn", AGENT if given.get("connected", True) else "agent-b")
    async with hub_caller(at.pki, at.port, agent=name) as caller:
        return await caller.get(given.get("path", PATH))


@pytest.mark.parametrize("case", table("end to end"))
def test_what_needs_a_real_argocd_is_shown_with_one(case: Any) -> None:
    assert case["id"] in ELSEWHERE
