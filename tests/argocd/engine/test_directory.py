"""The directory answers as a search through all objects would, after any sequence of changes."""

import base64
import inspect
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argocd import names
from argocd.engine.directory import Directory, Shelf, key_of
from argocd.engine.summaries import summarize, summarize_secret
from argocd.judging.neighbours import Neighbours

MARKER = "s3cr3t-marker"


def secret(called: str, kind: str, /, **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": called,
            "namespace": "argocd",
            "labels": {"argocd.argoproj.io/secret-type": kind},
        },
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in data.items()},
    }


def application(
    name: str, *, project: str = "default", path: str = "a", resources: tuple[str, ...] = ()
) -> dict[str, Any]:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": name, "namespace": "argocd", "managedFields": [1]},
        "spec": {
            "project": project,
            "destination": {"server": "https://kubernetes.default.svc", "namespace": "web"},
            "source": {"repoURL": "https://git.test/r.git", "path": path},
        },
        "status": {
            "history": ["long"],
            "resources": [
                {"group": "apps", "kind": "Deployment", "namespace": "web", "name": resource}
                for resource in resources
            ]
            + [{"kind": "Service", "namespace": "web", "name": "old", "requiresPruning": True}],
        },
    }


def project(name: str, *accounts: str, namespace: str = "argocd") -> dict[str, Any]:
    entries = [
        {"server": names.IN_CLUSTER_SERVER, "namespace": "team-a", "defaultServiceAccount": account}
        for account in accounts
    ]
    return {
        "kind": "AppProject",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"destinationServiceAccounts": entries},
    }


@pytest.fixture
def directory() -> Directory:
    return Directory(argocd_namespace="argocd", known=list(Shelf))


def test_what_is_not_known_is_not_answered() -> None:
    empty = Directory(argocd_namespace="argocd")
    answers = [
        empty.project("a"),
        empty.clusters_by_name("a"),
        empty.clusters_by_server("a"),
        empty.clusters_of_project("a"),
        empty.repositories_of_project("a"),
        empty.repositories_by_url("a", ""),
        empty.application("a", "b"),
        empty.applications_of_project("a"),
        empty.applications_like({}),
        empty.applications_listing("", "a", "b", "c"),
        empty.applications_labelled("a"),
        empty.application_count(),
        empty.secret("a"),
        empty.config_map("a"),
        empty.service_account("a", "b"),
        empty.is_sync_account("a", "b"),
    ]
    assert answers == [None] * 16


def test_a_shelf_can_become_unknown_again(directory: Directory) -> None:
    assert directory.project("a") == {}
    directory.know(Shelf.PROJECTS, known=False)
    assert directory.project("a") is None


def test_projects_outside_argo_cds_namespace_are_nobodys_neighbours(directory: Directory) -> None:
    directory.put_project(project("a", namespace="elsewhere"))
    directory.drop_project(project("a", namespace="elsewhere"))
    assert directory.project("a") == {}


def test_a_projects_accounts_are_known_while_it_exists(directory: Directory) -> None:
    directory.put_project(project("one", "deployer", "ops:shared"))
    assert directory.is_sync_account("team-a", "deployer")
    assert directory.is_sync_account("ops", "shared")
    directory.put_project(project("one", "other"))
    assert not directory.is_sync_account("team-a", "deployer")
    directory.drop_project(project("one"))
    assert not directory.is_sync_account("team-a", "other")
    assert directory.project("one") == {}


def test_applications_are_found_by_project_likeness_and_resource(directory: Directory) -> None:
    directory.put_application(application("one", resources=("x", "y")))
    directory.put_application(summarize(application("two", resources=("y",))))
    directory.put_application(application("three", project="other", path="b"))
    assert _names(directory.applications_of_project("default")) == ["one", "two"]
    assert _names(directory.applications_like(application("one"))) == ["two"]
    assert _names(directory.applications_listing("apps", "Deployment", "web", "y")) == ["one", "two"]
    assert directory.applications_listing("", "Service", "web", "old") == []
    assert directory.application_count() == 3
    found = directory.application("argocd", "one")
    assert found is not None
    assert "status" not in found
    assert "managedFields" not in found["metadata"]
    directory.drop_application(application("one"))
    assert _names(directory.applications_listing("apps", "Deployment", "web", "y")) == ["two"]
    assert directory.application("argocd", "one") == {}


def test_clusters_and_repositories_are_found_and_their_credentials_never_kept(directory: Directory) -> None:
    directory.put_secret(
        secret(
            "c", "cluster", server="https://c.test/", name="c", project="p", namespaces="a, b", config=MARKER
        )
    )
    directory.put_secret(
        summarize_secret(
            secret("r", "repository", url="https://Git.test/R.git", project="p", password=MARKER)
        )
    )
    directory.put_secret(secret("creds", "repo-creds", url="https://git.test", password=MARKER))
    [cluster] = directory.clusters_by_server("https://c.test") or []
    assert (cluster.name, cluster.project, cluster.namespaces, cluster.secret) == ("c", "p", ("a", "b"), "c")
    assert directory.clusters_by_name("c") == directory.clusters_of_project("p") == [cluster]
    assert directory.repositories_of_project("p") == ["https://Git.test/R.git"]
    assert directory.repositories_by_url("https://git.test/r", "p") == ["r"]
    assert MARKER not in repr(vars(directory))
    assert base64.b64encode(MARKER.encode()).decode() not in repr(vars(directory))
    for name in ("c", "r"):
        directory.drop_secret(secret(name, "cluster"))
    assert directory.clusters_by_name("c") == []
    assert directory.repositories_of_project("p") == []


def test_a_secret_elsewhere_is_no_neighbour(directory: Directory) -> None:
    elsewhere = secret("c", "cluster", server="https://c.test", name="c")
    elsewhere["metadata"]["namespace"] = "team"
    directory.put_secret(elsewhere)
    assert directory.clusters_by_name("c") == []


