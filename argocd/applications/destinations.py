"""Which cluster a destination means: by server or by name, from the cluster secrets that are known.

Argo CD adds one cluster that has no secret: itself, unless it is switched off or a secret describes it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from argocd import names, reading
from argocd.judging.neighbours import KnownCluster, Neighbours

MISSING = "Destination server missing from app spec"

IN_CLUSTER = KnownCluster(server=names.IN_CLUSTER_SERVER, name=names.IN_CLUSTER_NAME)


@dataclass(frozen=True, slots=True)
class Resolution:
    """A cluster, or what Argo CD says instead."""

    cluster: KnownCluster | None = None
    error: str = ""


def contradiction(destination: Mapping[str, Any]) -> str:
    """What Argo CD says of a destination that has both a name and a server."""
    name, server = reading.text(destination, "name"), reading.text(destination, "server")
    if name and server:
        return f"application destination can't have both name and server defined: {name} {server}"
    return ""


def missing(destination: Mapping[str, Any]) -> bool:
    return not (reading.text(destination, "name") or reading.text(destination, "server"))


def resolve(
    destination: Mapping[str, Any],
    *,
    neighbours: Neighbours,
    in_cluster_enabled: bool = True,
) -> Resolution | None:
    """None where the cluster secrets are not known."""
    if error := contradiction(destination):
        return Resolution(error=error)
    if server := reading.text(destination, "server"):
        return _by_server(server, neighbours=neighbours, in_cluster_enabled=in_cluster_enabled)
    if name := reading.text(destination, "name"):
        return _by_name(name, neighbours=neighbours, in_cluster_enabled=in_cluster_enabled)
    return Resolution(error=MISSING)


def _by_server(server: str, *, neighbours: Neighbours, in_cluster_enabled: bool) -> Resolution | None:
    own = server == names.IN_CLUSTER_SERVER
    if own and not in_cluster_enabled:
        return _not_found(server, "is disabled")
    found = neighbours.clusters_by_server(server)
    if found is None:
        return None
    if found:
        return Resolution(cluster=found[0])
    return Resolution(cluster=IN_CLUSTER) if own else _not_found(server, "not found")


def _not_found(server: str, reason: str) -> Resolution:
    cause = f'rpc error: code = NotFound desc = cluster "{server}" {reason}'
    return Resolution(error=f'error getting cluster by server "{server}": {cause}')


def _by_name(name: str, *, neighbours: Neighbours, in_cluster_enabled: bool) -> Resolution | None:
    found = neighbours.clusters_by_name(name)
    if found is None:
        return None
    found = _reachable(found, in_cluster_enabled=in_cluster_enabled)
    if not found and name == names.IN_CLUSTER_NAME and in_cluster_enabled:
        described = neighbours.clusters_by_server(names.IN_CLUSTER_SERVER)
        if described is None:
            return None
        if not described:
            return Resolution(cluster=IN_CLUSTER)
    if not found:
        return Resolution(error=f"there are no clusters with this name: {name}")
    if len(found) > 1:
        servers = " ".join(cluster.server for cluster in found)
        return Resolution(error=f"there are {len(found)} clusters with the same name: [{servers}]")
    return Resolution(cluster=found[0])


def _reachable(clusters: Sequence[KnownCluster], *, in_cluster_enabled: bool) -> Sequence[KnownCluster]:
    if in_cluster_enabled:
        return clusters
    return [cluster for cluster in clusters if cluster.server != names.IN_CLUSTER_SERVER]
