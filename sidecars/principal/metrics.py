"""How many objects come, change and go on the control plane, under argocd-agent's names."""

from functools import partial

from argocd.reading import mapping
from kube.store import Object
from sidecars.metrics import argocd_agent
from sidecars.metrics.argocd_agent import Changes
from sidecars.principal.state import HubState


class PrincipalMetrics:
    def __init__(self, hub_state: HubState) -> None:
        self._hub_state = hub_state

    def begin(self) -> None:
        """Before the caches run."""
        known = self._hub_state
        for cache, changes in (
            (known.applications, argocd_agent.APPLICATION_CHANGES),
            (known.projects, argocd_agent.PROJECT_CHANGES),
            (known.repositories, argocd_agent.REPOSITORY_CHANGES),
        ):
            cache.subscribe(partial(_count, changes))
        known.gpg_keys.subscribe(_count_keys)


def _count(changes: Changes, old: Object | None, new: Object | None) -> None:
    if old is None:
        changes.created.inc()
    elif new is None:
        changes.deleted.inc()
    else:
        changes.updated.inc()


def _count_keys(_old: Object | None, new: Object | None) -> None:
    argocd_agent.KEYS.set(len(mapping(new, "data")))
