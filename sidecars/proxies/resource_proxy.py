"""The principal's side of the resource proxy: what Argo CD asks of a cluster becomes a request to its agent."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Protocol
from urllib.parse import parse_qsl

from aiohttp import web

from argocd.agents.vocabulary import Target
from sidecars.metrics import argocd_agent
from sidecars.proxies import go_agents
from sidecars.proxies.api_paths import ApiPath, PathError, parse_path
from sidecars.proxies.proxy_callers import ProxyCallers
from sidecars.proxies.refusals import RefusedRequestError
from sidecars.proxies.requests import NoAnswerError, RequestError, Requests
from sidecars.proxies.statuses import JSON, explained, is_error, status_json
from sidecars.wire import payloads
from sidecars.wire.errors import MalformedError
from sidecars.wire.events import Event, fresh_id
from sidecars.wire.proxy_payloads import ResourceRequest, ResourceResponse
from tiphys import logs, metrics

_CHANGES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
METHODS = _CHANGES | {"GET"}
MAX_BODY_BYTES = 3 << 20
"""As an API server takes it."""
MAX_BODIES_BYTES = 96 << 20
"""Of all requests together."""
BODY_SECONDS = 10.0
ANSWER_SECONDS = 30.0
MAX_QUERY = 8 << 10
MAX_PARAMETERS = 64
_MAX_ACCOUNT = 512

SECONDS = metrics.histogram(
    "tiphys_sidecars_live_request_seconds",
    "From a request for a live object to its answer, by method.",
    labels=("method",),
)

_SECONDS = {method: SECONDS.labels(method) for method in METHODS}
_OTHER_SECONDS = SECONDS.labels("other")

_REFUSED_HEADERS = ("impersonate-group", "impersonate-uid", "impersonate-extra-")
_SUCCESS = range(200, 300)
_MAX_STATUS = 599

log = logs.get_logger()


class SubresourceProxy(Protocol):
    """Logs and terminals: streams of their own."""

    async def serve(
        self, request: web.BaseRequest, *, agent: str, path: ApiPath, account: str
    ) -> web.StreamResponse:
        """`account`: as whom, empty for the agent itself."""


class ResourceProxy:
    """`standing_by` says why nobody is served, or nothing. `subresources` by name."""

    def __init__(
        self,
        requests: Requests,
        *,
        callers: ProxyCallers,
        standing_by: Callable[[], str | None],
        drop_impersonation: bool = False,
        subresources: Mapping[str, SubresourceProxy] | None = None,
        seconds: float = ANSWER_SECONDS,
    ) -> None:
        self._requests = requests
        self.callers = callers
        self._standing_by = standing_by
        self._drops_impersonation = drop_impersonation
        self._subresources = subresources or {}
        self._seconds = seconds
        self._bodies = 0
        self._go_agents = go_agents.GoAgents(requests, seconds=seconds)
        self.came = self._go_agents.came

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        agent, code, began = "", 0, time.monotonic()
        try:
            self._check_serving()
            agent = self.callers.agent_of(request)
            argocd_agent.RESOURCE_REQUESTS.labels(agent).inc()
            response = await self._served(request, agent)
            code = response.status
        except (RefusedRequestError, RequestError, PathError) as error:
            code = getattr(error, "status", 400)
            self._count_error(agent, _reason(code, error))
            return _answered(code, status_json(code, str(error)), JSON)
        finally:
            if agent and request.method in _CHANGES:
                _audit(request, agent, code=code, seconds=time.monotonic() - began)
        return response

    def _check_serving(self) -> None:
        if (state := self._standing_by()) is not None:
            raise RefusedRequestError(f"this principal serves no agents: {state}", status=503)

    async def _served(self, request: web.BaseRequest, agent: str) -> web.StreamResponse:
        path = parse_path(request.rel_url.raw_path)
        account = _impersonated(request)
        streams = self._subresources.get(path.subresource)
        if streams is not None and path.resource == "pods" and not path.group:
            self._requests.check_connected(agent)
            self._check_impersonation(agent, account)
            return await streams.serve(request, agent=agent, path=path, account=account)
        began = time.monotonic()
        try:
            return await self._asked(request, agent, path, account)
        finally:
            _SECONDS.get(request.method, _OTHER_SECONDS).observe(time.monotonic() - began)

    async def _asked(
        self, request: web.BaseRequest, agent: str, path: ApiPath, account: str
    ) -> web.StreamResponse:
        if request.method not in METHODS:
            raise RefusedRequestError(f"{request.method[:16]} is not served", status=405)
        params = _parameters(request)
        if params.get("watch", "false") not in {"", "0", "false"} or path.resource == "watch":
            raise RefusedRequestError("watches do not pass the resource proxy: list again", status=501)
        self._requests.check_connected(agent)
        self._check_impersonation(agent, account)
        body = await self._body(request)
        try:
            asked = ResourceRequest(
                uuid=fresh_id(),
                namespace=path.namespace,
                name=path.name,
                subresource=path.subresource,
                method=request.method,
                body=body or None,
                params=params or None,
                group=path.group,
                version=path.version,
                resource=path.resource,
                path=str(path),
                accept=request.headers.get("Accept", "")[:1024],
                content_type=request.headers.get("Content-Type", "")[:256],
                impersonate_user=account,
            )
            if not self._requests.is_tiphys(agent):
                return self._answer(agent, await self._go_agents.ask(agent, path, asked))
            answer = await self._requests.ask(
                agent, _event(asked), seconds=self._seconds, mutates=request.method != "GET"
            )
        finally:
            self._bodies -= len(body)
        return self._answer(agent, _read(answer))

    def _check_impersonation(self, agent: str, account: str) -> None:
        if account and not (self._drops_impersonation or self._requests.is_tiphys(agent)):
            raise RefusedRequestError(
                f"agent {agent} is argocd-agent's, which would act as itself and not as {account}:"
                " use Tiphys there, or --resource-proxy-drop-impersonation"
            )

    def _answer(self, agent: str, told: ResourceResponse) -> web.StreamResponse:
        if not (told.status in _SUCCESS or is_error(told.status)):
            self._count_error(agent, "agent_error")
            message = f"agent {agent} answered with status {told.status}, which is none"
            return _answered(502, status_json(502, message), JSON)
        if is_error(told.status):
            self._count_error(agent, "agent_error")
            if not told.resource and not told.body:
                return _answered(told.status, explained(told.status, agent=agent), JSON)
        if told.body:
            return _answered(told.status, told.body, _content_type(told.content_type))
        return _answered(told.status, told.resource.encode(), _content_type(told.content_type))

    async def _body(self, request: web.BaseRequest) -> bytes:
        """Counted as it comes, so that many large ones at once are too many."""
        if request.headers.get("Content-Encoding", "identity") != "identity":
            raise RefusedRequestError("a compressed body is not taken", status=415)
        self._check_room(request.content_length or 0)
        if not request.body_exists:
            return b""
        parts, size = [], 0
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for part in request.content.iter_any():
                    size += len(part)
                    self._bodies += len(part)
                    self._check_room(size)
                    parts.append(part)
        except BaseException as error:
            self._bodies -= size
            if isinstance(error, TimeoutError):
                raise RefusedRequestError(
                    f"the body did not come within {BODY_SECONDS:.0f} s", status=408
                ) from error
            raise
        return b"".join(parts)

    def _check_room(self, size: int) -> None:
        if size > MAX_BODY_BYTES:
            raise RefusedRequestError(f"a body has {MAX_BODY_BYTES} bytes at most", status=413)
        if self._bodies > MAX_BODIES_BYTES:
            raise RefusedRequestError("too many large requests at once: try again later", status=429)

    def _count_error(self, agent: str, reason: str) -> None:
        if agent:
            argocd_agent.RESOURCE_ERRORS.labels(agent, reason).inc()


def _audit(request: web.BaseRequest, agent: str, *, code: int, seconds: float) -> None:
    """Never what was in it. Code 0: whoever asked has left."""
    log.info(
        "a change was asked for",
        **{logs.AGENT: agent, logs.OPERATION: request.method, logs.KEY: request.rel_url.raw_path[:512]},
        **{logs.USER: request.headers.get("Impersonate-User", "")[:200] or "-", logs.CODE: code},
        **{logs.SECONDS: round(seconds, 3)},
    )


def _parameters(request: web.BaseRequest) -> dict[str, str]:
    text = request.rel_url.raw_query_string
    if not text:
        return {}
    if len(text) > MAX_QUERY:
        raise RefusedRequestError("the query is too long", status=414)
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_PARAMETERS, errors="strict")
    except ValueError as error:
        raise RefusedRequestError("the query cannot be read", status=400) from error
    params = dict(pairs)
    if len(params) != len(pairs):  # whoever reads the first and whoever reads the last would differ
        raise RefusedRequestError("a parameter stands in the query twice", status=400)
    params.pop("agentName", None)  # makes the server's URL unique in Argo CD; who is asked is told otherwise
    return params


def _impersonated(request: web.BaseRequest) -> str:
    for name in request.headers:
        if name.lower().startswith(_REFUSED_HEADERS):
            raise RefusedRequestError(f"{name[:64]}: an account is impersonated by Impersonate-User alone")
    users = request.headers.getall("Impersonate-User", [])
    if len(users) > 1 or any(len(user) > _MAX_ACCOUNT for user in users):
        raise RefusedRequestError("Impersonate-User: one account, please", status=400)
    return users[0] if users else ""


def _event(asked: ResourceRequest) -> Event:
    return Event(
        type=asked.method,
        target=Target.RESOURCE,
        resource_id=asked.uuid,
        event_id=asked.uuid,
        payload=payloads.write(asked),
    )


def _read(answer: Event) -> ResourceResponse:
    try:
        return payloads.read(ResourceResponse, answer.payload)
    except MalformedError as error:
        raise RefusedRequestError(f"the agent's answer cannot be read: {error}", status=502) from error


def _answered(status: int, body: bytes, content_type: str) -> web.Response:
    return web.Response(status=status, body=body, headers={"Content-Type": content_type})


def _content_type(told: str) -> str:
    """An agent's word must not become another header."""
    usable = told and len(told) < 256 and told.isascii() and told.isprintable()  # noqa: PLR2004 - longer is none
    return told if usable else JSON


def _reason(code: int, error: Exception) -> str:
    if isinstance(error, NoAnswerError):
        return "timeout"
    return {502: "agent_disconnected", 429: "limit"}.get(code, "refused")
