"""Terminals on the agent's side: a command in a container of its own Applications, where that is switched on."""

import asyncio
import math
import re
from dataclasses import dataclass

import orjson
from aiohttp import ClientConnectionError, ClientWebSocketResponse, WSMsgType

from argocd.reading import text
from kube.errors import ApiError
from sidecars.proxies.pods.access import PodAnswerError, Pods
from sidecars.proxies.pods.agent_calls import AgentCalls
from sidecars.proxies.pods.data_handler import DataHandler, DataKind
from sidecars.proxies.refusals import RefusedRequestError
from sidecars.proxies.terminal import channels
from sidecars.wire import payloads
from sidecars.wire.client.dialer import DialError
from sidecars.wire.data_streams import TERMINAL, OpenedDataStream
from sidecars.wire.events import Event
from sidecars.wire.generated.terminalstream_pb2 import TerminalStreamData
from sidecars.wire.proxy_payloads import ContainerTerminalRequest
from sidecars.wire.streams import StreamLostError
from tiphys import logs

MAX_TERMINALS = 128
CALL_SECONDS = 15.0
CLOSE_SECONDS = 5.0
# As argocd-agent: a shell that draws before its reader has told a size needs one.
FIRST_SIZE = (80, 24)
ERROR_BYTES = 64 << 10
_CHUNK = 64 << 10
_BAD_REQUEST = 400
# What Kubernetes says when all is well but the upgrade.
_UPGRADE = re.compile("upgrade", re.IGNORECASE)

log = logs.get_logger()


def _error(uuid: str, message: str) -> tuple[TerminalStreamData, ...]:
    return TerminalStreamData(request_uuid=uuid), TerminalStreamData(request_uuid=uuid, error=message)


TERMINALS = DataKind(name="terminal", path=TERMINAL, error=_error, refusal=lambda _status, words: words)


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalLimits:
    """Seconds; 0: none."""

    total: float
    idle: float


class TerminalHandler(DataHandler):
    def __init__(self, pods: Pods, calls: AgentCalls, *, limits: TerminalLimits) -> None:
        super().__init__(TERMINALS, calls)
        self._pods = pods
        self._limits = limits

    def mutates(self, event: Event) -> bool:
        return True

    async def handle(self, event: Event) -> bytes | None:
        request = payloads.read(ContainerTerminalRequest, event.payload)
        if request.uuid in self._running:
            return None
        try:
            socket = await self._opened(request)
        except RefusedRequestError as error:
            words = str(error)
            if isinstance(error, PodAnswerError):
                words = _words(error.body) or words
            return self.refusal(event, status=error.status, message=words)
        return self._begun(event, request.uuid, self._carry(request, socket))

    async def _opened(self, request: ContainerTerminalRequest) -> ClientWebSocketResponse:
        if len(self._running) >= MAX_TERMINALS:
            raise RefusedRequestError(f"{MAX_TERMINALS} terminals of this agent are open already", status=429)
        account = request.impersonate_user
        path = await self._pods.check(namespace=request.namespace, name=request.pod_name, account=account)
        query = [
            *(("command", word) for word in request.command or ()),
            *((name, "true") for name in ("stdin", "stdout", "stderr", "tty") if getattr(request, name)),
            *([("container", request.container_name)] if request.container_name else []),
        ]
        try:
            return await self._pods.api.websocket(
                f"{path}/exec", query=query, protocols=channels.PROTOCOLS, impersonate=account
            )
        except ApiError as error:
            raise await self._explained(f"{path}/exec", dict(query), account, error) from error

    async def _explained(
        self, path: str, query: dict[str, str], account: str, error: ApiError
    ) -> RefusedRequestError:
        """A refused WebSocket comes without its words: asked without one, the API server says them."""
        code = getattr(error, "code", 0)
        if not code:
            return RefusedRequestError(str(error), status=502)
        try:
            answer = await self._pods.api.request(
                "GET", path, query=query, impersonate=account, max_bytes=ERROR_BYTES
            )
        except ApiError:
            return RefusedRequestError(str(error), status=code)
        words = _words(answer.body)
        if answer.status == code == _BAD_REQUEST and _UPGRADE.search(words):
            return RefusedRequestError(
                f"the API server opens no WebSocket for exec, and SPDY is not spoken here ({words[:200]}):"
                " a proxy between the agent and the API server must let WebSockets through",
                status=502,
            )
        if answer.status == code:
            return PodAnswerError(str(error), status=code, body=answer.body)
        return RefusedRequestError(str(error), status=code)

    async def _carry(self, request: ContainerTerminalRequest, socket: ClientWebSocketResponse) -> None:
        try:
            stream = await self._calls.open(TERMINAL, seconds=CALL_SECONDS)
            try:
                await stream.write(TerminalStreamData(request_uuid=request.uuid))
                await _Terminal(request, socket, stream, self._limits).run()
            finally:
                stream.cancel()
        except (StreamLostError, DialError) as error:
            log.debug("a terminal's call ended", **{logs.REASON: str(error)})
        finally:
            await _close(socket)


