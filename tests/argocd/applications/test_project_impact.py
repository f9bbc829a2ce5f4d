"""What becomes of the applications of a project that is changed or deleted."""

from collections.abc import Mapping
from typing import Any

import pytest

from argocd.applications import project_impact
from argocd.judging.neighbours import KnownCluster

EU = KnownCluster(server="https://eu", name="eu")


def application(name: str, *, url: str = "https://git/a", namespace: str = "shop", at: str = "argocd") -> Any:
    return {
        "metadata": {"name": name, "namespace": at},
        "spec": {"source": {"repoURL": url}, "destination": {"name": "eu", "namespace": namespace}},
    }


def impact(old: Mapping[str, Any], new: Mapping[str, Any], *applications: Any) -> project_impact.Impact:
    return project_impact.impact_of(
        old={"spec": old},
        new={"spec": new},
        applications=applications,
        resolve=lambda destination: EU if destination.get("name") == "eu" else None,
        control_plane="argocd",
    )


WIDE = {
    "sourceRepos": ["*"],
    "destinations": [{"name": "*", "namespace": "*"}],
    "sourceNamespaces": ["team-*"],
}


def test_a_change_that_takes_nothing_away_has_no_impact() -> None:
    found = impact(WIDE, WIDE, application("a"), application("b", at="team-1"))
    assert found.message == ""
    assert found.applications == []


def test_what_is_taken_away_is_counted_in_argocds_words() -> None:
    narrow = {"sourceRepos": ["https://git/b"], "destinations": [{"name": "eu", "namespace": "tools"}]}
    found = impact(
        WIDE,
        narrow,
        application("a"),
        application("b", url="https://git/b"),
        application("c", url="https://git/b", namespace="tools", at="team-1"),
    )
    assert found.sources == ("a",)
    assert found.destinations == ("a", "b")
    assert found.namespaces == ("c",)
    assert found.applications == ["a", "b", "c"]
    assert found.message == (
        "as a result of project update 1 applications source became invalid and "
        "2 applications destination became invalid and 1 applications namespace became invalid"
    )


def test_what_was_wrong_before_is_not_counted() -> None:
    nothing: dict[str, Any] = {"sourceRepos": [], "destinations": []}
    assert not impact(nothing, nothing, application("a")).message
    assert not impact(nothing, WIDE, application("a")).message


def test_an_application_whose_cluster_nobody_knows_is_left_out() -> None:
    lost = {**application("a"), "spec": {"destination": {"name": "us"}}}
    assert not impact(WIDE, {**WIDE, "destinations": []}, lost).destinations


@pytest.mark.parametrize(
    ("project", "applications", "problem"),
    [
        ("shop", 0, ""),
        ("shop", 2, "project is referenced by 2 applications"),
        ("default", 0, "name 'default' is reserved and cannot be deleted"),
    ],
)
def test_a_project_in_use_and_the_default_one_cannot_be_deleted(
    project: str, applications: int, problem: str
) -> None:
    assert project_impact.deletion_problem(project, applications=applications) == problem
