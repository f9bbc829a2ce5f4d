"""Logs on the agent's side: asked for by the principal, read from the API server, sent by calls that may break."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import orjson

from kube.errors import ApiError
from kube.live.raw import RawStream
from sidecars.delivery.interactive import seconds_left
from sidecars.proxies.api_paths import ApiPath
from sidecars.proxies.logs.lines import POSITION, LineReader, LogPosition, SkippedLines
from sidecars.proxies.pods.access import PodAnswerError, Pods
from sidecars.proxies.pods.agent_calls import AgentCalls, NotConnectedError
from sidecars.proxies.pods.data_handler import DataHandler, DataKind
from sidecars.proxies.refusals import RefusedRequestError
from sidecars.proxies.statuses import status_json
from sidecars.wire import payloads
from sidecars.wire.client.dialer import DialError
from sidecars.wire.data_streams import LOGS, OpenedDataStream
from sidecars.wire.events import Event
from sidecars.wire.generated.logstream_pb2 import LogStreamData
from sidecars.wire.proxy_payloads import ContainerLogRequest
from sidecars.wire.streams import StreamLostError
from tiphys import logs

MAX_LOGS = 256
# As long as a principal of ours waits; argocd-agent's waits for ever.
RESUME_SECONDS = 30.0
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.2, 5.0
# The API server, or the kubelet behind it, may lose a log in the middle.
API_ATTEMPTS = 3
ERROR_BYTES = 64 << 10
_CHUNK = 64 << 10
_OK = 200
# The principal knows no such request, or nobody reads it any longer.
_OVER = frozenset({"CANCELLED", "NOT_FOUND", "INVALID_ARGUMENT", "INTERNAL"})

log = logs.get_logger()


def _error(uuid: str, message: str) -> tuple[LogStreamData, ...]:
    return LogStreamData(request_uuid=uuid), LogStreamData(request_uuid=uuid, eof=True, error=message)


LOG = DataKind(
    name="log", path=LOGS, error=_error, refusal=lambda status, words: status_json(status, words).decode()
)


@dataclass(slots=True)
class _Reading:
    """One log. `told` where the principal is ours: it says from where on it wants the rest."""

    request: ContainerLogRequest
    path: ApiPath
    told: bool
    reader: LineReader
    opened: AsyncExitStack = field(default_factory=AsyncExitStack)
    source: RawStream | None = None
    skipped: SkippedLines = field(default_factory=lambda: SkippedLines(LogPosition()))
    failures: int = 0
    left: int | None = None
    """Bytes that the principal wants of all that is still to be sent; ours counts by itself."""

    def wanted(self, data: bytes) -> bytes:
        if self.left is None:
            return data
        wanted = data[: self.left]
        self.left -= len(wanted)
        return wanted

    @property
    def uuid(self) -> str:
        return self.request.uuid


class LogHandler(DataHandler):
    def __init__(self, pods: Pods, calls: AgentCalls) -> None:
        super().__init__(LOG, calls)
        self._pods = pods

    def mutates(self, event: Event) -> bool:
        return False

    async def handle(self, event: Event) -> bytes | None:
        request = payloads.read(ContainerLogRequest, event.payload)
        if request.uuid in self._running:
            return None
        try:
            reading = await self._opened(request, told=seconds_left(event) is not None)
        except PodAnswerError as error:
            if not error.body:
                return self.refusal(event, status=error.status, message=str(error))
            body = error.body.decode("utf-8", "replace")
            message = _words(error.body) or str(error)
            return self._refused(event, status=error.status, message=message, body=body)
        except RefusedRequestError as error:
            return self.refusal(event, status=error.status, message=str(error))
        return self._begun(event, request.uuid, self._carry(reading))

    async def _opened(self, request: ContainerLogRequest, *, told: bool) -> _Reading:
        if len(self._running) >= MAX_LOGS:
            raise RefusedRequestError(f"{MAX_LOGS} logs of this agent are read already", status=429)
        if request.limit_bytes is not None and request.limit_bytes < 1:
            raise RefusedRequestError("limitBytes: less than 1", status=400)
        account = request.impersonate_user
        path = await self._pods.check(namespace=request.namespace, name=request.pod_name, account=account)
        # What a principal of ours shows it decides by itself.
        reader = LineReader(timestamps=told or request.timestamps)
        reading = _Reading(request, path, told, reader, left=request.limit_bytes)
        await self._open(reading, LogPosition())
        return reading

    async def _open(self, reading: _Reading, position: LogPosition) -> None:
        """At the API server, from a position on; raises RefusedRequestError with its words."""
        await reading.opened.aclose()
        path = f"{reading.path}/log"
        query = _query(reading.request, position)
        try:
            source = await reading.opened.enter_async_context(
                self._pods.api.stream(path, query=query, impersonate=reading.request.impersonate_user)
            )
            if source.status != _OK:
                answer = await source.whole(max_bytes=ERROR_BYTES)
                await reading.opened.aclose()
                words = _words(answer.body) or f"status {answer.status}"
                raise PodAnswerError(words, status=answer.status, body=answer.body)
        except ApiError as error:
            raise RefusedRequestError(str(error), status=502) from error
        reading.source = source
        reading.skipped = SkippedLines(position)

    # The call to the principal.

    async def _carry(self, reading: _Reading) -> None:
        try:
            pause, first = FIRST_PAUSE_SECONDS, True
            while True:
                begun = asyncio.get_running_loop().time()
                try:
                    stream = await self._calls.open(LOGS, seconds=RESUME_SECONDS)
                    begun = asyncio.get_running_loop().time()
                    await self._attempt(reading, stream, first=first)
                except NotConnectedError as error:
                    log.debug("a log's call does not come back", **{logs.REASON: str(error)})
                    return
                except (StreamLostError, DialError) as error:
                    if error.code in _OVER:
                        return
                    log.debug("a log's call ended: it is resumed", **{logs.REASON: str(error)})
                else:
                    return
                first = False
                if asyncio.get_running_loop().time() - begun > RESUME_SECONDS:
                    pause = FIRST_PAUSE_SECONDS
                elif pause > LONGEST_PAUSE_SECONDS:
                    return
                await asyncio.sleep(pause)
                pause *= 2
        finally:
            await reading.opened.aclose()

    async def _attempt(self, reading: _Reading, stream: OpenedDataStream, *, first: bool) -> None:
        """Returns when the log has been sent to its end."""
        try:
            await stream.write(LogStreamData(request_uuid=reading.uuid))
            position = reading.reader.position
            if reading.told:
                words = (await stream.greeting()).get(POSITION, [""])
                position = LogPosition.parse(words[0])
            if not first:
                reading.reader = LineReader(timestamps=reading.reader.timestamps, position=position)
                await self._reopen(reading, position, stream)
            sending = asyncio.ensure_future(self._send(reading, stream))
            answer = asyncio.ensure_future(stream.read())
            try:
                # A reader who has left is noticed also while the log says nothing.
                await asyncio.wait({sending, answer}, return_when=asyncio.FIRST_COMPLETED)
                if answer.done() and not sending.done():
                    answer.result()
                    raise StreamLostError("the principal has ended the call", code=await stream.ended())
                sending.result()
                await answer
            finally:
                for task in (sending, answer):
                    task.cancel()
                await asyncio.gather(sending, answer, return_exceptions=True)
        finally:
            stream.cancel()

    async def _reopen(self, reading: _Reading, position: LogPosition, stream: OpenedDataStream) -> None:
        try:
            await self._open(reading, position)
        except RefusedRequestError as error:
            await stream.write(LogStreamData(request_uuid=reading.uuid, eof=True, error=str(error)))
            raise StreamLostError(str(error), code="INTERNAL") from error

    async def _send(self, reading: _Reading, stream: OpenedDataStream) -> None:
        while True:
            assert reading.source is not None, "opened before"
            try:
                data = await reading.source.read()
            except ApiError as error:
                reading.failures += 1
                if reading.failures >= API_ATTEMPTS:
                    await stream.write(LogStreamData(request_uuid=reading.uuid, error=str(error)))
                    await stream.finish()
                    return
                reading.reader.resume()
                await self._reopen(reading, reading.reader.position, stream)
                continue
            if not data:
                break
            shown = reading.wanted(reading.reader.take(reading.skipped.take(data)))
            for begin in range(0, len(shown), _CHUNK):
                await stream.write(
                    LogStreamData(request_uuid=reading.uuid, data=shown[begin : begin + _CHUNK])
                )
            if reading.left == 0:
                break
        rest = reading.wanted(reading.reader.rest())
        if rest:
            await stream.write(LogStreamData(request_uuid=reading.uuid, data=rest))
        await stream.write(LogStreamData(request_uuid=reading.uuid, eof=True))
        await stream.finish()


def _query(request: ContainerLogRequest, position: LogPosition) -> dict[str, str]:
    query = {"timestamps": "true"}
    if request.container:
        query["container"] = request.container
    if request.follow:
        query["follow"] = "true"
    if request.previous:
        query["previous"] = "true"
    if position.timestamp:
        return {**query, "sinceTime": position.since}
    if request.tail_lines is not None:
        query["tailLines"] = str(request.tail_lines)
    if request.since_seconds is not None:
        query["sinceSeconds"] = str(request.since_seconds)
    if request.since_time:
        query["sinceTime"] = request.since_time
    return query


def _words(body: bytes) -> str:
    """The message of a Status."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return body[:500].decode("utf-8", "replace")
    return str(found.get("message") or "") if isinstance(found, dict) else ""
