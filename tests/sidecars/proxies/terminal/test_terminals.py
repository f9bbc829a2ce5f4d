"""Terminals from a container to the control plane, with everything real but the kubelet."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import structlog
from aiohttp import ClientWSTimeout, web

from argocd.agents.vocabulary import Mode
from sidecars.proxies.pods.agent_calls import AgentCalls
from sidecars.proxies.refusals import RefusedRequestError
from sidecars.proxies.terminal import agent_terminals
from sidecars.proxies.terminal.channels import V4, V5
from sidecars.proxies.terminal.proxy import TerminalProxy, TerminalSession
from sidecars.wire.auth.tokens import Holder
from sidecars.wire.data_streams import DataStream
from sidecars.wire.server.sessions import AuthenticatedAgent
from sidecars.wire.streams import StreamLostError
from tests.sidecars.proxies.pod_scene import PATIENCE, PodScene, pod_scene
from tests.sidecars.proxies.redis.redis_servers import eventually
from tests.sidecars.proxies.terminal.shell import EXEC, FAILED, Shell, ended, exactly, terminal
from tiphys import logs

EVERY_BYTE = bytes(range(256))
FIRST_SIZE = b'\x04{"Width":80,"Height":24}'


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[PodScene]:
    async with pod_scene(tmp_path) as made:
        made.shell = Shell()
        made.pods.execute = made.shell
        yield made


@pytest.mark.parametrize("version", [V5, V4])
async def test_every_byte_goes_both_ways_unchanged(scene: PodScene, version: str) -> None:
    await scene.agent_comes(terminals=True)
    scene.pods.protocols = (version,)
    async with terminal(scene) as socket:
        assert socket.protocol == V5
        for data in (EVERY_BYTE, b'\x00{"Width":1,"Height":1}', bytes(reversed(EVERY_BYTE)) * 2000):
            await socket.send_bytes(b"\x00" + data)
            await exactly(socket, data)
        await socket.send_bytes(b"\x00exit")
        assert (await ended(socket))["status"] == "Success"
    assert scene.shell.protocols == [version]
    assert sorted(scene.shell.queries[0]) == [
        ("command", "sh"),
        ("container", "web"),
        ("stderr", "true"),
        ("stdin", "true"),
        ("stdout", "true"),
        ("tty", "true"),
    ]


async def test_the_exit_code_is_told_as_the_api_server_tells_it(scene: PodScene) -> None:
    await scene.agent_comes(terminals=True)
    scene.shell.outcome = FAILED
    async with terminal(scene, protocols=(V4,)) as socket:
        assert socket.protocol == V4
        await socket.send_bytes(b"\x00exit")
        assert await ended(socket) == orjson.loads(FAILED)


async def test_a_missing_shell_is_told_so_that_argocd_server_tries_the_next(scene: PodScene) -> None:
    await scene.agent_comes(terminals=True)
    words = 'exec: "bash": executable file not found in $PATH'

    async def nothing(_: web.Request, socket: web.WebSocketResponse) -> None:
        await socket.send_bytes(b"\x03" + orjson.dumps({"status": "Failure", "message": words}))
        await socket.close()

    scene.pods.execute = nothing
    async with terminal(scene) as socket:
        assert (await ended(socket))["message"] == words


@pytest.mark.parametrize(("tty", "expected"), [("true", [FIRST_SIZE]), ("false", [])])
async def test_a_shell_knows_a_size_before_anything_else_where_it_draws(
    scene: PodScene, tty: str, expected: list[bytes]
) -> None:
    await scene.agent_comes(terminals=True)
    async with terminal(scene, EXEC.replace("tty=true", f"tty={tty}")) as socket:
        await socket.send_bytes(b"\x00x")
        await exactly(socket, b"x")
        await socket.send_bytes(b'\x04{"Width":120,"Height":40}')
        await socket.send_bytes(b"\x00y")
        await exactly(socket, b"y")
    told = [b"\x00x", b'\x04{"Width":120,"Height":40}', b"\x00y"]
    assert scene.shell.frames[: len(expected) + 3] == [*expected, *told]


async def test_sizes_arrive_and_of_a_storm_at_least_the_last(scene: PodScene) -> None:
    await scene.agent_comes(terminals=True)
    async with terminal(scene) as socket:
        for width in range(1, 5001):
            await socket.send_bytes(b'\x04{"Width":%d,"Height":24}' % width)
        await socket.send_bytes(b"\x04no size")
        await socket.send_bytes(b"\x00x")
        await exactly(socket, b"x")
    sizes = [frame for frame in scene.shell.frames if frame[0] == 4]
    assert sizes[-1] == b'\x04{"Width":5000,"Height":24}'


async def test_the_end_of_what_is_typed_is_told_where_there_is_a_word_for_it(scene: PodScene) -> None:
    await scene.agent_comes(terminals=True)
    async with terminal(scene) as socket:
        await socket.send_bytes(b"\xff\x00")
        assert (await ended(socket))["status"] == "Success"
    assert scene.shell.frames == [FIRST_SIZE, b"\xff\x00"]


async def test_what_is_not_permitted_is_the_outcome(scene: PodScene) -> None:
    await scene.agent_comes()
    async with terminal(scene) as socket:
        assert "--enable-exec" in (await ended(socket))["message"]
    await scene.agent_goes()
    await scene.agent_comes(terminals=True)
    scene.pods.owner = "somebody-else"
    async with terminal(scene) as socket:
        assert "no tracking mark" in (await ended(socket))["message"]
    scene.pods.owner = "shop"
    async with terminal(scene, EXEC.replace("web-1", "none")) as socket:
        assert (await ended(socket))["message"] == 'pods "none" not found'
    async with terminal(scene, EXEC.replace("container=web", "container=cache")) as socket:
        assert (await ended(socket))["message"] == "container cache is not valid for pod web-1"
    scene.pods.execute = None
    async with terminal(scene) as socket:
        assert (await ended(socket))["message"] == "pods/exec is forbidden"
    async with scene.get(f"{EXEC}&tty=false") as answer:
        assert answer.status == 400
        assert (await answer.json())["message"] == "the parameter tty is there twice"
    async with scene.get(EXEC) as answer:
        assert answer.status == 400
        assert "by a WebSocket" in (await answer.json())["message"]


@pytest.mark.parametrize(
    ("limit", "words"),
    [("terminal_seconds", "closed after 0 s"), ("terminal_idle_seconds", "nothing happened")],
)
async def test_a_terminal_ends_at_its_limits(scene: PodScene, limit: str, words: str) -> None:
    settings: dict[str, Any] = {limit: 0.2}
    await scene.agent_comes(terminals=True, **settings)
    async with terminal(scene) as socket:
        assert words in (await ended(socket))["message"]
    await eventually(lambda: not scene.shell.open)


async def test_whoever_leaves_ends_the_command(scene: PodScene) -> None:
    await scene.agent_comes(terminals=True)
    async with terminal(scene) as socket:
        await socket.send_bytes(b"\x00x")
        await exactly(socket, b"x")
        assert scene.shell.open == 1
    await eventually(lambda: not scene.shell.open)
    assert len(scene.principal._terminal_proxy._sessions) == 0


async def test_an_api_server_that_does_not_hear_the_end_is_left(
    scene: PodScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("CALL_SECONDS", "CLOSE_SECONDS"):
        monkeypatch.setattr(agent_terminals, limit, 0.05)
    process = await scene.agent_comes(terminals=True)
    handler = process._agent.dispatcher._served["terminal"].handler
    monkeypatch.setattr(handler, "_calls", AgentCalls())  # the connection is lost just then
    opened, over = asyncio.Event(), asyncio.Event()

    async def deaf(_request: web.Request, _socket: web.WebSocketResponse) -> None:
        opened.set()
        await over.wait()

    scene.pods.execute = deaf
    logs.configure(level="info")
    with structlog.testing.capture_logs() as lines:
        async with terminal(scene, timeout=ClientWSTimeout(ws_close=0.1)):
            await asyncio.wait_for(opened.wait(), PATIENCE)
            await eventually(lambda: handler._running)
            await eventually(lambda: not handler._running)
    over.set()
    assert [line["event"] for line in lines if line["log_level"] == "error"] == []


async def test_an_agent_whose_stream_is_cut_loses_its_terminals(scene: PodScene) -> None:
    await scene.agent_comes(terminals=True)
    async with terminal(scene) as socket:
        await socket.send_bytes(b"\x00x")
        await exactly(socket, b"x")
        scene.break_connection()
        assert "was lost" in (await ended(socket))["message"]
    await eventually(lambda: not scene.shell.open)


async def test_a_go_agent_that_hangs_up_at_once_keeps_nobody_waiting(scene: PodScene) -> None:
    """Where there is no such shell its call may be over before a word of it has come."""

    async def lost() -> bytes:
        raise StreamLostError("cancelled", code="CANCELLED")

    async def nothing(_message: object) -> None: ...

    proxy = TerminalProxy(scene.principal._requests)
    sessions = [TerminalSession(uuid=str(number), agent=agent) for number, agent in enumerate("bab")]
    for session in sessions:
        proxy._sessions.add(session)
    peer = AuthenticatedAgent(holder=Holder("a", Mode.MANAGED))
    with pytest.raises(StreamLostError):
        await proxy.carry(peer, DataStream(read=lost, write=nothing, label="a"), nothing)
    assert [session.stream.done() for session in sessions] == [False, True, False]
    with pytest.raises(RefusedRequestError, match="hung up before the terminal began"):
        await sessions[1].stream


async def test_a_hundred_terminals_are_open_at_once(scene: PodScene) -> None:
    await scene.agent_comes(terminals=True)

    async def use(number: int) -> None:
        async with terminal(scene) as socket:
            await socket.send_bytes(b"\x00%d" % number)
            await exactly(socket, b"%d" % number)
            opened.append(number)
            await all_open.wait()
            await socket.send_bytes(b"\x00again")
            await exactly(socket, b"again")

    opened: list[int] = []
    all_open = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for number in range(100):
            group.create_task(use(number))
        await eventually(lambda: len(opened) == 100)
        assert scene.shell.open == 100
        all_open.set()
    await eventually(lambda: not scene.shell.open)
