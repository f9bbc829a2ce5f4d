from typing import Any

import pytest

from tests.argocd.rules.asking import application, ask

GIT = {"repoURL": "https://git.example.com/shop.git", "path": "deploy"}


def paths(rule: str, **spec: Any) -> list[str]:
    return [finding.path for finding in ask(rule, application(**spec))]


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"sources": [GIT | {"helm": {"valueFiles": ["$values/a.yaml"]}}, {"ref": "values"}]}, []),
        (
            {"sources": [GIT | {"helm": {"valueFiles": ["a.yaml", "$values/a.yaml"]}}, {"ref": "other"}]},
            ["spec.sources[0].helm.valueFiles[1]"],
        ),
        (
            {"sources": [GIT | {"helm": {"fileParameters": [{"name": "a", "path": "$values/a"}]}}]},
            ["spec.sources[0].helm.fileParameters[0].path"],
        ),
        ({"source": GIT | {"helm": {"valueFiles": ["$values/a.yaml"]}}}, ["spec.source.helm.valueFiles[0]"]),
        ({"source": GIT | {"helm": {"valueFiles": ["$ARGOCD_APP_NAME/a.yaml"]}}}, []),
        (
            {"sources": [GIT | {"helm": {"valueFiles": ["$ARGOCD_APP_NAME/a.yaml"]}}]},
            ["spec.sources[0].helm.valueFiles[0]"],
        ),
        ({"source": GIT | {"helm": {"valueFiles": ["values/$a/b.yaml", 3]}}}, []),
    ],
)
def test_a_values_file_refers_to_a_source_that_is_there(spec: dict[str, Any], found: list[str]) -> None:
    assert paths("application/values-ref", **spec) == found


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("deploy", 0),
        (".", 0),
        ("a/../b", 0),
        ("..a", 0),
        ("", 0),
        ("/", 1),
        ("/deploy", 1),
        ("../deploy", 1),
        ("a/../../b", 1),
    ],
)
def test_a_path_stays_in_its_repository(path: str, found: int) -> None:
    assert len(paths("application/source-path", source=GIT | {"path": path})) == found
    hydrated = {"sourceHydrator": {"drySource": {"path": path}}}
    assert len(paths("application/source-path", **hydrated)) == found


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("https://git.example.com/shop.git", ""),
        ("git@git.example.com:shop.git", ""),
        ("ssh://git@git.example.com/shop.git", ""),
        ("oci://registry.example.com/charts/shop", ""),
        ("git.example.com:shop/shop.git", ""),
        ("/srv/git/shop", ""),
        ("file:///srv/git/shop", ""),
        ("https://git.example.com:8443/shop.git", ""),
        ("REPOSITORY", ""),
        ("${REPOSITORY}/shop.git", ""),
        ("git.example.com/shop.git", "no scheme"),
        ("./shop", "no scheme"),
        ("../shop", "no scheme"),
        ("https://git.example.com:port/shop.git", "cannot be parsed"),
        ("ssh://git@git.example.com:shop/shop.git", "cannot be parsed"),
        ("HTTPS://git.example.com/shop.git", ""),
        ("", ""),
        ("htps://git.example.com/shop.git", "cannot fetch over htps"),
        ("https://git.example.com/my shop.git", "no blanks"),
        ("https://git.example.com/shop.git\n", "no blanks"),
        ("https://", "nothing behind the scheme"),
    ],
)
def test_an_address_can_be_fetched_from(url: str, part: str) -> None:
    found = [
        finding.message for finding in ask("application/repo-url", application(source=GIT | {"repoURL": url}))
    ]
    assert [part in message for message in found] == ([True] if part else [])


def test_a_charts_registry_has_no_scheme() -> None:
    registry = {"repoURL": "registry.example.com/charts", "targetRevision": "1.2.3"}
    assert not paths("application/repo-url", source=registry | {"chart": "shop"})
    assert paths("application/repo-url", source=registry | {"path": "shop"}) == ["spec.source.repoURL"]
    assert paths("application/repo-url", sourceHydrator={"drySource": registry}) == [
        "spec.sourceHydrator.drySource.repoURL"
    ]