class _Terminal:
    """One, between the API server's WebSocket and the principal's call."""

    def __init__(
        self,
        request: ContainerTerminalRequest,
        socket: ClientWebSocketResponse,
        stream: OpenedDataStream,
        limits: TerminalLimits,
    ) -> None:
        self._uuid = request.uuid
        self._tty = request.tty
        self._socket = socket
        self._stream = stream
        self._limits = limits
        self._active = asyncio.get_running_loop().time()

    async def run(self) -> None:
        """Until either side ends, or a limit does."""
        output = asyncio.ensure_future(self._show())
        typed = asyncio.ensure_future(self._type())
        limit = asyncio.ensure_future(self._limit())
        tasks = {output, typed, limit}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if limit.done() and not output.done():
                await self._stream.write(TerminalStreamData(request_uuid=self._uuid, error=limit.result()))
            elif output.done():
                output.result()
                await self._stream.write(TerminalStreamData(request_uuid=self._uuid, eof=True))
            else:
                typed.result()
                return
            await self._stream.finish()
            async with asyncio.timeout(CLOSE_SECONDS):
                await asyncio.wait({typed})
        except TimeoutError:
            log.debug("the principal did not end a terminal's call")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _show(self) -> None:
        async for message in self._socket:
            if message.type is not WSMsgType.BINARY or not message.data:
                continue
            self._active = asyncio.get_running_loop().time()
            kind = channels.stream_type(message.data[0])
            data = message.data[1:]
            for begin in range(0, len(data) if kind else 0, _CHUNK):
                part = data[begin : begin + _CHUNK]
                await self._stream.write(
                    TerminalStreamData(request_uuid=self._uuid, data=part, stream_type=kind)
                )

    async def _type(self) -> None:
        try:
            if self._tty:
                await self._resize(*FIRST_SIZE)
            while (raw := await self._stream.read()) is not None:
                self._active = asyncio.get_running_loop().time()
                message = TerminalStreamData.FromString(raw)
                if message.data:
                    await self._socket.send_bytes(bytes((channels.STDIN,)) + message.data)
                if message.resize:
                    await self._resize(message.cols, message.rows)
                if message.eof and self._socket.protocol == channels.V5:  # v4 has no word for it
                    await self._socket.send_bytes(bytes((channels.CLOSE, channels.STDIN)))
                if message.error:
                    return
        except (ClientConnectionError, ConnectionError) as error:
            log.debug("the API server takes no more of a terminal", **{logs.REASON: str(error)})
            await asyncio.Event().wait()  # how it ended the other direction tells

    async def _resize(self, columns: int, rows: int) -> None:
        await self._socket.send_bytes(bytes((channels.RESIZE,)) + channels.size(columns, rows))

    async def _limit(self) -> str:
        """Which one was reached, in words."""
        loop = asyncio.get_running_loop()
        begin = loop.time()
        while True:
            total = begin + (self._limits.total or math.inf)
            idle = self._active + (self._limits.idle or math.inf)
            at = min(total, idle)
            if at == math.inf:
                await asyncio.Event().wait()
            words = f"nothing happened for {self._limits.idle:.0f} s: the terminal is closed"
            if at == total:
                words = f"a terminal is closed after {self._limits.total:.0f} s"
            if loop.time() >= at:
                return words
            await asyncio.sleep(at - loop.time())


async def _close(socket: ClientWebSocketResponse) -> None:
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            await socket.close()
    except TimeoutError:  # the connection is closed all the same
        log.debug("the API server did not end a terminal")


def _words(body: bytes) -> str:
    try:
        return text(orjson.loads(body), "message")
    except orjson.JSONDecodeError:
        return ""
