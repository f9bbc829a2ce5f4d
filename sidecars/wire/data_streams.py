"""Calls of an agent that carry bytes beside its stream of events: logs and terminals."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import grpc
from grpc import aio

from sidecars.wire.capabilities import grouped
from sidecars.wire.streams import StreamLostError

LOGS = "principal.apis.logstreamapi.LogStreamService/StreamLogs"
TERMINAL = "terminalstreamapi.TerminalStreamService/StreamTerminal"

MAX_MESSAGE_BYTES = 1 << 20
"""Both ends cut what they carry into 64 KiB, argocd-agent too."""


class DataStream:
    """One call, the same on both ends. One at a time may read and one may write; None at the end."""

    def __init__(
        self, *, read: Callable[[], Awaitable[Any]], write: Callable[[bytes], Awaitable[None]], label: str
    ) -> None:
        self._read = read
        self._write = write
        self._label = label

    async def read(self) -> bytes | None:
        raw = await self._unless_lost(self._read())
        return None if raw is aio.EOF else raw

    async def write(self, message: Any) -> None:
        await self._unless_lost(self._write(message.SerializeToString()))

    def _code(self, code: str) -> str:
        return code

    async def _unless_lost(self, waiting: Awaitable[Any]) -> Any:
        try:
            return await waiting
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # grpc answers who waits on a call that has ended with a cancellation of its own.
            code = self._code("CANCELLED")
            raise StreamLostError(f"the call with {self._label} has ended", code=code) from None
        except (grpc.RpcError, aio.BaseError, asyncio.InvalidStateError) as error:
            code = self._code(error.code().name) if isinstance(error, aio.AioRpcError) else "UNAVAILABLE"
            details = (error.details() if isinstance(error, aio.AioRpcError) else str(error)) or "closed"
            raise StreamLostError(
                f"the call with {self._label} ended: {code}: {details[:300]}", code=code
            ) from error


class OpenedDataStream(DataStream):
    """The agent's end."""

    def __init__(self, call: Any, *, label: str, closed: Callable[[], bool]) -> None:
        """`closed`: our own connection is over, which grpc calls a cancellation, as if the principal had said it."""
        super().__init__(read=call.read, write=call.write, label=label)
        self._call = call
        self._closed = closed

    def _code(self, code: str) -> str:
        return "UNAVAILABLE" if code == "CANCELLED" and self._closed() else code

    async def greeting(self) -> Mapping[str, list[str]]:
        """What the principal says first; argocd-agent's says nothing before the end."""
        return grouped(await self._unless_lost(self._call.initial_metadata()))

    async def finish(self) -> None:
        """Nothing more is written; the answer can be read."""
        await self._unless_lost(self._call.done_writing())

    async def ended(self) -> str:
        """By which code."""
        return self._code((await self._call.code()).name)

    def cancel(self) -> None:
        self._call.cancel()
