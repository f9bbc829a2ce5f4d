"""Whose an Application on the control plane is, and where an agent's Applications are there, as Redis' keys ask."""

from collections.abc import Callable

from argocd.agents.routing import AgentMapping
from argocd.agents.vocabulary import Mode
from sidecars.principal.state import HubState
from sidecars.proxies.redis import keys
from sidecars.proxies.redis.keys import ApplicationKey


class ApplicationPlacing:
    def __init__(self, hub_state: HubState, *, has_agents: Callable[[], bool] = lambda: True) -> None:
        self._hub_state = hub_state
        self._has_agents = has_agents

    def agent_of(self, key: ApplicationKey) -> str:
        """Empty where it is no agent's, or where no agent can be asked."""
        if not self._has_agents():
            return ""
        settings = self._hub_state.settings
        agent = keys.agent_of(
            key,
            own_namespace=settings.namespace,
            mapped_by=settings.mapped_by,
            agent_of_application=self._agent_of_application,
        )
        return agent if agent and self.is_agent(agent) else ""

    def _agent_of_application(self, namespace: str, name: str) -> str:
        application = self._hub_state.applications.get(name, namespace=namespace)
        return self._hub_state.agent_of(application) if application is not None else ""

    def is_agent(self, name: str) -> bool:
        return bool(self._hub_state.clusters.find("agent", name))

    def hub_namespace(self, agent: str, namespace: str) -> str:
        """Where the control plane has an Application that the agent has in `namespace`."""
        state, settings = self._hub_state, self._hub_state.settings
        if settings.mapped_by is AgentMapping.NAMESPACE or state.agents.mode_of(agent) is Mode.AUTONOMOUS:
            return agent
        return settings.namespace if namespace == state.homes.get(agent) else namespace
