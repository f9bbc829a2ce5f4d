"""What a project permits."""

from typing import Any

import pytest

from argocd.globs import Verdict
from argocd.judging.neighbours import KnownCluster
from argocd.projects import permissions
from argocd.settings.argocd_cm import GlobalProject, Settings
from tests.argocd.fake_neighbours import Neighbourhood, Nothing

IN_CLUSTER = "https://kubernetes.default.svc"


def project(name: str = "shop", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "argocd"}, "spec": spec}


@pytest.mark.parametrize(
    ("entries", "url", "verdict"),
    [
        (["*"], "https://git.example.com/shop", "yes"),
        (["*"], "", "yes"),
        ([], "https://git.example.com/shop", "no"),
        (["https://Git.example.com/shop.git"], "https://git.example.com/Shop", "yes"),
        (["https://git.example.com/*"], "https://git.example.com/a/b", "no"),
        (["https://git.example.com/**"], "https://git.example.com/a/b", "yes"),
        (["https://git.example.com/shop/"], "https://git.example.com/shop", "no"),
        (["git@h:a/*"], "ssh://git@h/a/b", "yes"),
        (["!https://git.example.com/*"], "https://git.example.com/a", "no"),
        (["!https://git.example.com/*"], "https://other.example.com/a", "yes"),
        (["*", "!https://git.example.com/*"], "https://git.example.com/a", "no"),
        (["ssh://git@a:b/c"], "ssh://git@evil:x/y", "yes"),
        (["![a"], "https://git.example.com/a", "yes"),
        ([None, 3, "*"], "https://git.example.com/a", "yes"),
    ],
)
def test_a_repository_is_permitted_by_an_entry_and_no_denial(
    entries: list[Any], url: str, verdict: str
) -> None:
    assert permissions.source_permitted(project(sourceRepos=entries), url) is Verdict(verdict)


def test_a_repository_pattern_can_make_argocd_panic_or_hang() -> None:
    assert (
        permissions.source_permitted(project(sourceRepos=["https://h/{a*,a}"]), "https://h/a") is Verdict.NO
    )
    assert permissions.source_permitted(project(sourceRepos=["x:{a*,a}"]), "x:a") is Verdict.PANIC
    assert permissions.source_permitted(project(sourceRepos=["?*a" * 16]), "a" * 239 + "b") is Verdict.HANG


@pytest.mark.parametrize(
    ("entries", "asked", "verdict"),
    [
        ([{"server": IN_CLUSTER, "namespace": "shop"}], {}, "yes"),
        ([{"server": "https://other", "namespace": "shop"}], {}, "no"),
        ([{"name": "in-*", "namespace": "shop"}], {}, "yes"),
        ([{"name": "in-*", "namespace": "shop"}], {"name": ""}, "no"),
        ([{"server": "*", "namespace": "*"}], {"server": "", "name": ""}, "no"),
        ([{"server": "*"}], {}, "no"),
        ([{"server": "*"}], {"namespace": ""}, "yes"),
        ([{"server": "*", "namespace": "*"}, {"server": "*", "namespace": "!shop"}], {}, "no"),
        ([{"server": "*", "namespace": "*"}, {"server": f"!{IN_CLUSTER}", "namespace": "shop"}], {}, "no"),
        ([{"server": "*", "namespace": "*"}, {"server": f"!{IN_CLUSTER}", "namespace": "x"}], {}, "yes"),
        ([{"server": "*", "namespace": "*"}, {"name": "!in-cluster", "namespace": "x"}], {}, "no"),
        ([{"server": "*", "namespace": "*"}, {"name": "x", "namespace": "!shop"}], {}, "yes"),
        ([{"server": "!x", "namespace": "!y"}], {}, "yes"),
        ([{"server": "*", "namespace": "![a"}], {}, "yes"),
        ([{"server": "*", "namespace": "{shop*,shop}"}], {}, "panic"),
        (["x", None], {}, "no"),
    ],
)
def test_a_destination_is_permitted_by_an_entry_and_no_denial(
    entries: list[Any], asked: dict[str, str], verdict: str
) -> None:
    about: dict[str, Any] = {"server": IN_CLUSTER, "name": "in-cluster", "namespace": "shop", **asked}
    assert permissions.destination_permitted(project(destinations=entries), **about) is Verdict(verdict)


