"""How many objects come, change and go on the control plane, under argocd-agent's names."""

from collections.abc import Callable
from functools import partial
from typing import Any

from argocd import names
from argocd.reading import mapping, text
from argocd.settings import secrets
from kube.store import Object
from sidecars.metrics import argocd_agent
from sidecars.metrics.app_info import AppInfo
from sidecars.metrics.argocd_agent import Changes
from sidecars.principal.state import HubState
from tiphys import metrics

REGISTERED = metrics.gauge(
    "tiphys_principal_registered_agents", "Agents that a cluster Secret tells of, connected or not."
)


class PrincipalMetrics:
    def __init__(self, hub_state: HubState) -> None:
        self._hub_state = hub_state

    def begin(self) -> Callable[[], bytes]:
        """Before the caches run. Returns what tells of each Application, where that is wanted."""
        known = self._hub_state
        for cache, changes in (
            (known.applications, argocd_agent.APPLICATION_CHANGES),
            (known.projects, argocd_agent.PROJECT_CHANGES),
            (known.repositories, argocd_agent.REPOSITORY_CHANGES),
        ):
            cache.subscribe(partial(_count, changes))
        known.gpg_keys.subscribe(_count_keys)
        known.clusters.subscribe(lambda _old, _new: REGISTERED.set(len(known.clusters.terms("agent"))))
        if not known.settings.app_info_limit:
            return bytes
        info = AppInfo(
            limit=known.settings.app_info_limit,
            belongs=self._has_agent,
            server_of=self._server_of,
            find=lambda namespace, name: known.applications.get(name, namespace=namespace),
        )

        def cluster_changed(old: Object | None, new: Object | None) -> None:
            """It has come, gone or moved; caches are listed in any order."""
            for agent in {text(each, "metadata", "labels", names.AGENT_NAME) for each in (old, new)}:
                for application in known.applications.find("agent", agent):
                    info.changed(application, application)

        known.applications.subscribe(info.changed)
        known.clusters.subscribe(cluster_changed)
        return info.page

    def _has_agent(self, application: Any) -> bool:
        known = self._hub_state
        return known.admitted(application) is not None and bool(
            known.clusters.find("agent", known.agent_of(application))
        )

    def _server_of(self, cluster: str) -> str:
        for secret in self._hub_state.clusters.find("agent", cluster):
            return secrets.value(secret, "server") or ""
        return ""


def _count(changes: Changes, old: Object | None, new: Object | None) -> None:
    if old is None:
        changes.created.inc()
    elif new is None:
        changes.deleted.inc()
    else:
        changes.updated.inc()


def _count_keys(_old: Object | None, new: Object | None) -> None:
    argocd_agent.KEYS.set(len(mapping(new, "data")))
