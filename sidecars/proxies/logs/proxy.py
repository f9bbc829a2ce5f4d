"""Logs on the principal's side: a request of Argo CD, the agent that is asked, and the call by which it answers."""

import asyncio
import re
import time
from dataclasses import replace

import grpc
from aiohttp import web

from argocd.agents.vocabulary import Target
from sidecars.proxies.api_paths import ApiPath
from sidecars.proxies.logs.lines import POSITION
from sidecars.proxies.logs.session import LogEndedError, LogSession
from sidecars.proxies.pods.data_sessions import DataSessions
from sidecars.proxies.pods.parameters import query_pairs, single_parameters
from sidecars.proxies.refusals import RefusedRequestError
from sidecars.proxies.requests import Requests
from sidecars.proxies.statuses import JSON, explained, is_error, status_json
from sidecars.wire import payloads
from sidecars.wire.data_streams import DataStream
from sidecars.wire.errors import MalformedError
from sidecars.wire.events import Event, fresh_id
from sidecars.wire.generated.logstream_pb2 import LogStreamData, LogStreamResponse
from sidecars.wire.proxy_payloads import ContainerLogRequest, ResourceResponse
from sidecars.wire.refusals import RefusedError
from sidecars.wire.server.server import SendGreeting
from sidecars.wire.server.sessions import AuthenticatedAgent
from tiphys import logs, metrics

MAX_LOGS_PER_AGENT = 256
ANSWER_SECONDS = 30.0
# argocd-agent's agent does not say that a log is open: one that says nothing may have nothing to say.
SILENT_SECONDS = 3.0
# A reader that takes nothing for so long has left without a word.
READ_SECONDS = 300.0
MAX_NUMBER = 2**62

OPEN = metrics.gauge("tiphys_proxies_open_logs", "Logs that are being read at the control plane.")
BYTES = metrics.counter("tiphys_proxies_log_bytes_total", "Bytes of logs that were shown.")

_HEADERS = {"Content-Type": "text/plain; charset=utf-8", "Cache-Control": "no-cache, no-transform"}
_OK = 200
_NUMBER = re.compile(r"\d{1,18}")
_BOOLEANS = {"": True, "1": True, "t": True, "true": True, "0": False, "f": False, "false": False}
_KNOWN = frozenset({
    "container", "follow", "limitBytes", "pretty", "previous", "sinceSeconds", "sinceTime", "tailLines", "timestamps",
})  # fmt: skip
# Said as Kubernetes has it without them; otherwise they are refused as all that no agent is told.
_DEFAULTS = {"stream": "All", "insecureSkipTLSVerifyBackend": "false"}

log = logs.get_logger()


class LogProxy:
    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._sessions: DataSessions[LogSession] = DataSessions(per_agent=MAX_LOGS_PER_AGENT, what="logs")

    async def serve(
        self, request: web.BaseRequest, *, agent: str, path: ApiPath, account: str
    ) -> web.StreamResponse:
        if request.method != "GET":
            raise RefusedRequestError("a log can be read, no more", status=405)
        asked = log_request(request.rel_url.raw_query_string, path=path, account=account)
        session = LogSession(
            uuid=asked.uuid, agent=agent, timestamps=asked.timestamps, limit=asked.limit_bytes
        )
        self._sessions.add(session)
        begin = time.monotonic()
        OPEN.inc()
        try:
            refused = await self._opened(session, asked)
            return refused or await self._shown(request, session)
        finally:
            OPEN.dec()
            self._sessions.remove(session)
            session.close()
            log.info(
                "log read",
                **{logs.AGENT: agent, logs.NAMESPACE: path.namespace, logs.NAME: path.name},
                **{logs.USER: asked.impersonate_user, logs.SECONDS: round(time.monotonic() - begin, 1)},
                container=asked.container,
                lines=session.lines,
            )

    async def _opened(self, session: LogSession, asked: ContainerLogRequest) -> web.StreamResponse | None:
        """None when lines may come; the status is not sent before that is known."""
        event = Event(
            type="GET",
            target=Target.CONTAINER_LOG,
            resource_id=asked.uuid,
            event_id=asked.uuid,
            # Counted here, over the whole log: an API server would count timestamps that nobody asked for.
            payload=payloads.write(replace(asked, limit_bytes=None)),
        )
        if self._requests.is_tiphys(session.agent):
            answer = _read(await self._requests.ask(session.agent, event, seconds=ANSWER_SECONDS))
            session.expect()
            return None if answer.status == _OK else _refusal(session.agent, answer)
        self._requests.tell(session.agent, event, seconds=ANSWER_SECONDS)
        try:
            async with asyncio.timeout(SILENT_SECONDS if asked.follow else ANSWER_SECONDS):
                await asyncio.shield(session.begun)
        except TimeoutError:
            if not asked.follow:
                return _answered(504, f"agent {session.agent} sent nothing within {ANSWER_SECONDS:.0f} s")
        except LogEndedError as error:
            return _answered(_guessed(str(error)), f"agent {session.agent}: {error}")
        return None

    async def _shown(self, request: web.BaseRequest, session: LogSession) -> web.StreamResponse:
        response = web.StreamResponse(status=_OK, headers=_HEADERS)
        await response.prepare(request)
        try:
            async for chunk in session.chunks():
                BYTES.inc(len(chunk))
                async with asyncio.timeout(READ_SECONDS):
                    await response.write(chunk)
        except (LogEndedError, TimeoutError) as error:
            log.warning("a log broke off", **{logs.AGENT: session.agent, logs.REASON: str(error)})
            if request.transport is not None:
                request.transport.abort()  # an end that looks like one would be a lie
            raise asyncio.CancelledError from error
        await response.write_eof()
        return response

    async def carry(self, peer: AuthenticatedAgent, stream: DataStream, greet: SendGreeting) -> None:
        """A call of an agent, StreamLogs, to its end."""
        first = _message(await stream.read())
        session = self._sessions.find(first.request_uuid, agent=peer.name)
        if session is None:
            raise _over(grpc.StatusCode.NOT_FOUND, "unknown request id")
        session.attach()
        try:
            await greet([(POSITION, session.position)])
            await self._receive(session, first, stream)
        except asyncio.CancelledError:
            if not session.over:
                raise
            raise _over(grpc.StatusCode.CANCELLED, "client disconnected") from None
        finally:
            session.detach()

    async def _receive(self, session: LogSession, message: LogStreamData, stream: DataStream) -> None:
        while True:
            if message.data:
                await session.put(message.data)
            if session.is_full:
                raise _over(grpc.StatusCode.CANCELLED, "no more of it is wanted")
            if message.error:
                await session.finish(message.error[:1000])
                raise _over(grpc.StatusCode.INTERNAL, message.error[:1000])
            if message.eof:
                await session.finish()
                answer = LogStreamResponse(
                    request_uuid=session.uuid, status=_OK, lines_received=session.lines
                )
                await stream.write(answer)
                return
            message = _message(await stream.read())


