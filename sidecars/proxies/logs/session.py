"""One log that somebody reads at the control plane, across the calls by which its agent sends it."""

import asyncio
from collections.abc import AsyncIterator

from sidecars.proxies.logs.lines import LineReader
from tiphys.errors import SurroundingsError

# Of 64 KiB: what is under way while the reader takes the last one.
CHUNKS = 2
# How long an agent that lost its connection is waited for.
RESUME_SECONDS = 30.0


class LogEndedError(SurroundingsError):
    """The log broke off; the text is for whoever reads it."""


class LogSession:
    """`limit` is how many bytes its reader wants, across all calls."""

    def __init__(self, *, uuid: str, agent: str, timestamps: bool, limit: int | None = None) -> None:
        self.uuid = uuid
        self.agent = agent
        self.over = False
        """Nobody reads it any longer."""
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """The agent has sent something of it, or has ended it."""
        self._reader = LineReader(timestamps=timestamps)
        self._chunks: asyncio.Queue[bytes | LogEndedError | None] = asyncio.Queue(CHUNKS)
        self._attached: asyncio.Task[object] | None = None
        self._waiting: asyncio.TimerHandle | None = None
        self._ended = False
        self._left = limit

    @property
    def is_full(self) -> bool:
        """The reader has as much as it wants."""
        return self._left == 0

    @property
    def position(self) -> str:
        return str(self._reader.position)

    @property
    def lines(self) -> int:
        return self._reader.lines

    # The agent's call.

    def expect(self) -> None:
        """The agent has promised a call; it may be lost before it comes."""
        if self._attached is None and self._waiting is None and not self._ended:
            self._wait()

    def attach(self) -> None:
        """The present task brings the log from now on; one that did before has lost its connection."""
        if self._attached is not None:
            self._attached.cancel()
        self._attached = asyncio.current_task()
        if self._waiting is not None:
            self._waiting.cancel()
        self._reader.resume()

    def detach(self) -> None:
        if self._attached is asyncio.current_task():
            self._attached = None
            if not (self._ended or self.over):
                self._wait()

    async def put(self, data: bytes) -> None:
        """Returns when there is room for more: the agent, and the API server behind it, wait as long."""
        await self._show(self._reader.take(data))
        self._begin()
        if self.is_full:
            await self.finish()

    async def finish(self, error: str = "") -> None:
        self._ended = True
        rest = self._reader.rest()
        if not error:
            await self._show(rest)
        ended = LogEndedError(error) if error else None
        self._begin(ended)
        await self._chunks.put(ended)

    async def _show(self, data: bytes) -> None:
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
        if data:
            await self._chunks.put(data)

    # The reader.

    async def chunks(self) -> AsyncIterator[bytes]:
        """Raises LogEndedError where it breaks off."""
        while (chunk := await self._chunks.get()) is not None:
            if isinstance(chunk, LogEndedError):
                raise chunk
            yield chunk

    def close(self) -> None:
        self.over = True
        if self._waiting is not None:
            self._waiting.cancel()
        if self._attached is not None:
            self._attached.cancel()
        if self.begun.done() and not self.begun.cancelled():
            self.begun.exception()

    def _wait(self) -> None:
        self._waiting = asyncio.get_running_loop().call_later(RESUME_SECONDS, self._give_up)

    def _begin(self, error: LogEndedError | None = None) -> None:
        if self.begun.done():
            return
        if error is None:
            self.begun.set_result(None)
        else:
            self.begun.set_exception(error)
            self.begun.exception()  # whoever waits for it has it

    def _give_up(self) -> None:
        self._ended = True
        error = LogEndedError(f"agent {self.agent} lost its connection and did not come back")
        self._begin(error)
        if self._chunks.full():  # the reader is slower than that: what waits is worth less than the news
            self._chunks.get_nowait()
        self._chunks.put_nowait(error)
