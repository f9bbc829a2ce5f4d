"""Terminals from a container to the control plane, with everything real but the kubelet."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import ClientWebSocketResponse, WSMsgType, web

from sidecars.proxies.terminal.channels import V4, V5
from tests.sidecars.proxies.pod_scene import AGENT, PATIENCE, POD_PATH, PodScene, pod_scene
from tests.sidecars.proxies.redis.redis_servers import eventually

EXEC = f"{POD_PATH}/exec?command=sh&container=web&stdin=true&stdout=true&stderr=true&tty=true"
EVERY_BYTE = bytes(range(256))
SUCCESS = orjson.dumps({"metadata": {}, "status": "Success"})
FAILED = orjson.dumps(
    {
        "metadata": {},
        "status": "Failure",
        "message": "command terminated with non-zero exit code",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": "137"}]},
    }
)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[PodScene]:
    async with pod_scene(tmp_path) as made:
        made.shell = Shell()
        made.pods.execute = made.shell
        yield made


class Shell:
    """Gives back what it is told, channel and all, until `exit`."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.queries: list[list[tuple[str, str]]] = []
        self.protocols: list[str | None] = []
        self.outcome = SUCCESS
        self.open = 0

    async def __call__(self, request: web.Request, socket: web.WebSocketResponse) -> None:
        self.queries.append(list(request.query.items()))
        self.protocols.append(socket.ws_protocol)
        self.open += 1
        try:
            async for message in socket:
                self.frames.append(message.data)
                if message.data[0] == 0 and message.data[1:] != b"exit":
                    await socket.send_bytes(b"\x01" + message.data[1:])
                elif message.data in {b"\x00exit", b"\xff\x00"}:
                    break
            await socket.send_bytes(b"\x03" + self.outcome)
            await socket.close()
        finally:
            self.open -= 1


def terminal(
    scene: PodScene, path: str = EXEC, *, agent: str = AGENT, protocols: tuple[str, ...] = (V5, V4)
) -> Any:
    return scene.callers[agent].ws_connect(f"{scene.url}{path}", protocols=protocols)


async def received(socket: ClientWebSocketResponse) -> bytes:
    async with asyncio.timeout(PATIENCE):
        message = await socket.receive()
    assert message.type is WSMsgType.BINARY, message
    return bytes(message.data)


async def exactly(socket: ClientWebSocketResponse, data: bytes) -> None:
    came = b""
    while len(came) < len(data):
        frame = await received(socket)
        assert frame[0] == 1
        came += frame[1:]
    assert came == data


async def ended(socket: ClientWebSocketResponse) -> dict[str, Any]:
    """The outcome, and the close after it."""
    frame = await received(socket)
    assert frame[0] == 3
    async with asyncio.timeout(PATIENCE):
        assert (await socket.receive()).type is WSMsgType.CLOSE
    assert socket.close_code == 1000
    outcome: dict[str, Any] = orjson.loads(frame[1:])
    return outcome


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
    assert scene.shell.frames == [b"\xff\x00"]


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
    scene.pods.execute = None
    async with terminal(scene) as socket:
        assert (await ended(socket))["message"] == "pods/exec is forbidden"
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


async def test_an_agent_whose_stream_is_cut_loses_its_terminals(scene: PodScene) -> None:
    await scene.agent_comes(terminals=True)
    async with terminal(scene) as socket:
        await socket.send_bytes(b"\x00x")
        await exactly(socket, b"x")
        scene.break_connection()
        assert "was lost" in (await ended(socket))["message"]
    await eventually(lambda: not scene.shell.open)


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
