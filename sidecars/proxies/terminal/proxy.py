"""Terminals on the principal's side: a WebSocket of Argo CD, and the call by which the agent joins it."""

import asyncio
import time
from collections import deque

import grpc
from aiohttp import WSMsgType, web
from google.protobuf.message import DecodeError

from argocd.agents.vocabulary import Message, Target
from sidecars.proxies.api_paths import ApiPath
from sidecars.proxies.pods.data_sessions import DataSessions
from sidecars.proxies.pods.parameters import query_pairs, single_parameters
from sidecars.proxies.refusals import RefusedRequestError
from sidecars.proxies.requests import RequestError, Requests
from sidecars.proxies.terminal import channels
from sidecars.wire import payloads
from sidecars.wire.data_streams import DataStream
from sidecars.wire.errors import MalformedError
from sidecars.wire.events import Event, fresh_id
from sidecars.wire.generated.terminalstream_pb2 import TerminalStreamData
from sidecars.wire.proxy_payloads import ContainerTerminalRequest, ResourceResponse
from sidecars.wire.refusals import RefusedError
from sidecars.wire.server.server import SendGreeting
from sidecars.wire.server.sessions import AuthenticatedAgent
from sidecars.wire.streams import StreamLostError
from tiphys import logs, metrics

MAX_TERMINALS_PER_AGENT = 128
ANSWER_SECONDS = 30.0
# What is typed while the agent takes the last of it; a paste waits in the reader's own machine.
MAX_WAITING = 32
# Of 64 KiB: what was read and the client has not taken.
MAX_SHOWN = 4
MAX_WORDS, MAX_WORDS_BYTES = 64, 8 << 10

OPEN = metrics.gauge("tiphys_proxies_open_terminals", "Terminals that are open at the control plane.")

_OK = 200
_FLAGS = ("stdin", "stdout", "stderr", "tty")
_KNOWN = frozenset({"command", "container", *_FLAGS})
_TRUE = frozenset({"", "1", "t", "true"})

log = logs.get_logger()


class TerminalSession:
    """`stream` is the agent's call, once it came; what it says is read at once, for it may hang up after its last word."""

    def __init__(self, *, uuid: str, agent: str) -> None:
        self.uuid = uuid
        self.agent = agent
        self.stream: asyncio.Future[DataStream] = asyncio.get_running_loop().create_future()
        self.shown: asyncio.Queue[TerminalStreamData | None] = asyncio.Queue(MAX_SHOWN)
        self._reading: asyncio.Task[None] | None = None

    async def read(self, stream: DataStream) -> None:
        """Until it ends, or `close`."""
        self._reading = asyncio.ensure_future(self._read(stream))
        self.stream.set_result(stream)
        try:
            await asyncio.wait({self._reading})
        finally:
            if not self._reading.done():  # the call was cut: the client is told, whatever else waits
                self._reading.cancel()
                if self.shown.full():
                    self.shown.get_nowait()
                self.shown.put_nowait(None)

    async def _read(self, stream: DataStream) -> None:
        try:
            while (raw := await stream.read()) is not None:
                await self.shown.put(TerminalStreamData.FromString(raw))
        except (StreamLostError, DecodeError) as error:
            log.info("a terminal's call was lost", **{logs.AGENT: self.agent, logs.REASON: str(error)})
        await self.shown.put(None)

    def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()


