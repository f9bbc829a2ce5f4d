"""What the agent's handlers of logs and terminals share: data goes by a call of its own, and so may an error.

A principal of ours takes an answer that says why there is none. argocd-agent's takes none, and waits for the call.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message

from sidecars.delivery.interactive import seconds_left
from sidecars.proxies.dispatcher import RequestHandler
from sidecars.proxies.pods.agent_calls import AgentCalls
from sidecars.wire import payloads
from sidecars.wire.client.dialer import DialError
from sidecars.wire.events import Event
from sidecars.wire.proxy_payloads import ResourceResponse
from sidecars.wire.streams import StreamLostError
from tiphys import logs

# Errors that are told at a time, to a principal that asks for more than is served.
MAX_TOLD = 256
TELL_SECONDS = 30.0
_OK = 200

log = logs.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class DataKind:
    """`path` is the call's."""

    name: str
    path: str
    error: Callable[[str, str], Sequence[Message]]
    """What tells the other end of the call: of the request's id, and words."""
    refusal: Callable[[int, str], str]
    """What a principal of ours is answered: of a status, and words."""


class DataHandler(RequestHandler):
    """`close` when the agent ends."""

    def __init__(self, kind: DataKind, calls: AgentCalls) -> None:
        self._kind = kind
        self._calls = calls
        self._running: dict[str, asyncio.Task[None]] = {}
        self._telling: set[asyncio.Task[None]] = set()

    def refusal(self, event: Event, *, status: int, message: str) -> bytes | None:
        body = self._kind.refusal(status, message)
        return self._refused(event, status=status, message=message, body=body)

    async def close(self) -> None:
        tasks = [*self._running.values(), *self._telling]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _refused(self, event: Event, *, status: int, message: str, body: str) -> bytes | None:
        """`body` is for a principal that takes an answer."""
        if seconds_left(event) is not None:
            return _answer(event, status, body)
        if len(self._telling) < MAX_TOLD:
            task = self._start(self._tell(event.event_id, message))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)
        return None

    def _begun(self, event: Event, uuid: str, work: Coroutine[Any, Any, None]) -> bytes | None:
        """The answer to what is open from now on."""
        self._running[uuid] = task = self._start(work)
        task.add_done_callback(lambda _: self._running.pop(uuid, None))
        return None if seconds_left(event) is None else _answer(event, _OK, "")

    def _start(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work, name=self._kind.name)

        def ended(task: "asyncio.Task[None]") -> None:
            if not task.cancelled() and task.exception() is not None:
                log.error(
                    "a log or a terminal failed", **{logs.KIND: self._kind.name}, exc_info=task.exception()
                )

        task.add_done_callback(ended)
        return task

    async def _tell(self, uuid: str, message: str) -> None:
        try:
            stream = await self._calls.open(self._kind.path, seconds=TELL_SECONDS)
            try:
                async with asyncio.timeout(TELL_SECONDS):
                    for part in self._kind.error(uuid, message):
                        await stream.write(part)
                    await stream.finish()
                    while await stream.read() is not None:
                        pass  # it has been heard when the call ends
            finally:
                stream.cancel()
        except (StreamLostError, DialError, TimeoutError) as error:
            log.debug(
                "the call ended by which an error was told",
                **{logs.KIND: self._kind.name, logs.REASON: logs.describe(error)},
            )


class DisabledData(DataHandler):
    """Switched off: said at once."""

    def __init__(self, kind: DataKind, calls: AgentCalls, *, message: str) -> None:
        super().__init__(kind, calls)
        self._message = message

    def mutates(self, event: Event) -> bool:
        return False

    async def handle(self, event: Event) -> bytes | None:
        return self.refusal(event, status=403, message=self._message)


def _answer(event: Event, status: int, body: str) -> bytes:
    return payloads.write(ResourceResponse(uuid=event.event_id, status=status, resource=body))
