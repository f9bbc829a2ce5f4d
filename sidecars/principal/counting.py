"""How many objects come, change and go on the control plane, under argocd-agent's names."""

from functools import partial

from argocd.reading import mapping
from kube.store import Object
from sidecars import figures
from sidecars.figures import Changes
from sidecars.principal.knowing import Knowledge


class Counting:
    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge

    def begin(self) -> None:
        """Before the caches run."""
        known = self._knowledge
        for cache, changes in (
            (known.applications, figures.APPLICATION_CHANGES),
            (known.projects, figures.PROJECT_CHANGES),
            (known.repositories, figures.REPOSITORY_CHANGES),
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
    figures.KEYS.set(len(mapping(new, "data")))
