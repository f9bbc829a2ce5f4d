"""A control plane, its standby and a workload cluster, side by side."""

from scripts.cluster.controlplane import Cluster
from scripts.cluster.testing import Clusters


def identity_of(cluster: Cluster) -> str:
    uid: str = cluster.request("GET", "/api/v1/namespaces/kube-system")["metadata"]["uid"]
    return uid


def test_three_clusters_run_at_once_and_know_nothing_of_each_other(clusters: Clusters) -> None:
    three = [clusters.control_plane, clusters.standby, clusters.workload]
    assert len({identity_of(each) for each in three}) == 3

    name = clusters.control_plane.create_namespace()
    try:
        there = [
            name in {item["metadata"]["name"] for item in each.request("GET", "/api/v1/namespaces")["items"]}
            for each in three
        ]
    finally:
        clusters.control_plane.drop_namespace(name)
    assert there == [True, False, False]


def test_a_shared_cluster_is_the_same_one_each_time(clusters: Clusters, cluster: Cluster) -> None:
    assert clusters.control_plane is cluster
