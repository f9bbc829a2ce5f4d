"""Requests to an API server: one session, bounded concurrency, a deadline for each call, careful retries."""

import asyncio
import os
import random as randomness
import socket
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from typing import Any, NoReturn
from urllib.parse import quote, urlencode

import aiohttp
from kubernetes.aio.client.rest import RESTClientObject
from multidict import CIMultiDict
from yarl import URL

from kube.errors import ApiError, KubeconfigError, UnauthorizedError, UnavailableError
from kube.live.answers import error_of_answer, is_server_error, is_success, seconds_to_wait, warnings_of
from kube.live.credentials import Access
from kube.live.environment import proxy_of_environment
from kube.requests import decode
from kube.store import Identity
from tiphys import __version__

_FIRST_BACKOFF, _LONGEST_BACKOFF = 0.1, 5.0
_MOST_ATTEMPTS = 5
_CONNECT_SECONDS = 10.0
# A peer that vanished without a word is noticed after 15 + 3 * 5 s, also where nothing is being sent.
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 15), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3))
# API servers close idle connections after 90 s; leaving first avoids writing into a closed one.
_IDLE_SECONDS = 30.0
# Of a WebSocket: kubelets send 32 KiB at most.
_MAX_FRAME = 1 << 20


# Failures of connecting, where no byte of the request has left; TimeoutError here is that of connecting.
_NEVER_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
# Trying again cannot help: a person must look at certificates.
_HOPELESS = (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError)


class Repeat(Enum):
    """When a request may be sent again."""

    SAFE = "whatever happened: doing it twice is doing it once"
    IF_REFUSED = "only when it certainly was not carried out"


class _Rest(RESTClientObject):  # type: ignore[misc]  # the client has no types
    """The official client's session, with its TLS, proxy and environment settings.

    Its `request` is passed by: it encodes with the json module, copies headers, and cannot stream or tell
    what was sent from what was not. What stays is one call of aiohttp.
    """

    pool_manager: aiohttp.ClientSession | None

    def _create_connector(self) -> aiohttp.TCPConnector:
        # No limit here, or long watches would use up the connections of short requests.
        return aiohttp.TCPConnector(
            limit=0, ssl=self.ssl_context, keepalive_timeout=_IDLE_SECONDS, socket_factory=_socket
        )

    def session(self) -> aiohttp.ClientSession:
        if self.pool_manager is None:
            self.pool_manager = self._create_pool_manager()
            # aiohttp would send a DELETE again by itself after a broken connection: what is repeated is ours to say.
            self.pool_manager._retry_connection = False  # noqa: SLF001  there is no other way to ask for it
        return self.pool_manager


def _socket(address: Any) -> socket.socket:
    made = socket.socket(family=address[0], type=address[1], proto=address[2])
    made.setblocking(False)  # noqa: FBT003  the standard library's signature
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made


