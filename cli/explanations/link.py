"""The principal's cluster is asked what it knows of an agent."""

from argocd.explanations.link import LinkExplanation, LinkStatus
from kube.errors import ForbiddenError
from kube.live import LiveStore
from sidecars.fleet.agents import Fleet
from sidecars.fleet.principal_client import ask_principal
from sidecars.principal.agent_status import AgentStatus


async def look(
    store: LiveStore, agent: str, *, namespace: str, service: str, url: str | None
) -> LinkExplanation:
    """All of it; what is not for us to see is left out, and told."""
    fleet = Fleet(store=store, namespace=namespace)
    try:
        agents = await fleet.all()
    except ForbiddenError as error:
        return LinkExplanation(agent=agent, namespace=namespace, unseen=str(error))
    found = next((each for each in agents if each.name == agent), None)
    if found is None:
        alike = next((each.name for each in agents if each.name.lower() == agent.lower()), "")
        return LinkExplanation(agent=agent, namespace=namespace, alike=alike)
    try:
        fingerprints = (await fleet.blocked()).fingerprints
        trouble = (await fleet.troubles([found], only=agent)).get(agent)
    except ForbiddenError:  # the rest is worth telling
        fingerprints, trouble = frozenset(), None
    told = await ask_principal(store, namespace=namespace, service=service, url=url)
    return LinkExplanation(
        agent=agent,
        namespace=namespace,
        secret=found.secret,
        blocked=bool(fingerprints.intersection(found.fingerprints)),
        status=_status(told.statuses.get(agent)),
        problem=told.problem,
        failed_application=trouble.application if trouble else "",
        last_error=trouble.message if trouble else "",
    )


def _status(told: AgentStatus | None) -> LinkStatus | None:
    if told is None:
        return None
    return LinkStatus(
        mode=told.mode, connected=told.connected, queue=told.queue, lag_seconds=told.lag_seconds
    )
