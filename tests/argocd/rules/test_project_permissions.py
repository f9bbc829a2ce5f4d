"""What projects permit unawares, and sync windows that do not do what they say."""

from typing import Any

import pytest

from argocd.judging.configuration import ArgoCD, Configuration
from tests.argocd.rules.asking import ask, paths, project

SERVER = "https://kubernetes.default.svc"


def found(rule: str, **spec: Any) -> list[tuple[str, str]]:
    return [(one.path, one.message) for one in ask(rule, project(**spec))]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"sourceRepos": ["!a", "!b"]}, ["sourceRepos"]),
        ({"sourceRepos": ["!a", "b"]}, []),
        ({"destinations": [{"server": "!a", "namespace": "b"}]}, ["destinations"]),
        ({"destinations": [{"server": "*", "namespace": "!b"}, {"server": "*", "namespace": "*"}]}, []),
        ({"sourceRepos": [], "destinations": []}, []),
    ],
)
def test_a_list_of_nothing_but_denials_is_told(spec: dict[str, Any], expected: list[str]) -> None:
    assert paths("project/only-denials", **spec) == expected


@pytest.mark.parametrize(
    ("entry", "unreadable"),
    [
        ("ssh://git@h:org/repo", True),
        ("!ssh://git@h:org/repo", True),
        ("", True),
        ("https://git.example.com/{a,b}/*", True),
        ("https://git.example.com/ü/*", True),
        ("https://git.example.com/ü", False),
        ("https://git.example.com/*", False),
        ("*", False),
        (3, False),
    ],
)
def test_repositories_that_argocd_cannot_read(entry: Any, *, unreadable: bool) -> None:
    assert bool(found("project/source-repo-unreadable", sourceRepos=[entry])) is unreadable


@pytest.mark.parametrize(
    ("server", "wrong"),
    [
        ("in-cluster", True),
        ("!in-cluster", True),
        ("https://eu/", True),
        ("https://eu", False),
        ("https://*/", False),
        ("*", False),
        ("", False),
    ],
)
def test_a_server_that_is_no_address_is_told(server: str, *, wrong: bool) -> None:
    told = paths("project/destination-server", destinations=[{"server": server, "namespace": "a"}])
    assert told == (["destinations[0].server"] if wrong else [])


def test_destinations_that_lack_something_are_told() -> None:
    entries = [{}, {"server": "*"}, {"name": "eu", "namespace": "a"}, {"namespace": "a"}, "x"]
    assert paths("project/destination-incomplete", destinations=entries) == [
        "destinations[0]",
        "destinations[1]",
        "destinations[3]",
    ]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"destinations": [{"server": "https://eu", "namespace": "*"}]}, []),
        (
            {
                "destinations": [
                    {"server": "https://eu", "namespace": "*"},
                    {"server": "*", "namespace": "arg*"},
                ]
            },
            ["destinations[1]"],
        ),
        ({"destinations": [{"name": "in-cluster", "namespace": "argocd"}]}, ["destinations[0]"]),
        ({"destinations": [{"name": "in-*", "namespace": "argocd"}]}, ["destinations[0]"]),
        ({"destinations": [{"server": SERVER, "namespace": "shop"}]}, []),
        ({"destinations": [{"server": "*", "namespace": "*"}, {"server": "*", "namespace": "!argocd"}]}, []),
        ({"destinations": [{"server": "*", "namespace": "*"}], "permitOnlyProjectScopedClusters": True}, []),
        ({"destinations": []}, []),
    ],
)
def test_ways_to_argocds_own_namespace(spec: dict[str, Any], expected: list[str]) -> None:
    assert paths("project/destination-control-plane", **spec) == expected


def test_argocds_namespace_is_the_configured_one() -> None:
    thing = project(destinations=[{"server": SERVER, "namespace": "gitops"}], sourceNamespaces=["gitops"])
    configuration = Configuration(argocd=ArgoCD(namespace="gitops"))
    for rule in ("project/destination-control-plane", "project/source-namespace-control-plane"):
        assert ask(rule, thing, configuration=configuration)
        assert not ask(rule, thing)


@pytest.mark.parametrize(
    ("name", "spec", "privilege"),
    [
        ("default", {}, "it is the default project"),
        (
            "shop",
            {"destinations": [{"server": "*", "namespace": "*"}]},
            "it may deploy to Argo CD's own namespace",
        ),
        (
            "shop",
            {"clusterResourceWhitelist": [{"group": "*", "kind": "*"}]},
            "it permits all kinds of cluster-wide objects",
        ),
        ("shop", {"clusterResourceWhitelist": [{"group": "*", "kind": "*", "name": "a"}]}, ""),
        ("shop", {}, ""),
    ],
)
def test_a_powerful_project_is_not_open_to_all(name: str, spec: dict[str, Any], privilege: str) -> None:
    told = ask(
        "project/source-namespace-wildcard",
        project({"name": name}, sourceNamespaces=["a", "*", None], **spec),
    )
    assert [one.path for one in told] == (["spec.sourceNamespaces[1]"] if privilege else [])
    assert all(one.message.endswith(privilege) for one in told)


def test_a_project_elsewhere_is_ignored_by_argocd() -> None:
    assert ask("project/namespace", project({"namespace": "shop"}))
    assert not ask("project/namespace", project({"namespace": ""}))


def test_signature_keys_are_ignored_beside_source_integrity() -> None:
    assert not found("project/signature-keys", signatureKeys=[{"keyID": "a"}])
    assert not found("project/signature-keys", signatureKeys=[{"keyID": "a"}], sourceIntegrity={})
    assert found("project/signature-keys", signatureKeys=[{"keyID": "a"}], sourceIntegrity={"git": {}})


def window(**change: Any) -> dict[str, Any]:
    return {"kind": "deny", "schedule": "0 22 * * *", "duration": "1h", "applications": ["*"], **change}


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({}, ""),
        ({"timeZone": "Europe/Berlin"}, ""),
        ({"timeZone": "Berlin"}, "sync-window-time-zone"),
        ({"timeZone": "x" * 400}, "sync-window-time-zone"),
        ({"timeZone": "UTC", "schedule": "TZ=UTC 0 22 * * *"}, "sync-window-time-zone"),
        ({"schedule": "TZ=UTC 0 22 * * *"}, ""),
        ({"duration": "0"}, "sync-window-never-open"),
        ({"duration": "-1h"}, "sync-window-never-open"),
        ({"duration": "24h"}, "sync-window-always-open"),
        ({"schedule": "0 0 31 2 *"}, "sync-window-always-open"),
        ({"schedule": "0 22 * * 5", "duration": "48h"}, ""),
        ({"schedule": "x"}, ""),
        ({"duration": "x"}, ""),
    ],
)
def test_a_window_of_no_known_zone_or_never_or_always_open_is_told(change: dict[str, Any], rule: str) -> None:
    rules = ("sync-window-time-zone", "sync-window-never-open", "sync-window-always-open")
    told = {one for one in rules if found(f"project/{one}", syncWindows=["x", window(**change)])}
    assert told == ({rule} if rule else set())