class Connection:
    def __init__(
        self,
        access: Access,
        *,
        impersonate: Identity | None,
        concurrency: int,
        deadline: float,
        on_warning: Callable[[str], None] | None,
        random: randomness.Random | None = None,
    ) -> None:
        self.access = access
        self.url = str(access.configuration.host).rstrip("/")
        self._deadline = deadline
        self._on_warning = on_warning
        self._random = random or randomness.Random()  # noqa: S311  spreads retries, keeps no secret
        self._slots = asyncio.Semaphore(concurrency)
        self._headers = _headers(impersonate or access.impersonate)
        configuration = access.configuration
        configuration.client_session_kwargs = {
            "cookie_jar": aiohttp.DummyCookieJar(),
            "trust_env": False,  # costs two threads per request, two thirds of a small call: see `proxy_of_environment`
            "timeout": aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
        }
        # Python 3.13 refuses authorities without all the extensions of RFC 5280; many clusters have such ones.
        configuration.disable_strict_ssl_verification = True
        try:
            self._rest = _Rest(configuration)
        except (OSError, ValueError) as error:
            raise KubeconfigError(f"{access.origin}: unusable certificate or key: {error}") from error
        self._options: dict[str, Any] = {}
        if proxy := configuration.proxy or proxy_of_environment(self.url):
            self._options["proxy"] = proxy
        if configuration.tls_server_name:
            self._options["server_hostname"] = configuration.tls_server_name

    async def close(self) -> None:
        await self._rest.close()

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
        repeat: Repeat,
    ) -> Any:
        """The decoded answer. Every error is one of `kube.errors`."""
        call = _Call(
            method=method,
            path=path,
            query=query,
            body=body,
            content_type=content_type if body is not None else "",
            headers=headers,
            repeat=repeat,
        )
        try:
            async with asyncio.timeout(self._deadline) as bound:
                return await self._attempts(call, until=bound.when() or 0.0)
        except TimeoutError as error:
            raise UnavailableError(
                f"{call.what}: no answer from {self.url} within {self._deadline:g} s",
                outcome_unknown=call.is_write and (call.in_doubt or call.in_flight),
            ) from error

    async def _attempts(self, call: "_Call", *, until: float) -> Any:
        now = asyncio.get_running_loop().time
        for attempt in range(1, _MOST_ATTEMPTS + 1):
            last = attempt == _MOST_ATTEMPTS
            wait: float | None = None
            try:
                status, headers, answer = await self._exchange(call)
            except (aiohttp.ClientError, OSError) as error:
                if not call.may_follow_failure(error) or last:
                    self.raise_unreachable(error, what=call.what, outcome_unknown=call.in_doubt)
            else:
                if is_success(status):
                    return self._decoded(answer, what=call.what)
                if status == HTTPStatus.NOT_FOUND and call.method == "DELETE" and call.in_doubt:
                    return {}  # an earlier attempt did it
                wait = seconds_to_wait(headers)
                may_follow = call.may_follow_answer(status, asked_to_wait=wait is not None)
                if not may_follow or last or now() + (wait or 0.0) >= until:
                    raise self.refusal(
                        status, answer, what=call.what, outcome_unknown=call.in_doubt, retry_after=wait
                    )
            await asyncio.sleep(self._pause(attempt, wait))
        raise AssertionError

    async def _exchange(self, call: "_Call") -> tuple[int, Mapping[str, str], bytes]:
        async with self._slots:
            for renewed in (False, True):
                call.in_flight = True
                response = await self.send(
                    call.method,
                    call.path,
                    query=call.query,
                    body=call.body,
                    content_type=call.content_type,
                    more_headers=call.headers,
                )
                async with response:
                    answer = await response.read()
                call.in_flight = False
                if response.status != HTTPStatus.UNAUTHORIZED or renewed or not await self.access.renew():
                    break
            return response.status, response.headers, answer

    def _pause(self, attempt: int, wait: float | None) -> float:
        """What the server asked for, and a random part so that many clients do not come back together."""
        return (wait or 0.0) + self._random.uniform(0, min(_LONGEST_BACKOFF, _FIRST_BACKOFF * 2**attempt))

    def _decoded(self, answer: bytes, *, what: str) -> Any:
        try:
            return decode(answer)
        except ValueError as error:
            raise UnavailableError(
                f"{what}: {self.url} did not answer with JSON: is it an API server?"
            ) from error

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str],
        headers: Mapping[str, str] | None = None,
        idle: float,
    ) -> AsyncGenerator[aiohttp.StreamReader, None]:
        """An answer that has no end; `idle` is how long it may say nothing."""
        what = f"watch {path}"
        for renewed in (False, True):
            try:
                async with asyncio.timeout(self._deadline):
                    response = await self.send(
                        "GET", path, query=query, more_headers=headers, read_timeout=idle
                    )
            except (aiohttp.ClientError, OSError) as error:  # a timeout is an OSError
                self.raise_unreachable(error, what=what)
            if response.status != HTTPStatus.UNAUTHORIZED or renewed or not await self.access.renew():
                break
            response.release()
        try:
            if not is_success(response.status):
                wait = seconds_to_wait(response.headers)
                raise self.refusal(response.status, await response.read(), what=what, retry_after=wait)
            yield response.content
        finally:
            response.close()  # not released: there is no end to read to

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "",
        more_headers: Mapping[str, str] | None = None,
        read_timeout: float | None = None,
    ) -> aiohttp.ClientResponse:
        headers = self._headers
        authorization = await self.access.authorization()
        if authorization or content_type or more_headers:
            headers = headers.copy()
            headers.update(more_headers or {})
            if authorization:
                headers["Authorization"] = authorization
            if content_type:
                headers["Content-Type"] = content_type
        options = self._options
        if read_timeout is not None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=read_timeout)
            options = {**options, "timeout": timeout}
        url = URL(f"{self.url}{path}?{urlencode(query)}" if query else f"{self.url}{path}", encoded=True)
        response = await self._rest.session().request(method, url, data=body, headers=headers, **options)
        if self._on_warning is not None and "Warning" in response.headers:
            for warning in warnings_of(response.headers):
                self._on_warning(warning)
        return response

    async def websocket(
        self,
        path: str,
        *,
        query: Sequence[tuple[str, str]],
        protocols: Sequence[str],
        more_headers: Mapping[str, str],
    ) -> aiohttp.ClientWebSocketResponse:
        headers = self._headers.copy()
        headers.update(more_headers)
        what = f"GET {path}"
        url = URL(f"{self.url}{path}?{urlencode(query)}", encoded=True)
        for renewed in (False, True):
            if authorization := await self.access.authorization():
                headers["Authorization"] = authorization
            try:
                opened: aiohttp.ClientWebSocketResponse = await self._rest.session().ws_connect(
                    url, protocols=protocols, headers=headers, max_msg_size=_MAX_FRAME, **self._options
                )
                return opened
            except aiohttp.WSServerHandshakeError as error:
                # Its body was not kept by aiohttp: the code is all that is known.
                if error.status != HTTPStatus.UNAUTHORIZED or renewed or not await self.access.renew():
                    raise self.refusal(error.status, b"", what=what) from error
            except (aiohttp.ClientError, OSError) as error:
                self.raise_unreachable(error, what=what)
        raise AssertionError

    def refusal(
        self,
        code: int,
        body: bytes,
        *,
        what: str,
        outcome_unknown: bool = False,
        retry_after: float | None = None,
    ) -> ApiError:
        error = error_of_answer(code, body, what=what)
        error.retry_after = retry_after or 0.0
        if isinstance(error, UnavailableError):
            error.outcome_unknown = outcome_unknown
        if isinstance(error, UnauthorizedError):
            return UnauthorizedError(
                f"{self.url} does not accept the credentials of {self.access.origin}: "
                "the token or certificate has expired or is unknown there",
                status=error.status,
            )
        return error

    def raise_unreachable(self, error: Exception, *, what: str, outcome_unknown: bool = False) -> NoReturn:
        raise UnavailableError(
            f"{what}: {self.url} {_trouble(error)} ({self.access.origin})", outcome_unknown=outcome_unknown
        ) from error


