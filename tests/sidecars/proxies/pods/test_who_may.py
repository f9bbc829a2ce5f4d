"""Whose logs and terminals are open, for whom, and who is told of it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import structlog

from argocd import names
from argocd.agents.vocabulary import Mode
from kube.resources import APPLICATIONS, CONFIG_MAPS
from sidecars.proxies import dispatcher
from sidecars.proxies.logs import agent_logs
from sidecars.proxies.logs import session as log_sessions
from sidecars.proxies.logs.proxy import SILENT_SECONDS
from sidecars.wire.capabilities import Capabilities
from sidecars.wire.data_streams import LOGS, TERMINAL
from sidecars.wire.generated.logstream_pb2 import LogStreamData
from sidecars.wire.generated.terminalstream_pb2 import TerminalStreamData
from sidecars.wire.streams import StreamLostError
from tests.sidecars import pair_in_memory
from tests.sidecars.proxies.pod_scene import ACCOUNT, AGENT, PATIENCE, POD_PATH, PodScene, pod_scene
from tests.sidecars.proxies.pods_api import NAMESPACE, POD
from tests.sidecars.proxies.redis.redis_servers import eventually
from tests.sidecars.proxies.terminal.shell import Shell, ended, exactly, terminal
from tiphys import logs

LOG = f"{POD_PATH}/log?follow=true"


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[PodScene]:
    async with pod_scene(tmp_path) as made:
        made.shell = Shell()
        made.pods.execute = made.shell
        made.pods.container.running = True
        made.pods.container.write("2026-01-01T10:00:00.0Z", b"line 0")
        yield made


def handlers(process: Any) -> list[Any]:
    served = process._agent.dispatcher._served
    return [served[target].handler for target in ("containerlog", "terminal")]


async def test_an_agent_on_the_blocklist_loses_its_logs_and_terminals(
    scene: PodScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in (log_sessions, agent_logs):  # so long the log of an agent that may come back is kept
        monkeypatch.setattr(each, "RESUME_SECONDS", 0.1)
    process = await scene.agent_comes(terminals=True)
    await scene.agent_comes("other", terminals=True)
    server = scene.principal.server
    assert server is not None
    async with (
        terminal(scene) as socket,
        terminal(scene, agent="other") as spared,
        scene.get(LOG) as log,
    ):
        for each in (socket, spared):
            await each.send_bytes(b"\x00x")
            await exactly(each, b"x")
        assert await log.content.readline() == b"line 0\n"
        (session,) = server.sessions.of(AGENT)
        blocked = {"metadata": {"name": names.TLS_BLOCKLIST}, "data": {session.peer.fingerprint: ""}}
        await scene.hub.create(CONFIG_MAPS, blocked, namespace="argocd")
        assert "was lost" in (await ended(socket))["message"]
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(aiohttp.ClientPayloadError):
                await log.read()
        await eventually(lambda: not any(handler._running for handler in handlers(process)))
        assert server.data_streams.of(AGENT) == []
        await spared.send_bytes(b"\x00y")
        await exactly(spared, b"y")
    async with scene.get(LOG) as refused:
        assert refused.status == 502


async def test_an_agent_that_a_newer_one_superseded_loses_its_logs_and_terminals(
    scene: PodScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in (log_sessions, agent_logs):  # so long the log of an agent that may come back is kept
        monkeypatch.setattr(each, "RESUME_SECONDS", 0.1)
    process = await scene.agent_comes(terminals=True)
    async with terminal(scene) as socket, scene.get(LOG) as log:
        await socket.send_bytes(b"\x00x")
        await exactly(socket, b"x")
        assert await log.content.readline() == b"line 0\n"
        async with scene.twin(terminals=True):
            assert "was lost" in (await ended(socket))["message"]
            await eventually(lambda: not scene.shell.open)
            await eventually(lambda: not any(handler._running for handler in handlers(process)))
            async with asyncio.timeout(PATIENCE):
                with pytest.raises(aiohttp.ClientPayloadError):
                    await log.read()


async def test_only_the_agent_that_was_asked_can_answer(scene: PodScene) -> None:
    process = await scene.agent_comes(terminals=True)
    other = await scene.agent_comes("other", terminals=True)
    async with terminal(scene) as socket, scene.get(LOG) as log:
        assert await log.content.readline() == b"line 0\n"
        await eventually(lambda: all(handler._running for handler in handlers(process)))
        (read,), (shown,) = (list(handler._running) for handler in handlers(process))
        for path, message in (
            (LOGS, LogStreamData(request_uuid=read, data=b"forged\n", eof=True)),
            (TERMINAL, TerminalStreamData(request_uuid=shown, data=b"forged", stream_type="stdout")),
        ):
            stream = await handlers(other)[0]._calls.open(path, seconds=PATIENCE)
            await stream.write(message)
            with pytest.raises(StreamLostError) as refused:
                await stream.read()
            assert refused.value.code == "NOT_FOUND"
        await socket.send_bytes(b"\x00x")
        await exactly(socket, b"x")
        scene.pods.container.end()
        assert await log.read() == b""


async def test_each_log_and_terminal_leaves_a_line_with_who_where_and_how_long(scene: PodScene) -> None:
    await scene.agent_comes(terminals=True)
    scene.pods.container.end()
    logs.configure(level="info")
    with structlog.testing.capture_logs() as lines:
        async with scene.get(f"{POD_PATH}/log?container=web", Impersonate_User=ACCOUNT) as log:
            assert await log.read() == b"line 0\n"
        async with terminal(scene, headers={"Impersonate-User": ACCOUNT}) as socket:
            await socket.send_bytes(b"\x00secret words")
            await exactly(socket, b"secret words")
            await socket.send_bytes(b"\x00exit")
            await ended(socket)
        await eventually(lambda: any(line["event"] == "terminal used" for line in lines))
    assert scene.pods.users[-2:] == [ACCOUNT, ACCOUNT]
    audit = [line for line in lines if line["event"] in {"log read", "terminal used"}]
    assert [line.pop("seconds") >= 0 for line in audit] == [True, True]
    common = {"agent": AGENT, "namespace": NAMESPACE, "name": POD, "user": ACCOUNT, "container": "web"}
    common["log_level"] = "info"
    assert audit == [
        {"event": "log read", "lines": 1, **common},
        {"event": "terminal used", "command": "sh", "reason": "ended", **common},
    ]
    assert "secret words" not in str(lines)


async def test_pods_of_other_namespaces_and_of_other_accounts_are_not_opened(scene: PodScene) -> None:
    await scene.agent_comes(terminals=True, resource_proxy_namespaces=(f"not-{NAMESPACE}",))
    async with terminal(scene) as socket:
        assert "is not shown: --resource-proxy-namespaces" in (await ended(socket))["message"]
    await scene.agent_goes()
    await scene.agent_comes(terminals=True)
    async with terminal(scene, headers={"Impersonate-User": "system:admin"}) as socket:
        assert "names another account than system:admin" in (await ended(socket))["message"]
    async with scene.get(f"{POD_PATH}/log", Impersonate_Group="system:masters") as refused:
        assert refused.status == 403
    assert scene.shell.queries == []
    assert scene.pods.container.asked == []


async def test_an_agent_that_cannot_act_as_an_account_is_not_asked_to(scene: PodScene) -> None:
    """argocd-agent's would open it as itself."""
    await scene.agent_comes(terminals=True, dialing={"announcement": Capabilities()})
    async with scene.get(LOG, Impersonate_User=ACCOUNT) as refused:
        assert refused.status == 403
        assert f"would act as itself and not as {ACCOUNT}" in (await refused.json())["message"]
    with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
        await terminal(scene, headers={"Impersonate-User": ACCOUNT})
    assert scene.pods.users == []
    async with scene.get(LOG) as log:
        assert await log.content.readline() == b"line 0\n"


