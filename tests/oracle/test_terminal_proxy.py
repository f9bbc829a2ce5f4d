"""argocd-agent's own tables of the web terminal, and where ours answers otherwise on purpose."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from aiohttp import web

from argocd.agents.vocabulary import Message, Mode, Target
from sidecars.agent.settings import AgentSettings
from sidecars.proxies.requests import Requests
from sidecars.proxies.terminal import channels
from sidecars.proxies.terminal.proxy import MAX_WAITING, TerminalProxy
from sidecars.wire import payloads
from sidecars.wire.auth.tokens import Holder
from sidecars.wire.data_streams import DataStream
from sidecars.wire.events import Event
from sidecars.wire.generated.terminalstream_pb2 import TerminalStreamData
from sidecars.wire.proxy_payloads import ContainerTerminalRequest
from sidecars.wire.refusals import RefusedError
from sidecars.wire.server.sessions import AuthenticatedAgent
from tests.oracle.tables import MARKS, table
from tests.sidecars.proxies.pod_scene import AGENT, PATIENCE, PodScene, pod_scene
from tests.sidecars.proxies.pods_api import NAMESPACE, POD
from tests.sidecars.proxies.redis.redis_servers import eventually
from tests.sidecars.proxies.spdy import PROTOCOL
from tests.sidecars.proxies.terminal.shell import Shell, ended, exactly, received, terminal

pytestmark = MARKS

OTHERWISE = {
    "term-resize-operation": "v4 and v5 have a channel for sizes, and no message without one",
    "term-resize-channel0-json": "what is typed is typed, whatever it looks like",
    "term-handshake-empty": "the same code and words as for a session that nobody has",
    "term-handshake-unknown": "with a code that says so",
    "term-ws-403": "SPDY is not spoken: the caller is told what is in the way of a WebSocket",
    "term-constants": "what is typed and not taken is held for 32 messages, then in the client",
    "term-http-autonomous": "autonomous agents open terminals too",
}
FIRST_SIZE = b'\x04{"Width":80,"Height":24}'


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[PodScene]:
    async with pod_scene(tmp_path) as made:
        made.shell = Shell()
        made.pods.execute = made.shell
        yield made


def unescaped(text: str) -> bytes:
    return text.encode().decode("unicode_escape").encode("latin-1")


@pytest.mark.parametrize("case", table("principal: stream_type to Kubernetes exec channel"))
def test_streams_have_the_same_channels(case: Any) -> None:
    assert channels.channel_of(case["input"]["stream_type"]) == case["expect"]["channel"]


@pytest.mark.parametrize("case", table("principal: Kubernetes resize message"))
def test_a_size_is_read_as_argocd_agent_reads_it(case: Any) -> None:
    expected = case["expect"]
    found = channels.parse_size(case["input"]["json"].encode())
    assert found == ((expected["cols"], expected["rows"]) if expected["ok"] else None)


@pytest.mark.parametrize("case", table("principal: WebSocket message from argocd-server"))
async def test_a_message_of_argocd_server_is_a_size_where_it_is_one_there(case: Any, scene: PodScene) -> None:
    sent, expected = unescaped(case["input"]["bytes"]), case["expect"]
    await scene.agent_comes(terminals=True)
    async with terminal(scene) as socket:
        await socket.send_bytes(sent)
        await socket.send_bytes(b"\x00after")
        await eventually(lambda: b"\x00after" in scene.shell.frames)
    assert scene.shell.frames[0] == FIRST_SIZE
    came = scene.shell.frames[1 : scene.shell.frames.index(b"\x00after")]
    sizes = [channels.parse_size(frame[1:]) for frame in came if frame[0] == channels.RESIZE]
    if case["id"] in OTHERWISE:
        assert sizes == []
        assert came == ([sent] if sent[0] == channels.STDIN else [])
        return
    assert sizes == ([(expected["cols"], expected["rows"])] if expected["resize"] else [])


@pytest.mark.parametrize("case", table("agent: error means the shell is missing"))
async def test_why_a_shell_does_not_start_reaches_argocd_server_in_its_words(
    case: Any, scene: PodScene
) -> None:
    """It decides by them whether to try the next, as argocd-agent's agent does."""
    words, expected = case["input"]["error"], case["expect"]["shell_not_found"]

    async def start(_: web.Request, socket: web.WebSocketResponse) -> None:
        status = {"status": "Success"} if words is None else {"status": "Failure", "message": words}
        await socket.send_bytes(b"\x03" + orjson.dumps(status))
        await socket.close()

    scene.pods.execute = start
    await scene.agent_comes(terminals=True)
    async with terminal(scene) as socket:
        outcome = await ended(socket)
    assert outcome.get("message") == words
    assert (outcome["status"] == "Failure") >= expected


# The rest of the terminal, each case with what it does.


async def is_refused(case: Any, _scene: PodScene) -> None:
    first = TerminalStreamData(**case["input"]["first_message"]).SerializeToString()

    async def read() -> bytes:
        return first

    async def nothing(_message: object) -> None: ...

    peer = AuthenticatedAgent(holder=Holder(AGENT, Mode.MANAGED))
    with pytest.raises(RefusedError, match="session not found") as error:
        await TerminalProxy(Requests(lambda _: None)).carry(
            peer, DataStream(read=read, write=nothing, label=AGENT), nothing
        )
    assert error.value.code.name == "NOT_FOUND", OTHERWISE[case["id"]]


async def types(case: Any, scene: PodScene) -> None:
    told = case["input"]["from_principal"]["data"].encode()
    async with terminal(scene) as socket:
        await socket.send_bytes(b"\x00" + told)
        await exactly(socket, case["expect"]["shell_gets"].encode())
    assert scene.shell.frames[1] == b"\x00" + case["expect"]["shell_gets"].encode()


