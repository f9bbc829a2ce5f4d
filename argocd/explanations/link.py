"""What a principal's cluster tells of an agent: is it known there, let in, connected, and up to date?"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from argocd import names
from argocd.agents.vocabulary import Mode
from argocd.explanations.explanation import ExplanationStep, Mark

LATE_SECONDS = 60.0
"""An agent that has not acknowledged something for longer is stuck, not busy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkStatus:
    """The principal's own word on an agent that it has seen."""

    mode: str
    connected: bool
    queue: int
    lag_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkExplanation:
    """`secret` is the agent's cluster Secret, empty where there is none; `unseen` says why it could not be looked
    for, `problem` why the principal did not answer.
    """

    agent: str
    namespace: str
    secret: str = ""
    alike: str = ""
    unseen: str = ""
    blocked: bool = False
    status: LinkStatus | None = None
    problem: str = ""
    failed_application: str = ""
    last_error: str = ""

    @property
    def mode(self) -> Mode | None:
        said = self.status.mode if self.status else ""
        return Mode(said) if said in {mode.value for mode in Mode} else None

    @property
    def connected(self) -> bool | None:
        """None where the principal did not say."""
        if self.status is None:
            return None if self.problem else False
        return self.status.connected

    @property
    def cause(self) -> str:
        """Why nothing gets through, empty where nothing speaks against it."""
        return next((step.what for step in self.steps() if step.mark is Mark.NO), "")

    def steps(self) -> Iterator[ExplanationStep]:
        """What holds and what does not, in the order in which it matters."""
        return _steps(self)

    @property
    def data(self) -> dict[str, Any]:
        status = self.status
        error = {"application": self.failed_application, "message": self.last_error}
        return {
            "registered": None if self.unseen else bool(self.secret),
            "secret": self.secret or None,
            "blocked": self.blocked,
            "mode": status.mode if status else None,
            "connected": self.connected,
            "queue": status.queue if status else None,
            "lagSeconds": status.lag_seconds if status else None,
            "lastError": error if self.last_error else None,
            "problem": self.unseen or self.problem,
        }


def _steps(link: LinkExplanation) -> Iterator[ExplanationStep]:
    agent = link.agent
    if link.unseen:
        yield ExplanationStep(Mark.NOTE, "whether it is registered cannot be seen", link.unseen)
        return
    if not link.secret:
        missing = f"no cluster Secret in {link.namespace} has the label {names.AGENT_NAME}={agent}"
        hint = (
            f"but the agent {link.alike} is registered, and upper and lower case count"
            if link.alike
            else f"on the principal's cluster `tiphys agents create {agent}` makes one"
        )
        yield ExplanationStep(Mark.NO, f"the agent {agent} is not registered here", f"{missing}; {hint}")
        return
    yield ExplanationStep(Mark.YES, f"it is registered: Secret {link.namespace}/{link.secret}")
    if link.blocked:
        yield ExplanationStep(
            Mark.NO, "its certificate is blocked", f"`tiphys agents unblock {agent}` lets it in again"
        )
    yield from _connection(link)
    if link.last_error:
        yield ExplanationStep(
            Mark.NOTE, f"its last error is that of Application {link.failed_application}", link.last_error
        )


def _connection(link: LinkExplanation) -> Iterator[ExplanationStep]:
    status = link.status
    if link.problem:
        yield ExplanationStep(
            Mark.NOTE,
            "whether it is connected is not known: the principal did not answer",
            f"{link.problem}; --principal-url asks its pages elsewhere, and its log tells too",
        )
        return
    if status is None:
        yield ExplanationStep(
            Mark.NO,
            "it is not connected",
            "the principal has not seen it since it started: the agent's log tells why it does not get there",
        )
        return
    yield ExplanationStep(Mark.NOTE, f"it is {status.mode}, says the principal")
    if not status.connected:
        yield ExplanationStep(Mark.NO, "it is not connected", "the agent's log and the principal's tell why")
        return
    yield ExplanationStep(Mark.YES, "it is connected")
    if not status.queue:
        yield ExplanationStep(Mark.YES, "it has acknowledged everything")
        return
    late = status.lag_seconds > LATE_SECONDS
    waiting = "1 event waits" if status.queue == 1 else f"{status.queue} events wait"
    yield ExplanationStep(
        Mark.NO if late else Mark.NOTE,
        f"{waiting} for it, the oldest for {status.lag_seconds:.0f} s",
        "the agent's log tells what keeps it" if late else "",
    )
