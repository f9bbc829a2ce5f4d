from typing import Any

import pytest

from argocd.applications import permissions
from argocd.applications.destinations import Resolution
from argocd.judging.neighbours import KnownCluster
from argocd.settings.argocd_cm import Settings
from tests.argocd.fake_neighbours import Neighbourhood, Nothing
from tests.argocd.rules.asking import application, ask

GIT = "https://git.example.com/shop.git"
SERVER = "https://east.example.com"
SOURCE = {"repoURL": GIT, "path": "."}
DESTINATION = {"server": SERVER, "namespace": "shop"}
EAST = KnownCluster(server=SERVER, name="east")
OPEN = {"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}]}


def project(spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "shop"}, "spec": spec}


def messages(spec: dict[str, Any], permitted: dict[str, Any]) -> list[str]:
    found = permissions.conditions(
        {"project": "shop", **spec}, project(permitted), neighbours=Neighbourhood(clusters=[EAST])
    )
    assert found is not None
    return [problem.message for problem in found]


def test_what_the_project_permits_has_no_conditions() -> None:
    assert messages({"source": SOURCE, "destination": DESTINATION}, OPEN) == []
    by_name = {"name": "east", "namespace": "shop"}
    assert messages({"source": SOURCE, "destination": by_name}, OPEN) == []


def test_a_forbidden_repository_and_a_forbidden_destination_are_both_told() -> None:
    assert messages({"source": SOURCE, "destination": DESTINATION}, {}) == [
        f"application repo {GIT} is not permitted in project 'shop'",
        (
            f"application destination server '{SERVER}' and namespace 'shop' do not match any of the allowed "
            "destinations in project 'shop'"
        ),
    ]


def test_a_source_that_says_too_little_ends_the_check() -> None:
    sources = [{"repoURL": "https://a", "path": "."}, {"repoURL": "https://b", "chart": "c"}, {}]
    assert messages({"sources": sources}, {}) == [
        "application repo https://a is not permitted in project 'shop'",
        "spec.source.targetRevision is required if the manifest source is a helm chart",
    ]


def test_an_incomplete_hydrator_ends_the_check() -> None:
    assert messages({"sourceHydrator": {"drySource": {"repoURL": GIT}}}, {}) == [
        "spec.sourceHydrator.syncSource.targetBranch is required",
    ]


def test_both_repositories_of_a_hydrator_need_permission() -> None:
    hydrator = {
        "drySource": {"repoURL": "https://dry"},
        "syncSource": {"repoURL": "https://wet", "targetBranch": "live"},
    }
    found = messages({"sourceHydrator": hydrator, "destination": DESTINATION}, OPEN | {"sourceRepos": []})
    assert found == [
        "application repo https://dry is not permitted in project 'shop'",
        "sync source repo https://wet is not permitted in project 'shop'",
    ]


def test_a_destination_that_means_no_cluster_is_told() -> None:
    assert messages({"source": SOURCE}, OPEN) == ["Destination server missing from app spec"]


def test_nothing_is_said_where_the_clusters_are_not_known() -> None:
    spec = {"source": SOURCE, "destination": DESTINATION}
    assert permissions.conditions(spec, project(OPEN), neighbours=Nothing()) is None


def test_a_destination_without_a_cluster_is_not_forbidden() -> None:
    nowhere = Resolution(error="no such cluster")
    found = permissions.forbidden_destination({}, project({}), nowhere, neighbours=Nothing())
    assert list(found) == []


FORBIDDING = (
    "application/repository-forbidden",
    "application/destination-forbidden",
    "application/namespace-forbidden",
)


@pytest.mark.parametrize("rule", FORBIDDING)
def test_a_project_that_is_absent_or_unknown_forbids_nothing(rule: str) -> None:
    one = application({"namespace": "team-a"}, project="shop", source=SOURCE, destination=DESTINATION)
    assert not ask(rule, one, neighbours=Nothing())
    assert not ask(rule, one, neighbours=Neighbourhood(clusters=[EAST]))
    assert ask(rule, one, neighbours=Neighbourhood(projects=[project({})], clusters=[EAST]))


def test_what_belongs_to_the_project_alone_is_permitted() -> None:
    one = application(project="shop", source=SOURCE, destination=DESTINATION)
    known = Neighbourhood(
        projects=[project({})],
        clusters=[KnownCluster(server=SERVER, name="east", project="shop")],
        repositories=[("secret", GIT, "shop")],
    )
    for rule in FORBIDDING:
        assert not ask(rule, one, neighbours=known)


def test_a_destination_is_not_judged_where_clusters_are_unknown() -> None:
    class NoClusters(Neighbourhood):
        def clusters_by_server(self, server: str) -> None:
            return None

    one = application(project="shop", source=SOURCE, destination=DESTINATION)
    known = NoClusters(projects=[project({})])
    assert not ask("application/destination-forbidden", one, neighbours=known)


@pytest.mark.parametrize(
    ("namespace", "enabled", "found"),
    [
        ("shop", None, 0),
        ("shop", (), 1),
        ("shop", ("team-*",), 1),
        ("team-a", ("team-*",), 0),
        ("team-a", ("/^team-[ab]$/",), 0),
        ("argocd", (), 0),
        ("", (), 0),
    ],
)
def test_argo_cd_looks_only_where_it_was_told_to(
    namespace: str, enabled: tuple[str, ...] | None, found: int
) -> None:
    settings = Settings(application_namespaces=enabled)
    one = application({"namespace": namespace})
    assert len(ask("application/namespace-ignored", one, settings=settings)) == found
