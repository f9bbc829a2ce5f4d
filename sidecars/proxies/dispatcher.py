"""The agent carries out what the principal asks: beside the receive loop, a few at a time, once, and not too late."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from argocd.agents.vocabulary import Message, Target
from sidecars.delivery.interactive import is_read, seconds_left
from sidecars.delivery.timing import Timing
from sidecars.proxies.request_turns import RequestTurns
from sidecars.proxies.requests import WITHDRAW
from sidecars.wire.errors import MalformedError
from sidecars.wire.events import AGENT_SOURCE, Event, exact, following_trace, fresh_id
from tiphys import logs, metrics

UNTOLD_SECONDS = 25.0
"""For a principal that tells no deadline: argocd-agent's gives up after 30."""

LONGEST_SECONDS = 600.0

WAITING = 256
"""Requests of one sort that wait for a slot; a Tiphys principal has no more open for which somebody waits."""

TURNS = 8
"""Of those that run, as many as are new: a crowd of readers takes turns, and what keeps Applications in step does
not queue behind all of them, here and at the API server.
"""
TURNS_BESIDE_STATE = 2
"""While a change is written here, or on its way to the principal."""
SLOW_SECONDS = 0.25

MAX_OPEN_BYTES = 64 << 20
"""Of all requests that are open: bodies have 3 MiB at most, and most requests none."""

REMEMBERED_SECONDS = 600.0
REMEMBERED = 16_384
"""What changed something: argocd-agent's principal sends again what it has no acknowledgement for."""

ANSWER_TYPES = {
    Target.RESOURCE: Message.RESPONSE,
    Target.CONTAINER_LOG: Message.RESPONSE,
    Target.TERMINAL: Message.RESPONSE,
    Target.REDIS: Message.REDIS_RESPONSE,
}

REQUESTS = metrics.counter(
    "tiphys_sidecars_agent_requests_total",
    "Requests of the principal for live objects, by what they are for and how they went.",
    labels=("target", "outcome"),
)

log = logs.get_logger()


class RequestHandler(Protocol):
    async def handle(self, event: Event) -> bytes | None:
        """The answer; None where there is none to be sent. Cancelled at the deadline or when it is withdrawn."""
        ...

    def refusal(self, event: Event, *, status: int, message: str) -> bytes | None:
        """The answer to what is not begun or came to nothing."""
        ...

    def mutates(self, event: Event) -> bool:
        """Then it runs once, however often it arrives. Looks at the event's type, not at what it carries."""
        ...


Post = Callable[..., bool]
"""`Link.post`."""


Place = Callable[[Event], AbstractAsyncContextManager[object]]
"""What a request waits for before it takes a slot: what only few may do at a time must not hold those of others."""


@dataclass(slots=True)
class _Served:
    handler: RequestHandler
    place: Place
    slots: asyncio.Semaphore
    turns: RequestTurns
    unawaited: int
    open: int = 0


