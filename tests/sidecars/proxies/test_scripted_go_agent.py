"""The resource proxy before an agent of argocd-agent's, which the test plays: what such an agent is told, and spared."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import orjson
import pytest

from argocd.agents.vocabulary import Message, Mode
from sidecars.principal.proxies.resource_port import ResourcePort
from sidecars.process.serving_gate import ServingGate
from sidecars.proxies.api_paths import REFUSED_SUBRESOURCES
from sidecars.proxies.resource_proxy import ResourceProxy
from sidecars.wire.auth.tokens import Tokens
from sidecars.wire.events import Event, fresh_id
from tests.sidecars.pair_in_memory import ARGOCD, PATIENCE, PLAIN, Hub, Pipe, pipes
from tests.sidecars.processes import KEY, Pki, started
from tests.sidecars.proxies.hub_caller import HubCaller, hub_caller, resource_port
from tests.sidecars.scripted_ends import AGENT, heard, scripted

PATH = "/api/v1/namespaces/shop/configmaps/prices"
ACCOUNT = "system:serviceaccount:shop:deployer"
GO_FIELDS = {
    "uuid", "namespace", "name", "subresource", "method", "body", "params", "group", "version", "resource",
}  # fmt: skip


@asynccontextmanager
async def before_a_go_agent(*, drop_impersonation: bool = False) -> AsyncIterator[tuple[HubCaller, Pipe]]:
    async with (
        scripted(Mode.MANAGED) as (hub, pipe),
        in_front(hub, drop_impersonation=drop_impersonation) as caller,
    ):
        yield caller, pipe


@asynccontextmanager
async def in_front(hub: Hub, *, drop_impersonation: bool = False) -> AsyncIterator[HubCaller]:
    pki = Pki()
    assert hub.principal is not None
    options = await resource_port(hub.store, pki, namespace=ARGOCD)
    port = ResourcePort(
        replace(options, drop_impersonation=drop_impersonation),
        requests=hub.principal.requests,
        tokens=Tokens(KEY, now=time.time),
        gate=ServingGate(),
        subresources={},
    )
    hub.principal.requests.arrivals.append(port.came)
    async with started(port):
        async with asyncio.timeout(PATIENCE):
            await port.listening.wait()
        async with hub_caller(pki, port.port, agent=AGENT) as caller:
            yield caller


async def answer(pipe: Pipe, request: Event, resource: str) -> None:
    told = orjson.dumps({"uuid": request.event_id, "status": 200, "resource": resource})
    await pipe.send(
        Event(
            type=Message.RESPONSE,
            target="resource",
            resource_id=fresh_id(),
            event_id=request.event_id,
            payload=told,
        )
    )


async def test_whoever_wants_to_act_as_another_is_refused_with_the_reason() -> None:
    async with before_a_go_agent() as (hub, pipe):
        for method in ("GET", "DELETE"):
            refused = await hub(method, PATH, Impersonate_User=ACCOUNT)
            assert refused.status == 403
            assert f"would act as itself and not as {ACCOUNT}" in refused.message
            assert "--resource-proxy-drop-impersonation" in refused.message
        asking = asyncio.ensure_future(hub.get(PATH))
        request = await heard(pipe, "GET")  # the first that it hears of
        await answer(pipe, request, '{"a": 1}')
        assert (await asking).json == {"a": 1}


@pytest.mark.parametrize("method", ["GET", "PATCH"])
async def test_with_the_flag_it_acts_as_itself_and_is_told_nothing_that_it_does_not_know(method: str) -> None:
    async with before_a_go_agent(drop_impersonation=True) as (hub, pipe):
        body = b'{"data": {}}' if method == "PATCH" else None
        asking = asyncio.ensure_future(
            hub(method, PATH, body, content_type="application/merge-patch+json", Impersonate_User=ACCOUNT)
        )
        request = await heard(pipe, method)
        told = orjson.loads(request.payload)
        assert set(told) <= GO_FIELDS
        assert ACCOUNT not in request.payload.decode() + str(request.extensions)
        assert (told["namespace"], told["resource"], told["name"]) == ("shop", "configmaps", "prices")
        await answer(pipe, request, "{}")
        assert (await asking).status == 200


async def test_groups_and_extras_are_refused_with_the_flag_too() -> None:
    async with before_a_go_agent(drop_impersonation=True) as (hub, _):
        assert (await hub.get(PATH, Impersonate_Group="system:masters")).status == 403
        assert (await hub.get(PATH, Impersonate_Extra_Scopes="all")).status == 403


async def test_streams_and_credentials_are_not_asked_of_it_either() -> None:
    async with before_a_go_agent() as (hub, pipe):
        account = "/api/v1/namespaces/shop/serviceaccounts/deployer"
        service = "/api/v1/namespaces/shop/services/web"
        for subresource in sorted(REFUSED_SUBRESOURCES):
            for method, path in (("POST", account), ("GET", service)):
                refused = await hub(method, f"{path}/{subresource}", None if method == "GET" else {})
                assert refused.status == 403, (method, subresource)
                assert f"{subresource} is not served" in refused.message
        asking = asyncio.ensure_future(hub.get(PATH))
        request = await heard(pipe, "GET")
        assert orjson.loads(request.payload)["name"] == "prices", "the first that it hears of"
        await answer(pipe, request, "{}")
        await asking


async def test_one_that_never_answers_is_not_waited_for_again_until_it_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert ResourceProxy.__init__.__kwdefaults__ is not None
    monkeypatch.setitem(ResourceProxy.__init__.__kwdefaults__, "seconds", 0.5)
    async with scripted(Mode.MANAGED) as (hub, pipe), in_front(hub) as caller:
        assert (await caller.get(PATH)).status == 504
        await heard(pipe, "GET")
        for _ in range(3):
            refused = await caller.get(PATH)
            assert (refused.status, "--enable-resource-proxy off" in refused.message) == (503, True)
        assert hub.principal is not None
        here, _ = pipes()
        serving = asyncio.ensure_future(hub.principal.serve(AGENT, Mode.MANAGED, here, extensions=PLAIN))
        async with asyncio.timeout(PATIENCE):
            while (answered := await caller.get(PATH)).status in {502, 503}:
                pass  # the new stream has not begun
        assert answered.status == 504, "asked again"
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def test_one_that_has_answered_is_asked_again_after_a_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ResourceProxy.__init__.__kwdefaults__ is not None
    monkeypatch.setitem(ResourceProxy.__init__.__kwdefaults__, "seconds", 1.0)
    async with before_a_go_agent() as (hub, pipe):
        for answered in (True, False, True):
            asking = asyncio.ensure_future(hub.get(PATH))
            request = await heard(pipe, "GET")
            if answered:
                await answer(pipe, request, "{}")
            assert (await asking).status == (200 if answered else 504)
