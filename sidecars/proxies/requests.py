"""The principal asks an agent and waits: with a deadline, within limits, and for the answer of that agent alone."""

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial

from sidecars.delivery.interactive import is_read
from sidecars.mirroring.link import Link
from sidecars.proxies.request_turns import RequestTurns
from sidecars.wire.events import Event
from tiphys import logs, metrics
from tiphys.errors import SurroundingsError

WITHDRAW = "dev.tiphys.event.withdraw"
"""Whoever asked has left; its event id is the request's."""

MAX_OPEN = 256
"""Requests of one agent that are not answered yet: more than that many people look at one cluster never, and a page
of Argo CD asks for a dozen things at once.
"""

TURNS = 6
"""Requests of one agent that are under way and new: the others of a crowd of readers wait here, where that costs nothing,
and what keeps Applications in step waits for so many at most on its way. With more, each message carries more of them and
more are served in a second, and that waits longer.
"""
TURNS_BESIDE_STATE = 1
"""While a change of an Application or a project is on its way to the agent: with two it waits a tenth longer."""
APPLYING_SECONDS = 0.01
"""After one was sent nobody's turn comes: an agent that is near writes it, and its API server has nothing else to do."""
# Twice what so many take where both ends are at their limit, so that turns hold there. An agent that is far gets 150 a
# second by it, whatever its distance.
SLOW_SECONDS = 0.04

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
    __slots__ = ("agent", "answer", "event", "mutates", "posted", "sent_to")

    def __init__(self, agent: str, event: Event, *, mutates: bool, link: Link) -> None:
        self.agent = agent
        self.event = event
        self.mutates = mutates
        self.sent_to = link
        self.posted = False
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
        self._turns: dict[str, RequestTurns] = {}
        self._listeners: dict[tuple[str, str], Callable[[Event], None]] = {}
        self._departures: dict[str, asyncio.TimerHandle] = {}
        self.arrivals: list[Callable[[str], None]] = []
        """Called with the name of an agent whose stream has begun: it may have forgotten what it was told."""
        self.changed: Callable[[str], None] = lambda _agent: None
        """Called with the name of one that has left, or says something new of its cluster."""

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
        turns = self._turns.get(agent) or self._new_turns(agent, link)
        end = asyncio.get_running_loop().time() + seconds
        answered = False
        try:
            async with asyncio.timeout_at(end), turns.turn():
                self._post(request, seconds=end - asyncio.get_running_loop().time())
                answer = await request.answer
            answered = True
            return answer
        except TimeoutError as error:
            raise NoAnswerError(_unanswered(request, f"gave no answer within {seconds:.0f} s")) from error
        finally:
            self._close(request)
            if answered:
                link.outbox.interactive.withdraw(event)  # where it was not acknowledged by itself
            elif request.posted:
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

    def receive(self, agent: str, event: Event) -> bool:
        """True where it answers a read."""
        request = self._open.get(event.event_id)
        if request is not None and request.agent != agent:
            STRAY_ANSWERS.labels("another agent").inc()
            log.warning("an agent answers what another was asked: refused", **{logs.AGENT: agent})
            return False
        if request is not None and request.event.target == event.target and not request.answer.done():
            request.answer.set_result(event)
            return is_read(request.event)
        listener = self._listeners.get((agent, event.event_id))
        if listener is not None:
            listener(event)
            return False
        STRAY_ANSWERS.labels("nobody waits").inc()
        log.debug("an answer that nobody waits for", **{logs.AGENT: agent, logs.KIND: event.target})
        return False

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
        self.changed(agent)
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

    def _post(self, request: _OpenRequest, *, seconds: float) -> None:
        if request.answer.done():  # nobody is there to be asked any longer
            return
        if not request.sent_to.post(request.event, seconds=seconds, once=request.mutates):
            raise RequestLimitError(f"too much waits to be sent to agent {request.agent}: try again later")
        request.posted = True

    def _new_turns(self, agent: str, link: Link) -> RequestTurns:
        turns = self._turns[agent] = RequestTurns(partial(_room, link), seconds=SLOW_SECONDS)
        return turns

    def _close(self, request: _OpenRequest) -> None:
        self._open.pop(request.event.event_id, None)
        self._count[request.agent] -= 1
        if not self._count[request.agent]:
            del self._count[request.agent]
            del self._turns[request.agent]

    def _withdraw(self, request: _OpenRequest) -> None:
        """A Go agent that has it may still carry it out: it knows no such word."""
        link = request.sent_to
        if not link.outbox.interactive.withdraw(request.event) and link.connected and link.keeps_deadlines:
            event_id = request.event.event_id
            withdrawal = Event(
                type=WITHDRAW, target=request.event.target, resource_id=event_id, event_id=event_id
            )
            link.post(withdrawal, seconds=RECONNECT_SECONDS, once=True)


def _room(link: Link) -> int:
    if link.timing.monotonic() - link.state_sent_at < APPLYING_SECONDS:
        return 0
    return TURNS_BESIDE_STATE if link.moves_state else TURNS


def _unanswered(request: _OpenRequest, what: str) -> str:
    unknown = (
        "; whether it carried the request out is not known" if request.mutates and request.posted else ""
    )
    return f"agent {request.agent} {what}{unknown}"
