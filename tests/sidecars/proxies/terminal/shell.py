"""What the stand-in for an API server runs in a container, and the WebSocket of who uses it."""

import asyncio
from typing import Any

import orjson
from aiohttp import ClientWebSocketResponse, WSMsgType, web

from sidecars.proxies.terminal.channels import V4, V5
from tests.sidecars.proxies.pod_scene import AGENT, PATIENCE, POD_PATH, PodScene

EXEC = f"{POD_PATH}/exec?command=sh&container=web&stdin=true&stdout=true&stderr=true&tty=true"
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


class Shell:
    """Gives back what it is told, channel and all, until `exit`."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.queries: list[list[tuple[str, str]]] = []
        self.protocols: list[str | None] = []
        self.outcome = SUCCESS
        self.open = 0

    async def __call__(self, request: web.Request, socket: Any) -> None:
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
    scene: PodScene,
    path: str = EXEC,
    *,
    agent: str = AGENT,
    protocols: tuple[str, ...] = (V5, V4),
    **more: Any,
) -> Any:
    return scene.callers[agent].ws_connect(f"{scene.url}{path}", protocols=protocols, **more)


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