@pytest.mark.parametrize("query", ["", "?follow=true"])
async def test_a_principal_that_takes_no_answers_is_told_at_once_what_is_switched_off(
    scene: PodScene, query: str
) -> None:
    """As argocd-agent's, which waits for the agent's call: minutes for a log, half an hour for a terminal."""
    await scene.agent_comes(logs=False, dialing={"announcement": Capabilities()})
    async with asyncio.timeout(SILENT_SECONDS):
        async with scene.get(f"{POD_PATH}/log{query}") as refused:
            assert refused.status == 500
            assert "this agent shows no logs: --enable-logs" in (await refused.json())["message"]
        async with terminal(scene) as socket:
            assert "this agent opens no terminals: --enable-exec" in (await ended(socket))["message"]


async def test_a_principal_that_takes_no_answers_is_told_at_once_of_too_many_requests(
    scene: PodScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.agent_comes(terminals=True, dialing={"announcement": Capabilities()})
    monkeypatch.setattr(dispatcher, "WAITING", 0)
    async with asyncio.timeout(SILENT_SECONDS):
        async with scene.get(LOG) as refused:
            assert "the agent has too many requests open" in (await refused.json())["message"]
        async with terminal(scene) as socket:
            assert "the agent has too many requests open" in (await ended(socket))["message"]
    assert scene.pods.users == []


async def test_a_managed_agent_opens_them_too(scene: PodScene) -> None:
    await scene.hub.create(APPLICATIONS, pair_in_memory.application("shop"), namespace=AGENT)
    await scene.agent_comes(terminals=True, mode=Mode.MANAGED)
    async with terminal(scene) as socket:
        await socket.send_bytes(b"\x00x")
        await exactly(socket, b"x")
    async with scene.get(LOG) as log:
        assert await log.content.readline() == b"line 0\n"
