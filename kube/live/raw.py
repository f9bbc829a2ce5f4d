"""Requests that somebody else has written, and their answers as they are: for proxies.

Nothing is sent twice and nothing interpreted; the caller bounds the time and how many there are at once.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus

import aiohttp

from kube.errors import ApiError
from kube.live.connection import Connection

_CHUNK = 64 << 10


class AnswerTooLargeError(ApiError):
    code, reason = 507, "InsufficientStorage"


@dataclass(frozen=True, slots=True)
class RawAnswer:
    status: int
    content_type: str
    body: bytes = field(repr=False)


class RawStream:
    """An answer whose body is still to be read."""

    def __init__(self, response: aiohttp.ClientResponse, *, what: str, connection: Connection) -> None:
        self._response = response
        self._what = what
        self._connection = connection

    @property
    def status(self) -> int:
        return self._response.status

    async def whole(self, *, max_bytes: int) -> RawAnswer:
        try:
            content = await _content(self._response, max_bytes=max_bytes, what=self._what)
        except (aiohttp.ClientError, OSError) as error:
            self._connection.raise_unreachable(error, what=self._what)
        return RawAnswer(self.status, self._response.headers.get("Content-Type", ""), content)

    async def read(self) -> bytes:
        """What is there, at most 64 KiB; empty at the end."""
        try:
            return await self._response.content.read(_CHUNK)
        except (aiohttp.ClientError, OSError) as error:
            self._connection.raise_unreachable(error, what=self._what)


class RawApi:
    """Only `kube` knows how to reach the API server, and as whom."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "",
        accept: str = "application/json",
        impersonate: str = "",
        max_bytes: int,
    ) -> RawAnswer:
        """`path` is encoded already. Raises `UnavailableError` where there is no answer, and AnswerTooLargeError."""
        headers = {"Accept": accept}
        if impersonate:
            headers["Impersonate-User"] = impersonate
        what = f"{method} {path}"
        for renewed in (False, True):
            try:
                response = await self._connection.send(
                    method, path, query=query, body=body, content_type=content_type, more_headers=headers
                )
                async with response:
                    content = await _content(response, max_bytes=max_bytes, what=what)
            except (aiohttp.ClientError, OSError) as error:
                self._connection.raise_unreachable(error, what=what, outcome_unknown=method != "GET")
            if (
                response.status != HTTPStatus.UNAUTHORIZED
                or renewed
                or not await self._connection.access.renew()
            ):
                break
        return RawAnswer(response.status, response.headers.get("Content-Type", ""), content)

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str], impersonate: str = ""
    ) -> AsyncIterator[RawStream]:
        """A GET whose answer may have no end; it is read as fast as the caller takes it."""
        headers = {"Accept": "*/*", "Accept-Encoding": "identity"}
        if impersonate:
            headers["Impersonate-User"] = impersonate
        what = f"GET {path}"
        for renewed in (False, True):
            try:
                response = await self._connection.send("GET", path, query=query, more_headers=headers)
            except (aiohttp.ClientError, OSError) as error:
                self._connection.raise_unreachable(error, what=what)
            if (
                response.status != HTTPStatus.UNAUTHORIZED
                or renewed
                or not await self._connection.access.renew()
            ):
                break
            response.release()
        try:
            yield RawStream(response, what=what, connection=self._connection)
        finally:
            response.close()

    async def websocket(
        self, path: str, *, query: Sequence[tuple[str, str]], protocols: Sequence[str], impersonate: str = ""
    ) -> aiohttp.ClientWebSocketResponse:
        """Raises UnavailableError, or what the API server said instead of opening it."""
        headers = {"Impersonate-User": impersonate} if impersonate else {}
        return await self._connection.websocket(path, query=query, protocols=protocols, more_headers=headers)


async def _content(response: aiohttp.ClientResponse, *, max_bytes: int, what: str) -> bytes:
    """What is too large is not read to its end, which may be far."""
    parts, size = [], 0
    async for part in response.content.iter_chunked(_CHUNK):
        size += len(part)
        if size > max_bytes:
            response.close()
            raise AnswerTooLargeError(f"{what}: the answer has more than {max_bytes} bytes")
        parts.append(part)
    return b"".join(parts)