def test_names_of_secrets_and_config_maps_come_and_go_in_argo_cds_namespace(directory: Directory) -> None:
    here, elsewhere = ({"metadata": {"namespace": place, "name": "a"}} for place in ("argocd", "team"))
    for put, drop, known in (
        (directory.put_secret_name, directory.drop_secret_name, directory.secret),
        (directory.put_config_map_name, directory.drop_config_map_name, directory.config_map),
    ):
        put(elsewhere)
        assert known("a") is False
        put(here)
        drop(elsewhere)
        assert known("a") is True
        drop(here)
        assert known("a") is False


def test_accounts_come_and_go(directory: Directory) -> None:
    account = {"metadata": {"namespace": "a", "name": "b"}}
    directory.put_account(account)
    assert directory.service_account("a", "b") is True
    directory.drop_account(account)
    assert directory.service_account("a", "b") is False


def test_applications_are_found_by_their_name_cut_to_a_label(directory: Directory) -> None:
    long = "n" * 70
    directory.put_application(application(long))
    directory.put_application(application("é" * 70))
    assert _names(directory.applications_labelled("n" * 63)) == [long]


def test_a_summary_keeps_annotations_but_not_the_last_applied_copy() -> None:
    thing = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {
            "name": "a",
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "kept": "yes"},
        },
        "spec": {"a": 1},
        "status": {"b": 2},
    }
    assert "labels" not in summarize({"kind": "Secret"})["metadata"]
    assert summarize({"kind": "AppProject"}) == {"kind": "AppProject", "metadata": {}}
    assert summarize(thing) == {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": "a", "annotations": {"kept": "yes"}},
        "spec": {"a": 1},
    }


@given(
    st.lists(
        st.tuples(
            st.booleans(),
            st.sampled_from(["a", "b", "c"]),
            st.sampled_from(["p", "q"]),
            st.sampled_from(["x", "y"]),
            st.lists(st.sampled_from(["r", "s"]), max_size=3),
        ),
        max_size=30,
    )
)
def test_any_sequence_of_changes_leaves_it_equal_to_a_search(
    changes: list[tuple[bool, str, str, str, list[str]]],
) -> None:
    directory, held = Directory(argocd_namespace="argocd", known=list(Shelf)), {}
    for stays, name, owner, path, resources in changes:
        made = application(name, project=owner, path=path, resources=tuple(resources))
        if stays:
            directory.put_application(made)
            held[name] = made
        else:
            directory.drop_application(made)
            held.pop(name, None)
    for owner in ("p", "q"):
        expected = sorted(name for name, made in held.items() if made["spec"]["project"] == owner)
        assert _names(directory.applications_of_project(owner)) == expected
    for resource in ("r", "s"):
        expected = sorted(
            name
            for name, made in held.items()
            if any(listed["name"] == resource for listed in made["status"]["resources"])
        )
        assert _names(directory.applications_listing("apps", "Deployment", "web", resource)) == expected


def _names(found: Any) -> list[str]:
    return sorted(key_of(thing)[1] for thing in found)


def test_nothing_is_known_where_nothing_was_seen() -> None:
    unknown: Neighbours = Directory(argocd_namespace="argocd")
    questions = [name for name in vars(Neighbours) if not name.startswith("_")]
    assert len(questions) > 10
    for name in questions:
        question = getattr(unknown, name)
        arguments = [""] * len(inspect.signature(question).parameters)
        assert question(*arguments) is None, name


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ({"path": "a"}, {"path": "a"}, True),
        (
            {"path": "a", "kustomize": {"namePrefix": "x-"}},
            {"path": "a", "kustomize": {"namePrefix": "y-"}},
            False,
        ),
        ({"path": "a", "directory": {"include": "x"}}, {"path": "a", "directory": {"include": "y"}}, False),
        ({"path": "a", "plugin": {"name": "x"}}, {"path": "a", "plugin": {"name": "y"}}, False),
        ({"chart": "a"}, {"chart": "a"}, False),
        ({"chart": "a", "helm": {"releaseName": "r"}}, {"chart": "a", "helm": {"releaseName": "r"}}, True),
        (
            {"path": "a", "helm": {"releaseName": "r", "values": "x"}},
            {"path": "a", "helm": {"releaseName": "r", "values": "y"}},
            False,
        ),
        ({"path": "a", "helm": {"parameters": [1e400, {1: 2}]}}, {"path": "b"}, False),
    ],
)
def test_applications_are_alike_if_their_whole_sources_are(
    one: dict[str, Any], other: dict[str, Any], *, alike: bool
) -> None:
    directory = Directory(argocd_namespace="argocd", known=[Shelf.APPLICATIONS])
    for name, source in (("one", one), ("other", other)):
        directory.put_application(
            {"metadata": {"name": name, "namespace": "argocd"}, "spec": {"source": source}}
        )
    asked = {"metadata": {"name": "one", "namespace": "argocd"}, "spec": {"source": one}}
    assert bool(directory.applications_like(asked)) is alike


def test_hydrated_applications_are_compared_by_what_is_hydrated() -> None:
    directory = Directory(argocd_namespace="argocd", known=[Shelf.APPLICATIONS])

    def hydrated(name: str, path: str) -> dict[str, Any]:
        spec = {"sourceHydrator": {"drySource": {"repoURL": "https://git.example.com/a", "path": path}}}
        return {"metadata": {"name": name, "namespace": "argocd"}, "spec": spec}

    for name, path in (("one", "a"), ("two", "a"), ("three", "b")):
        directory.put_application(hydrated(name, path))
    assert _names(directory.applications_like(hydrated("one", "a"))) == ["two"]