@pytest.mark.parametrize(
    ("clusters", "verdict"),
    [
        ([], "no"),
        ([KnownCluster(server="https://other", name="other")], "no"),
        ([KnownCluster(server=IN_CLUSTER, name="other")], "yes"),
        ([KnownCluster(server="https://other", name="in-cluster")], "yes"),
        (None, "unknown"),
    ],
)
def test_a_project_may_be_held_to_its_own_clusters(clusters: list[KnownCluster] | None, verdict: str) -> None:
    held = project(permitOnlyProjectScopedClusters=True, destinations=[{"server": "*", "namespace": "*"}])
    asked = {"server": IN_CLUSTER, "name": "in-cluster", "namespace": "shop"}
    assert permissions.destination_permitted(held, **asked, project_clusters=clusters) is Verdict(verdict)


@pytest.mark.parametrize(
    ("spec", "asked", "permitted"),
    [
        ({}, {"kind": "ConfigMap", "namespaced": True}, True),
        ({"namespaceResourceWhitelist": []}, {"kind": "ConfigMap", "namespaced": True}, False),
        (
            {"namespaceResourceWhitelist": [{"group": "", "kind": "Conf*"}]},
            {"kind": "ConfigMap", "namespaced": True},
            True,
        ),
        (
            {"namespaceResourceBlacklist": [{"group": "*", "kind": "*"}]},
            {"kind": "ConfigMap", "namespaced": True},
            False,
        ),
        (
            {"namespaceResourceBlacklist": [{"group": "apps", "kind": "*"}]},
            {"kind": "ConfigMap", "namespaced": True},
            True,
        ),
        ({}, {"kind": "Namespace", "namespaced": False}, False),
        (
            {"clusterResourceWhitelist": [{"group": "", "kind": "Namespace"}]},
            {"kind": "Namespace", "namespaced": False},
            True,
        ),
        (
            {"clusterResourceWhitelist": [{"group": "", "kind": "Namespace", "name": "shop-*"}]},
            {"kind": "Namespace", "name": "shop-1", "namespaced": False},
            True,
        ),
        (
            {"clusterResourceWhitelist": [{"group": "", "kind": "Namespace", "name": "shop-*"}]},
            {"kind": "Namespace", "name": "other", "namespaced": False},
            False,
        ),
        ({"clusterResourceWhitelist": "x"}, {"kind": "Namespace", "namespaced": False}, False),
    ],
)
def test_lists_of_kinds_decide_what_may_be_deployed(
    spec: dict[str, Any], asked: dict[str, Any], *, permitted: bool
) -> None:
    assert permissions.kind_permitted(project(**spec), group="", **asked) is permitted


@pytest.mark.parametrize(
    ("entries", "namespace", "verdict"),
    [
        ([], "argocd", "yes"),
        (["other"], "", "yes"),
        ([], "shop", "no"),
        (["sh*"], "shop", "yes"),
        (["/^sh/"], "shop", "yes"),
        ([None, {}], "shop", "no"),
    ],
)
def test_an_application_may_live_where_its_project_says(
    entries: list[Any], namespace: str, verdict: str
) -> None:
    spec = project(sourceNamespaces=entries)
    said = permissions.application_namespace_permitted(spec, namespace=namespace, control_plane="argocd")
    assert said is Verdict(verdict)


def test_what_belongs_to_a_project_and_what_global_projects_add_is_permitted() -> None:
    shared = project("shared", sourceRepos=["https://git.example.com/shared"], syncWindows=[{"kind": "deny"}])
    settings = Settings(global_projects=(GlobalProject(project="shared"),))
    neighbours = Neighbourhood(
        projects=[shared],
        repositories=[("repo", "https://git.example.com/own", "shop")],
        clusters=[
            KnownCluster(server="https://eu", name="eu", project="shop"),
            KnownCluster(server="https://us", name="us", project="shop", namespaces=("a", "b")),
        ],
    )
    whole = permissions.effective_project(
        project(namespaceResourceWhitelist=[]), settings=settings, neighbours=neighbours
    )
    assert whole is not None
    assert whole["spec"] == {
        "namespaceResourceWhitelist": [],
        "sourceRepos": ["https://git.example.com/own", "https://git.example.com/shared"],
        "destinations": [
            {"server": "https://eu", "namespace": "*"},
            {"server": "https://us", "namespace": "a"},
            {"server": "https://us", "namespace": "b"},
        ],
        "syncWindows": [{"kind": "deny"}],
    }


def test_without_knowledge_of_its_clusters_a_whole_project_is_not_known() -> None:
    assert permissions.effective_project(project(), settings=Settings(), neighbours=Nothing()) is None
