"""Which kinds Argo CD looks at on a cluster: its exclusions, its inclusions and what it never watches."""

from collections.abc import Iterable

from argocd import globs
from argocd.settings.argocd_cm import ResourceFilter, Settings

NEVER_WATCHED = (
    ResourceFilter(groups=("events.k8s.io", "metrics.k8s.io")),
    ResourceFilter(groups=("",), kinds=("Event",)),
    ResourceFilter(groups=("coordination.k8s.io",), kinds=("Lease",)),
)


def is_excluded(settings: Settings, *, group: str, kind: str, cluster: str = "") -> bool:
    """An exclusion beats an inclusion; where an inclusion is about the cluster, all that it leaves out is out."""
    if _any(NEVER_WATCHED, group, kind, cluster) or _any(settings.exclusions, group, kind, cluster):
        return True
    about_here = any(_is_about(entry.clusters, cluster) for entry in settings.inclusions)
    return about_here and not _any(settings.inclusions, group, kind, cluster)


def covers(entry: ResourceFilter, *, group: str, kind: str, cluster: str) -> bool:
    """Groups and clusters are globs, a kind is exact or `*`; an empty list is about everything."""
    return (
        _is_about(entry.groups, group)
        and (not entry.kinds or kind in entry.kinds or "*" in entry.kinds)
        and _is_about(entry.clusters, cluster)
    )


def _any(entries: Iterable[ResourceFilter], group: str, kind: str, cluster: str) -> bool:
    return any(covers(entry, group=group, kind=kind, cluster=cluster) for entry in entries)


def _is_about(patterns: tuple[str, ...], text: str) -> bool:
    return not patterns or any(globs.match(pattern, text) is globs.Verdict.YES for pattern in patterns)