def log_request(query: str, *, path: ApiPath, account: str = "") -> ContainerLogRequest:
    """Of the API server's parameters; what it does not know is refused here too."""
    pairs = single_parameters(query_pairs(query, most=32))
    if not (path.namespace and path.name):
        raise RefusedRequestError("a log is that of a pod in a namespace", status=400)
    for name, usual in _DEFAULTS.items():
        if pairs.get(name, usual) == usual:
            pairs.pop(name, None)
    if unknown := sorted(set(pairs) - _KNOWN):
        told = pairs[unknown[0]]
        raise RefusedRequestError(f"the parameter {unknown[0][:64]}={told[:64]} is not served", status=400)
    return ContainerLogRequest(
        uuid=fresh_id(),
        namespace=path.namespace,
        pod_name=path.name,
        container=pairs.get("container", ""),
        follow=_boolean(pairs, "follow"),
        tail_lines=_number(pairs, "tailLines"),
        since_seconds=_number(pairs, "sinceSeconds"),
        since_time=pairs.get("sinceTime", ""),
        timestamps=_boolean(pairs, "timestamps"),
        previous=_boolean(pairs, "previous"),
        limit_bytes=_number(pairs, "limitBytes", least=1),
        impersonate_user=account,
    )


def _number(pairs: dict[str, str], name: str, *, least: int = 0) -> int | None:
    told = pairs.get(name)
    if told is None:
        return None
    if not _NUMBER.fullmatch(told) or int(told) > MAX_NUMBER:
        raise RefusedRequestError(f"{name}: {told[:32]!r} is no number", status=400)
    if int(told) < least:
        raise RefusedRequestError(f"{name}: {told[:32]} is less than {least}", status=400)
    return int(told)


def _boolean(pairs: dict[str, str], name: str) -> bool:
    told = pairs.get(name, "false").lower()
    if told not in _BOOLEANS:
        raise RefusedRequestError(f"{name}: {told[:32]!r} is neither true nor false", status=400)
    return _BOOLEANS[told]


def _message(raw: bytes | None) -> LogStreamData:
    if raw is None:
        raise _over(grpc.StatusCode.INVALID_ARGUMENT, "invalid log message")
    try:
        return LogStreamData.FromString(raw)
    except Exception as error:
        raise _over(grpc.StatusCode.INVALID_ARGUMENT, "invalid log message") from error


def _over(code: grpc.StatusCode, words: str) -> RefusedError:
    return RefusedError(code, words, reason=words, label="over")


def _read(answer: Event) -> ResourceResponse:
    try:
        return payloads.read(ResourceResponse, answer.payload)
    except MalformedError as error:
        raise RefusedRequestError(f"the agent's answer cannot be read: {error}", status=502) from error


def _refusal(agent: str, answer: ResourceResponse) -> web.Response:
    status = answer.status if is_error(answer.status) else 502
    body = answer.resource.encode() or explained(status, agent=agent)
    return web.Response(status=status, body=body, headers={"Content-Type": JSON})


def _answered(status: int, message: str) -> web.Response:
    return web.Response(status=status, body=status_json(status, message), headers={"Content-Type": JSON})


def _guessed(error: str) -> int:
    """The status behind the words of argocd-agent's agent, which sends no other."""
    words = error.lower()
    if "not found" in words:
        return 404
    if "forbidden" in words:
        return 403
    return 400 if "waiting to start" in words or "must be specified" in words else 500
