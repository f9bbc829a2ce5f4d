"""The principal's cluster is asked what it knows of an agent."""

from collections.abc import Sequence

from argocd.explanations.link import LinkExplanation, LinkStatus
from kube.errors import ForbiddenError
from kube.live import LiveStore
from sidecars.fleet.agents import Fleet, Registered
from sidecars.fleet.principal_client import Told, ask_principal
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
    told = await ask_principal(store, namespace=namespace, service=service, url=url)
    (link,) = await _links(fleet, [found], told, only=agent)
    return link


async def look_at_all(
    store: LiveStore, *, namespace: str, service: str, url: str | None
) -> list[LinkExplanation]:
    """Every agent that is registered, by as many questions as for one."""
    fleet = Fleet(store=store, namespace=namespace)
    agents = await fleet.all()
    told = await ask_principal(store, namespace=namespace, service=service, url=url)
    return await _links(fleet, agents, told)


async def _links(
    fleet: Fleet, agents: Sequence[Registered], told: Told, *, only: str = ""
) -> list[LinkExplanation]:
    try:
        fingerprints = (await fleet.blocked()).fingerprints
        troubles = await fleet.troubles(agents, only=only)
    except ForbiddenError:  # the rest is worth telling
        fingerprints, troubles = frozenset(), {}
    return [
        LinkExplanation(
            agent=agent.name,
            namespace=fleet.namespace,
            secret=agent.secret,
            blocked=bool(fingerprints.intersection(agent.fingerprints)),
            status=_status(told.statuses.get(agent.name)),
            problem=told.problem,
            failed_application=trouble.application if (trouble := troubles.get(agent.name)) else "",
            last_error=trouble.message if trouble else "",
        )
        for agent in agents
    ]


def _status(told: AgentStatus | None) -> LinkStatus | None:
    if told is None:
        return None
    return LinkStatus(
        mode=told.mode, connected=told.connected, queue=told.queue, lag_seconds=told.lag_seconds
    )
