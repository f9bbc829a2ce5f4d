"""How an agent's requests find the connection to the principal that there is at the moment."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from sidecars.wire.client.dialer import AgentConnection
from sidecars.wire.data_streams import OpenedDataStream
from sidecars.wire.streams import StreamLostError


class NotConnectedError(StreamLostError):
    """There is no connection to the principal, and none came."""


class AgentCalls:
    def __init__(self) -> None:
        self._connection: AgentConnection | None = None
        self._connected = asyncio.Event()

    @contextmanager
    def using(self, connection: AgentConnection) -> Iterator[None]:
        """While it is served."""
        self._connection = connection
        self._connected.set()
        try:
            yield
        finally:
            if self._connection is connection:
                self._connection = None
                self._connected.clear()

    async def open(self, path: str, *, seconds: float) -> OpenedDataStream:
        """Waits so long for a connection; raises NotConnectedError, or DialError where the login has ended."""
        try:
            async with asyncio.timeout(seconds):
                while self._connection is None:
                    await self._connected.wait()
        except TimeoutError as error:
            raise NotConnectedError(
                f"not connected to the principal within {seconds:.0f} s", code="UNAVAILABLE"
            ) from error
        return await self._connection.open_data_stream(path)