class TerminalProxy:
    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._sessions: DataSessions[TerminalSession] = DataSessions(
            per_agent=MAX_TERMINALS_PER_AGENT, what="terminals"
        )

    async def serve(
        self, request: web.BaseRequest, *, agent: str, path: ApiPath, account: str
    ) -> web.StreamResponse:
        asked = terminal_request(request, path=path, account=account)
        session = TerminalSession(uuid=asked.uuid, agent=agent)
        self._sessions.add(session)
        begin, outcome = time.monotonic(), "left"
        OPEN.inc()
        try:
            # Last of all: a client that was refused a WebSocket asks again by SPDY, and shows what it is told then.
            socket = await _upgraded(request)
            outcome = await self._connected(socket, session, asked)
            await socket.close()
        finally:
            OPEN.dec()
            session.close()
            self._sessions.remove(session)
            log.info(
                "terminal used",
                **{logs.AGENT: agent, logs.NAMESPACE: path.namespace, logs.NAME: path.name},
                **{logs.USER: asked.impersonate_user, logs.SECONDS: round(time.monotonic() - begin, 1)},
                **{logs.COMMAND: " ".join(asked.command or ())[:200], logs.REASON: outcome},
                container=asked.container_name,
            )
        return socket

    async def _connected(
        self, socket: web.WebSocketResponse, session: TerminalSession, asked: ContainerTerminalRequest
    ) -> str:
        """How it ended, in words. What goes wrong is told as the outcome: a client shows it, and tries another shell."""
        try:
            await self._ask(session, asked)
            async with asyncio.timeout(ANSWER_SECONDS):
                stream = await asyncio.shield(session.stream)
        except (RefusedRequestError, RequestError) as error:
            return await _told(socket, channels.failure(str(error), code=error.status))
        except TimeoutError:
            return await _told(
                socket, channels.failure(f"agent {session.agent} did not come to the terminal")
            )
        keyboard = _Keyboard(session.uuid)
        reading = asyncio.ensure_future(_read_client(socket, keyboard))
        typing = asyncio.ensure_future(keyboard.send(stream))
        showing = asyncio.ensure_future(_show(socket, session))
        tasks = {reading, typing, showing}
        try:
            await asyncio.wait({reading, showing}, return_when=asyncio.FIRST_COMPLETED)
            return showing.result() if showing.done() else "left"
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(self, session: TerminalSession, asked: ContainerTerminalRequest) -> None:
        event = Event(
            type=Message.TERMINAL_REQUEST,
            target=Target.TERMINAL,
            resource_id=asked.uuid,
            event_id=asked.uuid,
            payload=payloads.write(asked),
        )
        if not self._requests.is_tiphys(session.agent):
            self._requests.tell(session.agent, event, seconds=ANSWER_SECONDS)
            return
        answer = _read(await self._requests.ask(session.agent, event, seconds=ANSWER_SECONDS, mutates=True))
        if answer.status != _OK:
            raise RefusedRequestError(answer.resource[:1000], status=answer.status)

    async def carry(self, peer: AuthenticatedAgent, stream: DataStream, _greet: SendGreeting) -> None:
        """A call of an agent, StreamTerminal, for as long as somebody sits there."""
        raw: bytes | None = None
        try:
            raw = await stream.read()
        finally:
            if raw is None:
                self._hung_up(peer.name)
        first = _message(raw)
        session = self._sessions.find(first.request_uuid, agent=peer.name)
        if session is None or session.stream.done():
            raise _over(grpc.StatusCode.NOT_FOUND, "session not found")
        await session.read(stream)

    def _hung_up(self, agent: str) -> None:
        """Before its first word came, which says for whom it was: argocd-agent's does where there is no such shell, and
        what it has said is lost with the call. Whoever has waited longest is told, rather than nobody.
        """
        for session in self._sessions.of(agent):
            if not session.stream.done():
                session.stream.set_exception(
                    RefusedRequestError(f"agent {agent} hung up before the terminal began", status=502)
                )
                session.stream.exception()  # who waited may have left
                return


async def _upgraded(request: web.BaseRequest) -> web.WebSocketResponse:
    socket = web.WebSocketResponse(protocols=channels.PROTOCOLS, max_msg_size=channels.MAX_FRAME)
    if not socket.can_prepare(request).ok:
        raise RefusedRequestError(
            "a terminal is opened by a WebSocket, SPDY is not served: whatever stands between Argo CD and"
            " this port must let WebSockets through",
            status=400,
        )
    await socket.prepare(request)
    return socket


