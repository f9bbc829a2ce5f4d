"""As much of grpc as two principals of a pair use with each other, over the simulated network: their services, their
connectors and what they say stay the real ones.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import sidecars.wire  # noqa: F401  isort: skip

import grpc
from grpc import aio

from tests.simulation.network import Wire
from tiphys.errors import SurroundingsError

Metadata = Sequence[tuple[str, str]]
Connect = Callable[[], Awaitable[Wire]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcRequest:
    """The first word of a connection. The certificate is what TLS would have verified."""

    path: str
    metadata: Metadata
    certificate: bytes
    body: bytes | None
    """None: a stream."""


@dataclass(frozen=True, slots=True)
class _Initial:
    metadata: Metadata


@dataclass(frozen=True, slots=True)
class _End:
    code: grpc.StatusCode
    details: str = ""
    body: bytes = b""
    trailing: Metadata = ()

    def error(self) -> aio.AioRpcError:
        return aio.AioRpcError(self.code, aio.Metadata(), aio.Metadata(*self.trailing), details=self.details)


class _AbortedError(Exception):
    pass


# Serving.


async def serve(services: Sequence[Any], request: RpcRequest, wire: Any) -> None:
    """One call, by the handler that a real server would have chosen."""
    found = (each.service(SimpleNamespace(method=request.path)) for each in services)
    handler = next(each for each in found if each is not None)
    context = _ServedCall(request, wire)
    try:
        if request.body is None:
            await handler.stream_stream(None, context)
            end = _End(grpc.StatusCode.OK, trailing=context.trailing)
        else:
            body = await handler.unary_unary(request.body, context)
            end = _End(grpc.StatusCode.OK, body=body, trailing=context.trailing)
    except _AbortedError:
        end = _End(context.code, context.details, trailing=context.trailing)
    await wire.send(end)


class _ServedCall:
    def __init__(self, request: RpcRequest, wire: Any) -> None:
        self._request = request
        self._wire = wire
        self.trailing: Metadata = ()
        self.code, self.details = grpc.StatusCode.OK, ""

    def auth_context(self) -> dict[str, list[bytes]]:
        return {"x509_pem_cert": [self._request.certificate]}

    def peer(self) -> str:
        return str(self._wire.there)

    def invocation_metadata(self) -> Metadata:
        return self._request.metadata

    def set_trailing_metadata(self, metadata: Metadata) -> None:
        self.trailing = tuple(metadata)

    async def send_initial_metadata(self, metadata: Metadata) -> None:
        await self._send(_Initial(tuple(metadata)))

    async def write(self, message: bytes) -> None:
        await self._send(message)

    async def _send(self, message: Any) -> None:
        try:
            await self._wire.send(message)
        except SurroundingsError as error:
            raise aio.UsageError(str(error)) from error

    async def read(self) -> Any:
        try:
            message = await self._wire.receive()
        except SurroundingsError as error:
            raise aio.UsageError(str(error)) from error
        return message if isinstance(message, bytes) else aio.EOF

    async def abort(self, code: grpc.StatusCode, details: str, trailing: Metadata = ()) -> None:
        self.code, self.details, self.trailing = code, details, tuple(trailing) or self.trailing
        raise _AbortedError


# Calling.


class SimulatedChannel:
    def __init__(self, connect: Connect, certificate: bytes) -> None:
        self._connect = connect
        self._certificate = certificate

    def unary_unary(self, path: str) -> Callable[..., Any]:
        def call(body: bytes, *, metadata: Metadata, timeout: float) -> _UnaryCall:
            return _UnaryCall(self._connect, self._request(path, metadata, body), timeout)

        return call

    def stream_stream(self, path: str) -> Callable[..., Any]:
        def call(*, metadata: Metadata) -> _StreamCall:
            return _StreamCall(self._connect, self._request(path, metadata, None))

        return call

    def _request(self, path: str, metadata: Metadata, body: bytes | None) -> RpcRequest:
        return RpcRequest(path=path, metadata=tuple(metadata), certificate=self._certificate, body=body)

    async def close(self, grace: float | None = None) -> None: ...


class _UnaryCall:
    def __init__(self, connect: Connect, request: RpcRequest, seconds: float) -> None:
        self._connect = connect
        self._request = request
        self._seconds = seconds
        self._trailing: Metadata = ()

    def __await__(self) -> Generator[Any, None, bytes]:
        return self._answered().__await__()

    async def _answered(self) -> bytes:
        try:
            async with asyncio.timeout(self._seconds):
                wire: Any = await self._connect()
                try:
                    await wire.send(self._request)
                    end = await wire.receive()
                finally:
                    wire.finish()
        except TimeoutError:
            end = _End(grpc.StatusCode.DEADLINE_EXCEEDED, "no answer in time")
        except SurroundingsError as error:
            end = _End(grpc.StatusCode.UNAVAILABLE, str(error))
        if not isinstance(end, _End):
            end = _End(grpc.StatusCode.UNAVAILABLE, "the connection is closed")
        if end.code is not grpc.StatusCode.OK:
            raise end.error()
        self._trailing = end.trailing
        return end.body

    async def trailing_metadata(self) -> Metadata:
        return self._trailing


class _StreamCall:
    def __init__(self, connect: Connect, request: RpcRequest) -> None:
        self._request = request
        self._connecting = asyncio.ensure_future(self._connected(connect))
        self._end: _End | None = None

    async def _connected(self, connect: Connect) -> Any:
        wire: Any = await connect()
        await wire.send(self._request)
        return wire

    async def initial_metadata(self) -> Metadata:
        first = await self._receive()
        if isinstance(first, _Initial):
            return first.metadata
        if isinstance(first, _End):
            return ()
        raise _End(grpc.StatusCode.UNAVAILABLE, "another word than was due").error()

    async def code(self) -> grpc.StatusCode:
        return self._ended.code

    async def details(self) -> str:
        return self._ended.details

    async def trailing_metadata(self) -> Metadata:
        return self._ended.trailing

    @property
    def _ended(self) -> _End:
        return self._end or _End(grpc.StatusCode.UNKNOWN)

    async def write(self, message: bytes) -> None:
        try:
            wire = await asyncio.shield(self._connecting)
            await wire.send(message)
        except SurroundingsError as error:
            raise _End(grpc.StatusCode.UNAVAILABLE, str(error)).error() from error

    async def read(self) -> Any:
        said = await self._receive()
        if isinstance(said, bytes):
            return said
        if isinstance(said, _End) and said.code is grpc.StatusCode.OK:
            return aio.EOF
        end = (
            said if isinstance(said, _End) else _End(grpc.StatusCode.UNAVAILABLE, "another word than was due")
        )
        raise end.error()

    async def _receive(self) -> Any:
        try:
            wire = await asyncio.shield(self._connecting)
            said = await wire.receive()
        except SurroundingsError as error:
            raise _End(grpc.StatusCode.UNAVAILABLE, str(error)).error() from error
        if said is None:
            said = _End(grpc.StatusCode.UNAVAILABLE, "the other end has left")
        if isinstance(said, _End):
            self._end = said
        return said

    def cancel(self) -> None:
        if not self._connecting.done():
            self._connecting.cancel()
        elif not self._connecting.cancelled() and self._connecting.exception() is None:
            self._connecting.result().finish()
