from typing import Any

import pytest

from argocd import names
from argocd.applications import destinations
from argocd.applications.destinations import Resolution
from argocd.judging.neighbours import KnownCluster
from tests.argocd.fake_neighbours import Neighbourhood, Nothing

EAST = KnownCluster(server="https://east.example.com", name="east")
WEST = KnownCluster(server="https://west.example.com", name="west")


@pytest.fixture
def fleet() -> Neighbourhood:
    return Neighbourhood(clusters=[EAST, WEST])


def test_a_server_is_found_by_its_address(fleet: Neighbourhood) -> None:
    destination = {"server": EAST.server, "namespace": "shop"}
    assert destinations.resolve(destination, neighbours=fleet) == Resolution(cluster=EAST)


def test_a_cluster_is_found_by_its_name(fleet: Neighbourhood) -> None:
    assert destinations.resolve({"name": "west"}, neighbours=fleet) == Resolution(cluster=WEST)


def test_a_trailing_slash_makes_another_server(fleet: Neighbourhood) -> None:
    found = destinations.resolve({"server": EAST.server + "/"}, neighbours=fleet)
    assert found is not None
    assert found.error == (
        'error getting cluster by server "https://east.example.com/": '
        'rpc error: code = NotFound desc = cluster "https://east.example.com/" not found'
    )


@pytest.mark.parametrize(
    ("destination", "error"),
    [
        ({}, "Destination server missing from app spec"),
        ({"name": 7, "server": None}, "Destination server missing from app spec"),
        (
            {"name": "east", "server": "https://x"},
            "application destination can't have both name and server defined: east https://x",
        ),
        ({"name": "north"}, "there are no clusters with this name: north"),
    ],
)
def test_what_names_no_cluster_is_told_in_the_words_of_argo_cd(
    fleet: Neighbourhood, destination: dict[str, Any], error: str
) -> None:
    assert destinations.resolve(destination, neighbours=fleet) == Resolution(error=error)
    assert destinations.missing(destination) == (error == destinations.MISSING)


def test_two_clusters_with_one_name_are_both_told() -> None:
    twin = KnownCluster(server="https://twin.example.com", name="east")
    found = destinations.resolve({"name": "east"}, neighbours=Neighbourhood(clusters=[EAST, twin]))
    assert found == Resolution(
        error="there are 2 clusters with the same name: [https://east.example.com https://twin.example.com]",
    )


@pytest.mark.parametrize("destination", [{"name": "in-cluster"}, {"server": names.IN_CLUSTER_SERVER}])
def test_its_own_cluster_needs_no_secret(fleet: Neighbourhood, destination: dict[str, Any]) -> None:
    found = destinations.resolve(destination, neighbours=fleet)
    assert found == Resolution(cluster=destinations.IN_CLUSTER)


def test_a_secret_renames_its_own_cluster() -> None:
    home = KnownCluster(server=names.IN_CLUSTER_SERVER, name="home")
    known = Neighbourhood(clusters=[home])
    assert destinations.resolve({"server": home.server}, neighbours=known) == Resolution(cluster=home)
    assert destinations.resolve({"name": "home"}, neighbours=known) == Resolution(cluster=home)
    gone = destinations.resolve({"name": "in-cluster"}, neighbours=known)
    assert gone == Resolution(error="there are no clusters with this name: in-cluster")


def test_its_own_cluster_can_be_switched_off() -> None:
    known = Neighbourhood(clusters=[KnownCluster(server=names.IN_CLUSTER_SERVER, name="home")])
    by_server = destinations.resolve(
        {"server": names.IN_CLUSTER_SERVER},
        neighbours=known,
        in_cluster_enabled=False,
    )
    assert by_server is not None
    assert by_server.error.endswith('cluster "https://kubernetes.default.svc" is disabled')
    for name in ("home", "in-cluster"):
        found = destinations.resolve({"name": name}, neighbours=known, in_cluster_enabled=False)
        assert found == Resolution(error=f"there are no clusters with this name: {name}")


def test_nothing_is_said_where_the_clusters_are_not_known() -> None:
    assert destinations.resolve({"server": EAST.server}, neighbours=Nothing()) is None
    assert destinations.resolve({"name": "east"}, neighbours=Nothing()) is None


def test_nothing_is_said_of_its_own_name_where_only_names_are_known() -> None:
    class NamesOnly(Nothing):
        def clusters_by_name(self, name: str) -> list[KnownCluster]:
            return []

    assert destinations.resolve({"name": "in-cluster"}, neighbours=NamesOnly()) is None