class _Keyboard:
    """What the agent has still to be told. Of sizes that wait only the last one counts."""

    def __init__(self, uuid: str) -> None:
        self._uuid = uuid
        self._waiting: deque[TerminalStreamData] = deque()
        self._some = asyncio.Event()
        self._room = asyncio.Event()

    async def put(self, **content: object) -> None:
        message = TerminalStreamData(request_uuid=self._uuid, **content)  # type: ignore[arg-type]  # as the proto says
        if message.resize and self._waiting and self._waiting[-1].resize:
            self._waiting[-1] = message
        else:
            self._waiting.append(message)
        self._some.set()
        while len(self._waiting) > MAX_WAITING:
            self._room.clear()
            await self._room.wait()

    async def send(self, stream: DataStream) -> None:
        try:
            while True:
                while not self._waiting:
                    self._some.clear()
                    await self._some.wait()
                message = self._waiting.popleft()
                self._room.set()
                await stream.write(message)
        except StreamLostError as error:
            log.debug("the agent takes no more of a terminal", **{logs.REASON: str(error)})
            await asyncio.Event().wait()  # how it ended the other direction tells


async def _read_client(socket: web.WebSocketResponse, keyboard: _Keyboard) -> None:
    """Until the client leaves."""
    async for message in socket:
        if message.type is not WSMsgType.BINARY or not message.data:
            continue
        channel, data = message.data[0], message.data[1:]
        if channel == channels.STDIN and data:
            await keyboard.put(data=data, stream_type="stdin")
        elif channel == channels.RESIZE:
            size = channels.parse_size(data)
            if size is not None:
                await keyboard.put(resize=True, cols=size[0], rows=size[1])
        elif channel == channels.CLOSE and data == bytes((channels.STDIN,)):
            await keyboard.put(eof=True)


async def _show(socket: web.WebSocketResponse, session: TerminalSession) -> str:
    """Until the agent ends it; how, in words."""
    outcome = b""
    try:
        while (message := await session.shown.get()) is not None:
            if message.data:
                channel = channels.channel_of(message.stream_type)
                outcome = message.data if channel == channels.OUTCOME else outcome
                await socket.send_bytes(bytes((channel,)) + message.data)
            if message.error:
                return await _told(socket, channels.failure(message.error[:1000]))
            if message.eof:
                return await _told(socket, b"" if outcome else channels.SUCCESS)
    except ConnectionError:
        return "left"
    return await _told(socket, channels.failure(f"the connection with agent {session.agent} was lost"))


async def _told(socket: web.WebSocketResponse, outcome: bytes) -> str:
    try:
        if outcome:
            await socket.send_bytes(bytes((channels.OUTCOME,)) + outcome)
    except ConnectionError:
        return "left"
    return "ended" if outcome in {b"", channels.SUCCESS} else "failed"


def terminal_request(request: web.BaseRequest, *, path: ApiPath, account: str) -> ContainerTerminalRequest:
    pairs = query_pairs(request.rel_url.raw_query_string, most=128)
    if unknown := sorted({name for name, _ in pairs} - _KNOWN):
        raise RefusedRequestError(f"the parameter {unknown[0][:64]} is not served", status=400)
    command = [told for name, told in pairs if name == "command"]
    if not command or len(command) > MAX_WORDS or sum(map(len, command)) > MAX_WORDS_BYTES:
        raise RefusedRequestError("a command has a word, and not too many", status=400)
    single = single_parameters(pair for pair in pairs if pair[0] != "command")
    flags = {name: single.get(name, "false").lower() in _TRUE for name in _FLAGS}
    return ContainerTerminalRequest(
        uuid=fresh_id(),
        namespace=path.namespace,
        pod_name=path.name,
        container_name=single.get("container", ""),
        command=command,
        impersonate_user=account,
        **flags,
    )


def _read(answer: Event) -> ResourceResponse:
    try:
        return payloads.read(ResourceResponse, answer.payload)
    except MalformedError as error:
        raise RefusedRequestError(f"the agent's answer cannot be read: {error}", status=502) from error


def _message(raw: bytes | None) -> TerminalStreamData:
    try:
        return TerminalStreamData.FromString(raw or b"")
    except DecodeError as error:
        raise _over(grpc.StatusCode.INVALID_ARGUMENT, "invalid terminal message") from error


def _over(code: grpc.StatusCode, words: str) -> RefusedError:
    return RefusedError(code, words, reason=words, label="over")
