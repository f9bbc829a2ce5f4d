"""What the principal's cluster tells of an agent: is it known there, let in, connected, and up to date?"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from argocd import names
from argocd.agents.vocabulary import Mode
from cli.explanations.explanation import ExplanationStep, Mark
from kube.errors import ForbiddenError
from kube.live import LiveStore
from sidecars.fleet.agents import Fleet, Registered, Trouble
from sidecars.fleet.principal_client import NOBODY, Told, ask_principal
from sidecars.principal.agent_status import AgentStatus

LATE_SECONDS = 60.0
"""An agent that has not acknowledged something for longer is stuck, not busy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkExplanation:
    """`unseen` says why the agent's cluster Secret could not be looked for."""

    agent: str
    namespace: str
    registered: Registered | None
    alike: str = ""
    unseen: str = ""
    blocked: bool = False
    told: Told = NOBODY
    trouble: Trouble | None = None

    @property
    def status(self) -> AgentStatus | None:
        return self.told.statuses.get(self.agent)

    @property
    def mode(self) -> Mode | None:
        said = self.status.mode if self.status else ""
        return Mode(said) if said in {mode.value for mode in Mode} else None

    @property
    def connected(self) -> bool | None:
        """None where the principal did not say."""
        if self.status is None:
            return None if self.told.problem else False
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
        status, trouble = self.status, self.trouble
        return {
            "registered": None if self.unseen else self.registered is not None,
            "secret": self.registered.secret if self.registered else None,
            "blocked": self.blocked,
            "mode": status.mode if status else None,
            "connected": self.connected,
            "queue": status.queue if status else None,
            "lagSeconds": status.lag_seconds if status else None,
            "lastError": {"application": trouble.application, "message": trouble.message}
            if trouble
            else None,
            "problem": self.unseen or self.told.problem,
        }


async def look(
    store: LiveStore, agent: str, *, namespace: str, service: str, url: str | None
) -> LinkExplanation:
    """All of it; what is not for us to see is left out, and told."""
    fleet = Fleet(store=store, namespace=namespace)
    try:
        agents = await fleet.all()
    except ForbiddenError as error:
        return LinkExplanation(agent=agent, namespace=namespace, registered=None, unseen=str(error))
    found = next((each for each in agents if each.name == agent), None)
    if found is None:
        alike = next((each.name for each in agents if each.name.lower() == agent.lower()), "")
        return LinkExplanation(agent=agent, namespace=namespace, registered=None, alike=alike)
    try:
        fingerprints = (await fleet.blocked()).fingerprints
        trouble = (await fleet.troubles([found], only=agent)).get(agent)
    except ForbiddenError:  # the rest is worth telling
        fingerprints, trouble = frozenset(), None
    return LinkExplanation(
        agent=agent,
        namespace=namespace,
        registered=found,
        blocked=bool(fingerprints.intersection(found.fingerprints)),
        told=await ask_principal(store, namespace=namespace, service=service, url=url),
        trouble=trouble,
    )


def _steps(link: LinkExplanation) -> Iterator[ExplanationStep]:
    agent = link.agent
    if link.unseen:
        yield ExplanationStep(Mark.NOTE, "whether it is registered cannot be seen", link.unseen)
        return
    if link.registered is None:
        missing = f"no cluster Secret in {link.namespace} has the label {names.AGENT_NAME}={agent}"
        hint = (
            f"but the agent {link.alike} is registered, and upper and lower case count"
            if link.alike
            else f"on the principal's cluster `tiphys agents create {agent}` makes one"
        )
        yield ExplanationStep(Mark.NO, f"the agent {agent} is not registered here", f"{missing}; {hint}")
        return
    yield ExplanationStep(Mark.YES, f"it is registered: Secret {link.namespace}/{link.registered.secret}")
    if link.blocked:
        yield ExplanationStep(
            Mark.NO, "its certificate is blocked", f"`tiphys agents unblock {agent}` lets it in again"
        )
    yield from _connection(link)
    if link.trouble:
        yield ExplanationStep(
            Mark.NOTE,
            f"its last error is that of Application {link.trouble.application}",
            link.trouble.message,
        )


def _connection(link: LinkExplanation) -> Iterator[ExplanationStep]:
    status = link.status
    if link.told.problem:
        yield ExplanationStep(
            Mark.NOTE,
            "whether it is connected is not known: the principal did not answer",
            f"{link.told.problem}; --principal-url asks its pages elsewhere, and its log tells too",
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
