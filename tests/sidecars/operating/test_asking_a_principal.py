"""The list of agents as a running principal tells it."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from kube.embedded import EmbeddedStore
from sidecars.materials import Files
from sidecars.operating.asking import ask_principal
from sidecars.principal.configuring import PrincipalSettings
from sidecars.principal.running import Process, Serving
from sidecars.wire.identity import Pattern, SubjectMethod
from sidecars.wire.tokens import Tokens
from tests.sidecars.couples import Hub
from tests.sidecars.wire.go_binary import written
from tests.sidecars.wire.pki import CLIENT, issue
from tests.sidecars.wire.principals import AUTHORITY, KEY, PATIENCE


class NoServices:
    """Of an API server that proxies nothing."""

    async def ask_service(self, service: str, path: str, *, namespace: str) -> Any:
        raise AssertionError(f"asked for {service}{path} in {namespace}")


async def test_a_running_principal_tells_its_agents(tmp_path: Path) -> None:
    written(tmp_path, agent=issue("agent-a", AUTHORITY, usage=[CLIENT]))
    store = EmbeddedStore(namespaces=["argocd", "agent-a"])
    await Hub(store).know("agent-a")
    process = Process(
        store,
        Serving(
            settings=PrincipalSettings(),
            method=SubjectMethod(Pattern("CN=([^,]+)")),
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
        ),
    )
    running = asyncio.ensure_future(process.run())
    try:
        async with asyncio.timeout(PATIENCE):
            await process.listening.wait()
        url = f"http://127.0.0.1:{process.metrics.port}/"
        told = await ask_principal(NoServices(), namespace="argocd", service="principal:8000", url=url)
        assert (told.problem, told.standings) == ("", {})  # nobody has come yet
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "nonsense"])
async def test_a_principal_that_does_not_answer_is_a_problem_and_no_failure(url: str) -> None:
    told = await ask_principal(NoServices(), namespace="argocd", service="principal:8000", url=url)
    assert told.problem.startswith(url)
    assert told.standings == {}
