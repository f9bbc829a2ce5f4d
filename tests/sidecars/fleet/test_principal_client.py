"""The list of agents as a running principal tells it."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import ClientSession, web

from certs.sources import Files
from kube.embedded import EmbeddedStore
from kube.live import LiveStore
from sidecars.fleet import principal_client
from sidecars.fleet.principal_client import ask_principal
from sidecars.principal.process import PrincipalOptions, PrincipalProcess
from sidecars.principal.settings import PrincipalSettings
from sidecars.wire.auth.methods import NamePattern, SubjectMethod
from sidecars.wire.auth.tokens import Tokens
from tests.sidecars import processes
from tests.sidecars.pair_in_memory import Hub
from tests.sidecars.wire.go_binary import written
from tests.sidecars.wire.listening_principal import AUTHORITY, KEY, PATIENCE, until
from tests.sidecars.wire.pki import CLIENT, issue


class NoServices:
    """Of an API server that proxies nothing."""

    async def account_token(self, account: str, *, namespace: str, audience: str, seconds: int) -> str:
        raise AssertionError(f"asked for a token of {namespace}/{account}")

    async def ask_service(
        self, service: str, path: str, *, namespace: str, headers: Mapping[str, str] | None = None
    ) -> Any:
        raise AssertionError(f"asked for {service}{path} in {namespace}")


async def test_a_running_principal_tells_its_agents(tmp_path: Path) -> None:
    written(tmp_path, agent=issue("agent-a", AUTHORITY, usage=[CLIENT]))
    store = EmbeddedStore(namespaces=["argocd", "agent-a"])
    await Hub(store).know("agent-a")
    process = PrincipalProcess(
        store,
        PrincipalOptions(
            settings=PrincipalSettings(),
            method=SubjectMethod(NamePattern("CN=([^,]+)")),
            tokens=Tokens(KEY, now=time.time),
            source=Files(
                certificate=tmp_path / "principal.crt",
                key=tmp_path / "principal.key",
                authorities=tmp_path / "ca.crt",
            ),
            host="127.0.0.1",
            port=0,
            health_host="127.0.0.1",
            health_port=0,
            metrics_port=0,
            pages_port=0,
        ),
    )
    running = asyncio.ensure_future(process.run())
    try:
        async with asyncio.timeout(PATIENCE):
            await process.listening.wait()
        url = f"http://127.0.0.1:{process.pages.port}/"
        told = await ask_principal(NoServices(), namespace="argocd", service="principal:8000", url=url)
        assert (told.problem, told.statuses) == ("", {})  # nobody has come yet
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@asynccontextmanager
async def api_server(tmp_path: Path, *, service: str, port: int) -> AsyncIterator[LiveStore]:
    """As much of one as proxies a Service whose only endpoint is a port of this machine: real ones refuse
    endpoints on loopback.
    """

    async def proxied(request: web.Request) -> web.Response:
        assert request.headers["Tiphys-Token"] == "the reader's"
        async with (
            ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}/{request.match_info['path']}") as answer,
        ):
            body = await answer.read()
            return web.Response(status=answer.status, body=body, content_type=answer.content_type)

    async def token(_request: web.Request) -> web.Response:
        return web.json_response({"status": {"token": "the reader's"}})

    application = web.Application()
    account = "/api/v1/namespaces/argocd/serviceaccounts/tiphys-principal-reader/token"
    application.router.add_post(account, token)
    application.router.add_get(f"/api/v1/namespaces/argocd/services/{service}/proxy/{{path:.*}}", proxied)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    (address, *_) = runner.addresses
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        yaml.safe_dump(
            {
                "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{address[1]}"}}],
                "users": [{"name": "u", "user": {}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    store = await LiveStore.connect(kubeconfig=kubeconfig)
    try:
        yield store
    finally:
        await store.close()
        await runner.cleanup()


async def test_a_principals_agents_are_asked_for_through_the_api_servers_proxy(tmp_path: Path) -> None:
    hub, workload = EmbeddedStore(namespaces=["argocd", "agent-a"]), EmbeddedStore(namespaces=["argocd"])
    pki = processes.Pki()
    await Hub(hub).know("agent-a")
    service = "tiphys-principal-agents:8004"
    async with (
        processes.principal(hub, pki) as principal,
        processes.connected_agent(workload, pki, name="agent-a", port=principal.port),
        api_server(tmp_path, service=service, port=principal.pages.port) as store,
    ):
        await until(lambda: principal.principal is not None and len(principal.principal.known_agents) == 1)
        told = await ask_principal(store, namespace="argocd", service=service, url=None)
        assert told.problem == ""
        assert told.source == f"Service argocd/{service}"
        agent = told.statuses["agent-a"]
        assert (agent.mode, agent.connected) == ("managed", True)
        missing = await ask_principal(store, namespace="argocd", service="nobody:8000", url=None)
        assert missing.statuses == {}
        assert missing.problem


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "nonsense"])
async def test_a_principal_that_does_not_answer_is_a_problem_and_no_failure(url: str) -> None:
    told = await ask_principal(NoServices(), namespace="argocd", service="principal:8000", url=url)
    assert told.problem.startswith(url)
    assert told.statuses == {}


async def test_an_endless_answer_is_not_read_to_its_end() -> None:
    sent = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        answer = web.StreamResponse()
        await answer.prepare(request)
        while sent < 4 * principal_client.MAX_BYTES:
            await answer.write(b" " * (1 << 20))
            sent += 1 << 20
        return answer

    application = web.Application()
    application.router.add_get("/agents", endless)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        (address, *_) = runner.addresses
        url = f"http://127.0.0.1:{address[1]}"
        told = await ask_principal(NoServices(), namespace="argocd", service="principal:8000", url=url)
    finally:
        await runner.cleanup()
    assert "the answer has more than 16777216 bytes" in told.problem
    assert sent < 2 * principal_client.MAX_BYTES
