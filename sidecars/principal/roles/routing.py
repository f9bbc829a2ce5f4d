"""Whose objects are whose, as a Go replica wants to be told."""

from collections.abc import Iterable

from argocd.agents.routing import project_of_repository
from argocd.agents.vocabulary import Mode
from argocd.reading import text
from kube.store import Object
from sidecars.principal.state import HubState


class HubRouting:
    def __init__(self, hub_state: HubState) -> None:
        self._hub_state = hub_state

    def agents(self) -> Iterable[tuple[str, str]]:
        """Names and modes."""
        for name in map(str, self._hub_state.clusters.terms("agent")):
            mode = self._hub_state.mode_of(name) or self._hub_state.agents.mode_of(name)
            yield name, mode.value if mode is not None else "unknown"

    def agent_of(self, application: Object) -> str:
        return self._hub_state.agent_of(application) or text(application, "metadata", "namespace")

    def agents_of_repository(self, secret: Object) -> Iterable[str]:
        """Also of agents that have not connected yet: whoever is promoted must have what they need."""
        home = self._hub_state.settings.namespace
        name = project_of_repository(secret, argocd_namespace=home)
        project = self._hub_state.projects.get(name, namespace=home) if name else None
        return [
            agent
            for agent, mode in self.agents()
            if mode == Mode.MANAGED and self._hub_state.project_copy(project, agent) is not None
        ]