@dataclass(slots=True)
class _Call:
    method: str
    path: str
    query: Mapping[str, str] | None
    body: bytes | None
    content_type: str
    headers: Mapping[str, str] | None
    repeat: Repeat
    in_flight: bool = False
    in_doubt: bool = False
    """An attempt may have been carried out although we saw no answer."""

    @property
    def is_write(self) -> bool:
        return self.method != "GET"

    @property
    def what(self) -> str:
        return f"{self.method} {self.path}"

    def may_follow_failure(self, error: Exception) -> bool:
        """Whether another attempt may follow one that brought no answer."""
        if isinstance(error, _NEVER_SENT):
            return not isinstance(error, _HOPELESS)
        self.in_doubt = self.is_write
        return self.repeat is Repeat.SAFE

    def may_follow_answer(self, status: int, *, asked_to_wait: bool) -> bool:
        failed = is_server_error(status)
        if status == HTTPStatus.TOO_MANY_REQUESTS or (failed and asked_to_wait):
            return True  # turned away at the door
        self.in_doubt |= self.is_write and failed
        return failed and self.repeat is Repeat.SAFE


def _headers(impersonate: Identity | None) -> CIMultiDict[str]:
    headers = CIMultiDict(
        {
            "User-Agent": f"tiphys/{__version__}",
            "Accept": "application/json",
            # API servers compress only long lists; even on loopback that takes less time than TLS on all of it.
            "Accept-Encoding": "gzip",
        }
    )
    if impersonate is not None:
        headers["Impersonate-User"] = impersonate.user
        for group in impersonate.groups:
            headers.add("Impersonate-Group", group)
        if impersonate.uid:
            headers["Impersonate-Uid"] = impersonate.uid
        for key, values in impersonate.extra.items():
            for value in values:
                headers.add(f"Impersonate-Extra-{quote(key, safe='')}", value)
    return headers


def _trouble(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"has a certificate that is not trusted: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return f"does not agree on TLS: {error.os_error}"
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno
        return f"cannot be reached: {os.strerror(number) if number and number > 0 else error.os_error}"
    if isinstance(error, TimeoutError):
        return "gives no answer"
    return f"broke the connection: {error or type(error).__name__}"