async def from_principal(case: Any, scene: PodScene) -> None:
    """As argocd-agent's principal says it, to the agent."""
    async with terminal(scene) as socket:
        await socket.send_bytes(b"\x00x")
        await exactly(socket, b"x")
        (session,) = scene.principal._terminal_proxy._sessions.of(AGENT)
        stream = await session.stream
        await stream.write(TerminalStreamData(request_uuid=session.uuid, **case["input"]["from_principal"]))
        if (size := case["expect"].get("size_queue")) is not None:
            await eventually(lambda: len(scene.shell.frames) > 2)
            assert channels.parse_size(scene.shell.frames[2][1:]) == tuple(size)
        else:
            await eventually(lambda: not scene.shell.open)
            closed = b"\xff\x00" in scene.shell.frames
            assert closed == (case["expect"].get("stdin") == "closed")


async def shows(case: Any, scene: PodScene) -> None:
    expected = case["expect"]
    written = case["input"].get("shell_writes") or case["input"]["from_agent"]["data"]

    async def write(_: web.Request, socket: web.WebSocketResponse) -> None:
        await socket.send_bytes(b"\x01" + written.encode())
        async for _message in socket:
            pass

    scene.pods.execute = write
    async with terminal(scene) as socket:
        frame = await received(socket)
    if "websocket_binary" in expected:
        assert frame == unescaped(expected["websocket_binary"])
    else:
        told = expected["to_principal"]
        assert frame == bytes((channels.channel_of(told["stream_type"]),)) + told["data"].encode()


async def is_opened_once(case: Any, scene: PodScene) -> None:
    async with terminal(scene) as socket:
        await socket.send_bytes(b"\x00x")
        await exactly(socket, b"x")
        (session,) = scene.principal._terminal_proxy._sessions.of(AGENT)
        request = ContainerTerminalRequest(
            uuid=session.uuid, namespace=NAMESPACE, pod_name=POD, command=["sh"]
        )
        dispatcher = scene.processes[AGENT]._agent.dispatcher
        for event_id in (session.uuid, "sent again"):
            event = Event(
                type=Message.TERMINAL_REQUEST,
                target=Target.TERMINAL,
                resource_id=session.uuid,
                event_id=event_id,
                payload=payloads.write(request),
            )
            dispatcher.receive(event)
        await eventually(lambda: not dispatcher._running)
    assert (len(scene.shell.queries) == 1) == case["expect"]["ignored"]


async def says_what_is_in_the_way(case: Any, scene: PodScene) -> None:
    scene.pods.protocols = (PROTOCOL,)
    async with terminal(scene) as socket:
        assert "SPDY is not spoken here" in (await ended(socket))["message"], OTHERWISE[case["id"]]
    assert scene.shell.queries == []


async def needs_no_other_way(case: Any, scene: PodScene) -> None:
    assert case["expect"]["fallback"] is None
    async with terminal(scene) as socket:
        await socket.send_bytes(b"\x00x")
        await exactly(socket, b"x")
    assert scene.shell.protocols == [channels.V5]


async def fails(case: Any, scene: PodScene) -> None:
    scene.pods.execute = None
    async with terminal(scene) as socket:
        assert ((await ended(socket))["status"] == "Failure") == case["expect"]["error"]


async def has_constants(case: Any, _scene: PodScene) -> None:
    expected = case["expect"]
    ours = {"stdin": channels.STDIN, "stdout": channels.STDOUT, "stderr": channels.STDERR}
    ours |= {"error": channels.OUTCOME, "resize": channels.RESIZE}
    assert ours == expected["channels"]
    settings = AgentSettings(mode=Mode.MANAGED, namespace="argocd")
    assert settings.terminal_seconds == expected["session_limit_min"] * 60
    assert expected["channel_buffer"] > MAX_WAITING, OTHERWISE[case["id"]]


DOES = {
    "term-handshake-empty": is_refused,
    "term-handshake-unknown": is_refused,
    "term-stdin": types,
    "term-agent-resize": from_principal,
    "term-eof": from_principal,
    "term-error": from_principal,
    "term-output": shows,
    "term-forward": shows,
    "term-duplicate": is_opened_once,
    "term-ws-403": says_what_is_in_the_way,
    "term-ws-ok": needs_no_other_way,
    "term-ws-create-fails": fails,
    "term-constants": has_constants,
}


@pytest.mark.parametrize("case", [each for each in table("web terminal") if each.id in DOES])
async def test_a_terminal_does_what_argocd_agents_does(case: Any, scene: PodScene) -> None:
    await scene.agent_comes(terminals=True)
    async with asyncio.timeout(PATIENCE):
        await DOES[case["id"]](case, scene)


@pytest.mark.parametrize("case", table("web terminal, before the WebSocket upgrade"))
async def test_before_the_upgrade_a_terminal_is_refused_as_there(case: Any, scene: PodScene) -> None:
    await scene.agent_comes(terminals=True, mode=Mode(case["input"].get("mode", Mode.AUTONOMOUS)))
    if case["id"] in OTHERWISE:
        async with terminal(scene) as socket:
            await socket.send_bytes(b"\x00x")
            await exactly(socket, b"x")
        return
    await scene.agent_goes()
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await terminal(scene)
    assert refused.value.status == case["expect"]["http_status"]


def test_every_case_of_the_terminals_tables_is_asked() -> None:
    asked = {each.id for each in table("web terminal") if not each.id.startswith("term-http-")}
    assert asked == set(DOES)
