"""The principal asks an agent and waits: with a deadline, within limits, and for the answer of that agent alone."""

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial

from sidecars.mirroring.link import Link
from sidecars.wire.events import Event
from tiphys import logs, metrics
from tiphys.errors import SurroundingsError

WITHDRAW = "dev.tiphys.event.withdraw"
"""Whoever asked has left; its event id is the request's."""

MAX_OPEN = 256
"""Requests of one agent that are not answered yet: more than that many people look at one cluster never, and a page
of Argo CD asks for a dozen things at once.
"""

RECONNECT_SECONDS = 5.0
"""How long an agent that lost its stream is waited for: it comes back within a second, or not soon."""

STRAY_ANSWERS = metrics.counter(
    "tiphys_sidecars_stray_answers_total",
    "Answers that nobody waits for any longer, or that come from an agent that was not asked.",
    labels=("reason",),
)

log = logs.get_logger()


class RequestError(SurroundingsError):
    """Why there is no answer, for the one who asked; `status` is what HTTP calls it."""

    status = 500


class AgentNotConnectedError(RequestError):
    status = 502


class RequestLimitError(RequestError):
    status = 429


class RequestTooLargeError(RequestError):
    status = 413


class NoAnswerError(RequestError):
    status = 504


class _OpenRequest:
    __slots__ = ("agent", "answer", "event", "mutates", "sent_to")

    def __init__(self, agent: str, event: Event, *, mutates: bool, link: Link) -> None:
        self.agent = agent
        self.event = event
        self.mutates = mutates
        self.sent_to = link
        self.answer: asyncio.Future[Event] = asyncio.get_running_loop().create_future()

    def fail(self, error: RequestError) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class Requests:
    """`link_of` finds an agent's link; it need not be connected."""

    def __init__(self, link_of: Callable[[str], Link | None]) -> None:
        self._link_of = link_of
        self._open: dict[str, _OpenRequest] = {}
        self._count: Counter[str] = Counter()
        self._listeners: dict[tuple[str, str], Callable[[Event], None]] = {}
        self._departures: dict[str, asyncio.TimerHandle] = {}
        self.arrivals: list[Callable[[str], None]] = []
        """Called with the name of an agent whose stream has begun: it may have forgotten what it was told."""
        self.departed: Callable[[str], None] = lambda _agent: None

    def connected(self, agent: str) -> bool:
        link = self._link_of(agent)
        return link is not None and link.connected

    def check_connected(self, agent: str) -> None:
        """Raises AgentNotConnectedError."""
        self._connected_link(agent)

    def is_tiphys(self, agent: str) -> bool:
        """Whether it understands more than argocd-agent's agent."""
        link = self._link_of(agent)
        return link is not None and link.keeps_deadlines

    async def ask(self, agent: str, event: Event, *, seconds: float, mutates: bool = False) -> Event:
        """The answer. What changes something is sent once: where its stream breaks, whether it ran is not known.
        Cancelled, it is withdrawn.
        """
        link = self._connected_link(agent)
        if self._count[agent] >= MAX_OPEN:
            raise RequestLimitError(f"agent {agent} has {MAX_OPEN} requests open: try again later")
        request = _OpenRequest(agent, event, mutates=mutates, link=link)
        self._open[event.event_id] = request
        self._count[agent] += 1
        answered = False
        try:
            if not link.post(event, seconds=seconds, once=mutates):
                raise RequestLimitError(f"too much waits to be sent to agent {agent}: try again later")
            async with asyncio.timeout(seconds):
                answer = await request.answer
            answered = True
            return answer
        except TimeoutError as error:
            raise NoAnswerError(_unanswered(request, f"gave no answer within {seconds:.0f} s")) from error
        finally:
            self._close(request)
            if not answered:
                self._withdraw(request)

    def tell(self, agent: str, event: Event, *, seconds: float) -> None:
        """Nobody waits for an answer."""
        if not self._connected_link(agent).post(event, seconds=seconds, once=True):
            raise RequestLimitError(f"too much waits to be sent to agent {agent}: try again later")

    def listen(self, agent: str, event_id: str, receive: Callable[[Event], None]) -> Callable[[], None]:
        """Everything else that this agent says with that id, until what is returned is called."""
        key = agent, event_id
        self._listeners[key] = receive

        def stop() -> None:
            if self._listeners.get(key) is receive:
                del self._listeners[key]

        return stop

    # What links tell.

    def receive(self, agent: str, event: Event) -> None:
        request = self._open.get(event.event_id)
        if request is not None and request.agent != agent:
            STRAY_ANSWERS.labels("another agent").inc()
            log.warning("an agent answers what another was asked: refused", **{logs.AGENT: agent})
            return
        if request is not None and request.event.target == event.target and not request.answer.done():
            request.answer.set_result(event)
            return
        listener = self._listeners.get((agent, event.event_id))
        if listener is not None:
            listener(event)
            return
        STRAY_ANSWERS.labels("nobody waits").inc()
        log.debug("an answer that nobody waits for", **{logs.AGENT: agent, logs.KIND: event.target})

    def unsendable(self, event: Event) -> None:
        """The transport takes no message of this size."""
        request = self._open.get(event.event_id)
        if request is not None:
            request.fail(
                RequestTooLargeError(
                    f"the request is larger than a message to agent {request.agent} may be:"
                    " raise --grpc-max-message-size on both ends"
                )
            )

    def arrived(self, agent: str) -> None:
        for tell in self.arrivals:
            tell(agent)

    def disconnected(self, agent: str) -> None:
        """Its stream ended. Whoever waits is told when it does not come back."""
        self.departed(agent)
        if self._count[agent] and agent not in self._departures:
            self._departures[agent] = asyncio.get_running_loop().call_later(
                RECONNECT_SECONDS, partial(self._give_up, agent)
            )

    def close(self) -> None:
        for timer in self._departures.values():
            timer.cancel()
        self._departures.clear()
        for request in list(self._open.values()):
            request.fail(AgentNotConnectedError("the principal is stopping"))

    def _give_up(self, agent: str) -> None:
        del self._departures[agent]
        if self.connected(agent):
            return
        for request in list(self._open.values()):
            if request.agent == agent:
                request.fail(AgentNotConnectedError(_unanswered(request, "lost its connection")))

    def _connected_link(self, agent: str) -> Link:
        link = self._link_of(agent)
        if link is None or not link.connected:
            raise AgentNotConnectedError(f"agent {agent} is not connected to this principal")
        return link

    def _close(self, request: _OpenRequest) -> None:
        self._open.pop(request.event.event_id, None)
        self._count[request.agent] -= 1
        if not self._count[request.agent]:
            del self._count[request.agent]

    def _withdraw(self, request: _OpenRequest) -> None:
        """A Go agent that has it may still carry it out: it knows no such word."""
        link = request.sent_to
        if not link.outbox.interactive.withdraw(request.event) and link.connected and link.keeps_deadlines:
            event_id = request.event.event_id
            withdrawal = Event(
                type=WITHDRAW, target=request.event.target, resource_id=event_id, event_id=event_id
            )
            link.post(withdrawal, seconds=RECONNECT_SECONDS, once=True)


def _unanswered(request: _OpenRequest, what: str) -> str:
    unknown = "; whether it carried the request out is not known" if request.mutates else ""
    return f"agent {request.agent} {what}{unknown}"