class RequestDispatcher:
    def __init__(
        self,
        post: Post,
        *,
        timing: Timing,
        gives_way: Callable[[], bool] = lambda: False,
        new_id: Callable[[], str] = fresh_id,
        source: str = AGENT_SOURCE,
    ) -> None:
        self._post = post
        self._clock = timing.monotonic
        self._gives_way = gives_way
        self._new_id = new_id
        self._source = source
        self._served: dict[str, _Served] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._done: dict[str, float] = {}
        self._withdrawn: set[str] = set()
        self._bytes = 0

    def serve(
        self,
        target: Target,
        handler: RequestHandler,
        *,
        slots: int = 64,
        unawaited: int = 0,
        place: Place = lambda _event: nullcontext(),
    ) -> None:
        """`unawaited`: how many may come at once, besides, for whose answer nobody waits."""
        self._served[target] = _Served(
            handler,
            place,
            asyncio.Semaphore(slots),
            RequestTurns(lambda: TURNS_BESIDE_STATE if self._gives_way() else TURNS, seconds=SLOW_SECONDS),
            unawaited,
        )

    def receive(self, event: Event) -> None:
        """Returns at once. Duplicates get no second answer: the first one is on its way."""
        served = self._served.get(event.target)
        if event.type == WITHDRAW:
            self._withdraw(event.event_id)
        elif served is None:
            log.debug("nobody serves this", **{logs.KIND: event.target})
        elif event.event_id in self._running or self._has_run(event.event_id):
            self._count(event, "duplicate")
        elif served.open >= WAITING + served.unawaited or (
            self._bytes and self._bytes + event.cost > MAX_OPEN_BYTES
        ):
            self._refuse(served, event, status=429, message="the agent has too many requests open")
        elif seconds_left(event) == 0:
            self._refuse(served, event, status=504, message="its time was over when it came")
        else:
            self._start(served, event)

    def push(self, target: Target, payload: bytes, *, event_id: str, seconds: float = 60.0) -> bool:
        """More about a request that was answered. False where there is no room."""
        return self._post(self._answer(target, payload, event_id), seconds=seconds, once=False)

    def unsendable(self, event: Event) -> None:
        """The answer is larger than a message may be."""
        served = self._served.get(event.target)
        if served is not None:
            message = "the answer is larger than a message may be: raise --grpc-max-message-size on both ends"
            self._refuse(served, event, status=507, message=message)

    async def close(self) -> None:
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _start(self, served: _Served, event: Event) -> None:
        told = seconds_left(event)
        left = min(UNTOLD_SECONDS if told is None else told, LONGEST_SECONDS)
        if served.handler.mutates(event):
            self._remember(event.event_id)
        served.open += 1
        self._bytes += event.cost
        task = asyncio.get_running_loop().create_task(
            self._run(served, event, seconds=left), name=f"request {event.target}"
        )
        self._running[event.event_id] = task

        def ended(task: asyncio.Task[None]) -> None:
            served.open -= 1
            self._bytes -= event.cost
            self._running.pop(event.event_id, None)
            self._withdrawn.discard(event.event_id)
            if not task.cancelled() and task.exception() is not None:
                log.error("a request was not dealt with", exc_info=task.exception())

        task.add_done_callback(ended)

    async def _run(self, served: _Served, event: Event, *, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                async with served.place(event), served.slots, served.turns.turn():
                    with following_trace(event):
                        payload = await served.handler.handle(event)
        except TimeoutError:
            self._refuse(served, event, status=504, message=f"not done within {seconds:.0f} s")
        except MalformedError as error:
            self._refuse(served, event, status=400, message=str(error))
        except asyncio.CancelledError:
            self._count(event, "withdrawn")
            if event.event_id not in self._withdrawn:
                raise
        except Exception:
            log.exception("a request failed", **{logs.KIND: event.target})
            self._refuse(served, event, status=500, message="the agent made a mistake: its log says more")
        else:
            self._count(event, "done")
            if not self._send(event, payload):
                message = "too many answers wait to be sent: try again later"
                self._refuse(served, event, status=429, message=message)

    def _refuse(self, served: _Served, event: Event, *, status: int, message: str) -> None:
        self._count(event, "refused")
        self._send(event, served.handler.refusal(event, status=status, message=message))

    def _send(self, event: Event, payload: bytes | None) -> bool:
        """False where there is no room."""
        if payload is None:
            return True
        answer = self._answer(event.target, payload, event.event_id)
        sent = self._post(answer, seconds=UNTOLD_SECONDS, once=False, answers_read=is_read(event))
        if not sent:
            log.warning("no room for an answer", **{logs.KIND: event.target})
        return sent

    def _answer(self, target: str, payload: bytes, event_id: str) -> Event:
        return Event(
            type=ANSWER_TYPES[Target(target)],
            target=target,
            resource_id=self._new_id(),
            event_id=event_id,
            payload=exact(payload),
            source=self._source,
        )

    def _withdraw(self, event_id: str) -> None:
        task = self._running.get(event_id)
        if task is not None:
            self._withdrawn.add(event_id)
            task.cancel()

    def _has_run(self, event_id: str) -> bool:
        since = self._done.get(event_id)
        return since is not None and self._clock() - since < REMEMBERED_SECONDS

    def _remember(self, event_id: str) -> None:
        self._done[event_id] = self._clock()
        if len(self._done) > REMEMBERED:
            del self._done[next(iter(self._done))]

    def _count(self, event: Event, outcome: str) -> None:
        REQUESTS.labels(event.target, outcome).inc()