@pytest.mark.parametrize(
    ("revision", "found"),
    [
        ("main", 0),
        ("", 0),
        ("v1.*", 0),
        (">= 1.2 < 2", 0),
        (">=1.2, <2 || 4.x", 0),
        ("1.2 - 1.4.5", 0),
        ("v1.2.3 ", 0),
        ("main ", 1),
        (" main", 1),
        ("main\n", 1),
        ("my branch", 1),
        ("release 1.2", 1),
    ],
)
def test_a_revision_of_git_has_no_blanks_unless_it_is_a_range(revision: str, found: int) -> None:
    rule, given = "application/source-revision", {"targetRevision": revision}
    assert len(paths(rule, source=GIT | given)) == found
    assert len(paths(rule, sourceHydrator={"drySource": GIT | given})) == found
    assert not paths(rule, source={"chart": "shop", "repoURL": "https://charts.example.com", **given})


@pytest.mark.parametrize(
    ("namespace", "found"),
    [("shop", 0), ("", 0), ("a" * 63, 0), ("a" * 64, 1), ("Shop", 1), ("a.b", 1), ("-a", 1)],
)
def test_a_namespace_has_a_name_that_kubernetes_takes(namespace: str, found: int) -> None:
    assert len(paths("application/destination-namespace", destination={"namespace": namespace})) == found


def test_in_cluster_is_a_name_and_no_server() -> None:
    rule = "application/destination-server"
    assert paths(rule, destination={"server": "in-cluster"}) == ["spec.destination.server"]
    assert not paths(rule, destination={"name": "in-cluster"})
    assert not paths(rule, destination={"server": "https://kubernetes.default.svc"})


@pytest.mark.parametrize(
    ("url", "revision", "found"),
    [
        ("https://charts.example.com", "HEAD", 1),
        ("https://charts.example.com", "main", 1),
        ("https://charts.example.com", "refs/heads/a", 1),
        ("https://charts.example.com", "1.2.*", 0),
        ("https://charts.example.com", "*", 0),
        ("registry.example.com/charts", "main", 0),
        ("registry.example.com/charts", "HEAD", 1),
        ("https://charts.example.com", ">=1.0 <", 1),
        ("https://charts.example.com", ">= 1.0, <2", 0),
        ("https://charts.example.com", "1.2 - 1.4.5 || ^2.x || ~> 3.1", 0),
        ("https://charts.example.com", "v1.2.3-rc.1+build", 0),
        ("https://charts.example.com", "^1.2 ||", 1),
        ("registry.example.com/charts", "newest *", 1),
        ("registry.example.com/charts", "newest", 0),
    ],
)
def test_a_chart_has_a_version(url: str, revision: str, found: int) -> None:
    source = {"repoURL": url, "chart": "shop", "targetRevision": revision}
    assert len(paths("application/chart-version", source=source)) == found
    assert not paths("application/chart-version", source=source | {"chart": ""})


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        ({"jsonPointers": ["/spec/replicas"]}, []),
        ({"jqPathExpressions": [".spec.replicas"]}, []),
        ({"managedFieldsManagers": ["hpa"]}, []),
        ({}, [""]),
        ({"jsonPointers": []}, [""]),
        ({"jsonPointers": ["spec/replicas"]}, [".jsonPointers[0]"]),
        ({"jsonPointers": ["/spec/a", "/spec/containers/*/image"]}, [".jsonPointers[1]"]),
        ({"group": "apps/v1", "jsonPointers": ["/spec"]}, [".group"]),
        ({"jsonPointers": [3]}, []),
    ],
)
def test_differences_that_are_ignored_can_be_found(entry: dict[str, Any], found: list[str]) -> None:
    whole = {"group": "apps", "kind": "Deployment"} | entry
    expected = [f"spec.ignoreDifferences[0]{where}" for where in found]
    assert paths("application/ignore-differences", ignoreDifferences=[whole]) == expected
