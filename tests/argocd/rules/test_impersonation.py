"""Rules about accounts to sync with, beyond their examples."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from argocd import names
from argocd.judging.case import Case, Finding, Kind, Surroundings
from argocd.judging.configuration import ArgoCD, Behaviour, Configuration, ImpersonationOptions
from argocd.judging.neighbours import KnownCluster, Neighbours
from argocd.rules import impersonation, impersonation_matching
from argocd.settings.argocd_cm import GlobalProject, ImpersonationSwitch, Settings
from tests.argocd.fake_neighbours import Neighbourhood, Nothing

RULE = {
    rule.id.removeprefix("impersonation/"): rule
    for rule in (*impersonation.RULES, *impersonation_matching.RULES)
}
SERVER = names.IN_CLUSTER_SERVER
ON = Settings(known=True, impersonation=ImpersonationSwitch(enabled=True))
C1 = KnownCluster(server="https://c1.example.com", name="c1")


@dataclass
class NoAccounts(Neighbourhood):
    """Knows projects and clusters, but no accounts."""

    def service_account(self, namespace: str, name: str) -> bool | None:
        return None


def project(*entries: tuple[str, str, str], name: str = "shop", **spec: Any) -> dict[str, Any]:
    """Entries are server, namespace and account."""
    keys = ("server", "namespace", "defaultServiceAccount")
    listed = [dict(zip(keys, entry, strict=True)) for entry in entries]
    return {
        "kind": "AppProject",
        "metadata": {"name": name},
        "spec": {"destinationServiceAccounts": listed, **spec},
    }


class OneProject(Neighbourhood):
    """Knows one project, and cannot tell about others."""

    def project(self, name: str) -> Mapping[str, Any] | None:
        return project() if name == "shop" else None


def application(*, of: str = "shop", **destination: str) -> dict[str, Any]:
    return {
        "kind": "Application",
        "metadata": {"name": "web", "namespace": "argocd"},
        "spec": {"project": of, "destination": destination},
    }


def findings(
    rule: str,
    thing: Mapping[str, Any],
    *,
    settings: Settings = ON,
    configuration: Configuration | None = None,
    neighbours: Neighbours | None = None,
) -> list[Finding]:
    case = Case(
        kind=Kind(thing["kind"]),
        object=thing,
        surroundings=Surroundings(
            settings=settings,
            configuration=configuration or Configuration(),
            neighbours=neighbours or Neighbourhood(),
        ),
    )
    return list(RULE[rule].check(case))


@pytest.mark.parametrize("account", ["sa", "ns:sa", "a.b", "sa-1", "", "sa*", "a/b"])
def test_names_that_exist_or_that_argocd_refuses_itself_are_not_judged(account: str) -> None:
    assert findings("account-name", project((SERVER, "*", account))) == []


@pytest.mark.parametrize(
    "account",
    [
        "UPPER",
        "sa ",
        "s a",
        "sa\n",
        ":sa",
        "ns:",
        "a:b:c",
        "system:serviceaccount:ns:sa",
        "n.s:sa",
        "ü",
        "sa?",
        "a" * 254,
    ],
)
def test_names_that_no_account_can_have_are_found(account: str) -> None:
    found = findings("account-name", project((SERVER, "*", account)))
    assert [finding.path for finding in found] == ["spec.destinationServiceAccounts[0].defaultServiceAccount"]


@pytest.mark.parametrize(
    ("server", "message", "hint"),
    [
        ("", "an entry without a server matches no cluster", f"Write a URL such as {SERVER}, or a glob."),
        (
            "in-cluster",
            "'in-cluster' is no URL, and entries are compared with the URLs of clusters",
            f"Write {SERVER}.",
        ),
        (
            "c1",
            "'c1' is no URL, and entries are compared with the URLs of clusters",
            "Write https://c1.example.com.",
        ),
        (
            "c2",
            "'c2' is no URL, and entries are compared with the URLs of clusters",
            f"Write a URL such as {SERVER}, or a glob.",
        ),
        (
            f"{SERVER}/",
            f"'{SERVER}/' ends with a slash, and the URLs of clusters do not",
            f"Write {SERVER}.",
        ),
    ],
)
def test_a_server_that_matches_no_cluster_is_found(server: str, message: str, hint: str) -> None:
    found = findings("server", project((server, "*", "sa")), neighbours=Neighbourhood(clusters=[C1]))
    assert [(finding.message, finding.hint) for finding in found] == [(message, hint)]


@pytest.mark.parametrize("server", [SERVER, "*", "https://*.example.com", "https://*/", "c?", "http://c1"])
def test_urls_and_globs_are_fine(server: str) -> None:
    assert findings("server", project((server, "*", "sa")), neighbours=Nothing()) == []


def test_only_the_first_catch_all_that_is_not_last_is_named() -> None:
    used = project((SERVER, "a", "x"), ("*", "**", "y"), ("**", "*", "z"), (SERVER, "b", "w"))
    found = findings("catch-all-not-last", used)
    assert [(finding.path, finding.message) for finding in found] == [
        (
            "spec.destinationServiceAccounts[1]",
            "this entry matches everything, so the 2 after it never count",
        )
    ]
    assert findings("catch-all-not-last", project()) == []
    assert findings("shadowed-entry", used) == []


@pytest.mark.parametrize(
    ("entries", "shadowed"),
    [
        ([(SERVER, "*", "x"), (SERVER, "shop", "y")], [1]),
        ([("https://*", "shop", "x"), (SERVER, "shop", "y")], [1]),
        ([(SERVER, "shop-*", "x"), (SERVER, "shop-live-*", "y"), (SERVER, "shop-a", "z")], [1, 2]),
        ([(SERVER, "*", "x"), ("https://other", "shop", "y")], []),
        ([(SERVER, "shop", "x"), (SERVER, "*", "y")], []),
        ([(SERVER, "shop", "x"), (SERVER, "shop", "y")], []),
        ([(SERVER, "[", "x"), (SERVER, "shop", "y")], []),
    ],
)
def test_an_entry_behind_a_wider_one_is_never_reached(
    entries: list[tuple[str, str, str]], shadowed: list[int]
) -> None:
    found = findings("shadowed-entry", project(*entries))
    assert [finding.path for finding in found] == [
        f"spec.destinationServiceAccounts[{index}]" for index in shadowed
    ]


@pytest.mark.parametrize(
    ("namespace", "account", "found"),
    [
        ("*", "argocd:deployer", 1),
        ("*", "kube-system:anything", 1),
        ("argocd", "deployer", 1),
        ("kube-system", "deployer", 1),
        ("*", "deployer", 0),
        ("shop", "deployer", 0),
    ],
)
def test_accounts_of_the_control_plane_are_found(namespace: str, account: str, found: int) -> None:
    assert len(findings("control-plane-account", project((SERVER, namespace, account)))) == found


@pytest.mark.parametrize(
    ("settings", "found"),
    [(Settings(known=True), 1), (Settings(), 0), (ON, 0)],
)
def test_entries_are_useless_while_the_feature_is_known_to_be_off(settings: Settings, found: int) -> None:
    assert len(findings("feature-off", project((SERVER, "*", "sa")), settings=settings)) == found
    assert findings("feature-off", project(), settings=settings) == []


HERE = {"server": SERVER, "namespace": "shop"}


@pytest.mark.parametrize(
    ("destinations", "entries", "paths"),
    [
        ([HERE], [], ["spec.destinationServiceAccounts"]),
        ([], [], []),
        ([HERE], [(SERVER, "shop", "sa")], []),
        ([HERE, {"server": SERVER, "namespace": "b"}], [(SERVER, "shop", "sa")], ["spec.destinations[1]"]),
        ([{"name": "in-cluster", "namespace": "b"}], [(SERVER, "shop", "sa")], ["spec.destinations[0]"]),
        ([{"name": "c1", "namespace": "b"}], [(SERVER, "*", "sa")], ["spec.destinations[0]"]),
        ([{"name": "unknown", "namespace": "b"}], [(SERVER, "shop", "sa")], []),
        ([{"name": "c*", "namespace": "b"}], [(SERVER, "shop", "sa")], []),
        ([{"name": "!c1", "namespace": "b"}], [(SERVER, "shop", "sa")], []),
        ([{"namespace": "b"}], [(SERVER, "shop", "sa")], []),
        ([{"server": "*", "namespace": "b"}], [(SERVER, "shop", "sa")], []),
        ([{"server": SERVER, "namespace": "b*"}], [(SERVER, "shop", "sa")], []),
        ([{"server": SERVER, "namespace": "!b"}], [(SERVER, "shop", "sa")], []),
        ([HERE], [(SERVER, "[", "sa")], []),
    ],
)
def test_a_destination_that_no_entry_matches_is_found(
    destinations: list[dict[str, str]], entries: list[tuple[str, str, str]], paths: list[str]
) -> None:
    found = findings(
        "destination-without-account",
        project(*entries, destinations=destinations),
        neighbours=Neighbourhood(clusters=[C1]),
    )
    assert [finding.path for finding in found] == paths


@pytest.mark.parametrize(
    ("settings", "configuration"),
    [
        (Settings(impersonation=ImpersonationSwitch(enabled=True)), Configuration()),
        (Settings(known=True), Configuration()),
        (
            Settings(known=True, impersonation=ImpersonationSwitch(enabled=True, enforced=False)),
            Configuration(),
        ),
        (ON, Configuration(impersonation=ImpersonationOptions(behaviour=Behaviour.PROPOSAL))),
    ],
)
def test_a_missing_entry_matters_only_where_syncs_then_fail(
    settings: Settings, configuration: Configuration
) -> None:
    used = project(destinations=[HERE])
    found = findings("destination-without-account", used, settings=settings, configuration=configuration)
    assert found == []


WITH_GLOBAL = Settings(
    known=True,
    impersonation=ImpersonationSwitch(enabled=True),
    global_projects=(GlobalProject(project="base"),),
)
BASE = project(("*", "*", "deployer"), name="base")


def test_entries_of_global_projects_count_since_they_are_appended() -> None:
    used = project(destinations=[HERE])

    def found(neighbours: Neighbours, *version: int) -> int:
        configuration = Configuration(argocd=ArgoCD(version=version))
        return len(
            findings(
                "destination-without-account",
                used,
                settings=WITH_GLOBAL,
                configuration=configuration,
                neighbours=neighbours,
            )
        )

    assert found(Neighbourhood(projects=[BASE]), 3, 5) == 0
    assert found(Neighbourhood(projects=[BASE]), 3, 4) == 1
    assert found(Neighbourhood(), 3, 5) == 1
    assert found(Nothing(), 3, 5) == 0


def test_an_application_that_finds_no_account_is_told_what_argocd_will_say() -> None:
    used = project((SERVER, "shop", "sa"))
    found = findings(
        "no-account",
        application(server=SERVER, namespace="live"),
        neighbours=Neighbourhood(projects=[used]),
    )
    assert [finding.message for finding in found] == [
        f"no matching service account found for destination server {SERVER} and namespace live"
    ]


def test_an_entry_that_fails_is_told_too() -> None:
    used = project((SERVER, "[", "sa"))
    found = findings("no-account", application(server=SERVER), neighbours=Neighbourhood(projects=[used]))
    assert [finding.message for finding in found] == [
        "invalid glob pattern for destination namespace: unexpected end of input"
    ]


def test_an_application_without_a_project_uses_the_default_one() -> None:
    default = project((SERVER, "shop", "sa"), name="default")
    neighbours = Neighbourhood(projects=[default])
    found = findings("no-account", application(of="", server=SERVER, namespace="b"), neighbours=neighbours)
    assert [finding.hint for finding in found] == [
        "Add an entry for this destination to spec.destinationServiceAccounts of the project default."
    ]


@pytest.mark.parametrize(
    ("settings", "neighbours", "destination"),
    [
        (Settings(), Neighbourhood(projects=[project()]), {"server": SERVER}),
        (Settings(known=True), Neighbourhood(projects=[project()]), {"server": SERVER}),
        (ON, Nothing(), {"server": SERVER}),
        (ON, Neighbourhood(), {"server": SERVER}),
        (ON, Neighbourhood(projects=[project()]), {"server": "https://unknown"}),
        (ON, Neighbourhood(projects=[project(("*", "*", "sa"))]), {"server": SERVER}),
        (
            WITH_GLOBAL,
            OneProject(),
            {"server": SERVER},
        ),
    ],
)
def test_an_application_is_not_judged_without_knowledge(
    settings: Settings, neighbours: Neighbours, destination: dict[str, str]
) -> None:
    assert findings("no-account", application(**destination), settings=settings, neighbours=neighbours) == []
    assert (
        findings("account-missing", application(**destination), settings=settings, neighbours=NoAccounts())
        == []
    )


@pytest.mark.parametrize(
    ("entry", "missing"),
    [
        ((SERVER, "shop", "sa"), True),
        ((SERVER, "*", "shop:sa"), True),
        ((SERVER, "shop", "there"), False),
        ((SERVER, "shop-*", "sa"), False),
        (("*", "shop", "sa"), False),
        ((SERVER, "shop", "SA"), False),
    ],
)
def test_a_project_that_names_a_missing_account_of_this_cluster_is_told(
    entry: tuple[str, str, str], *, missing: bool
) -> None:
    found = findings(
        "account-missing", project(entry), neighbours=Neighbourhood(accounts={("shop", "there")})
    )
    assert bool(found) is missing


@pytest.mark.parametrize(
    ("account", "destination", "missing"),
    [
        ("sa", {"server": SERVER, "namespace": "shop"}, True),
        ("there", {"server": SERVER, "namespace": "shop"}, False),
        ("a:b:c", {"server": SERVER, "namespace": "shop"}, False),
        ("sa", {"server": C1.server, "namespace": "shop"}, False),
    ],
)
def test_an_application_whose_account_is_missing_on_this_cluster_is_told(
    account: str, destination: dict[str, str], *, missing: bool
) -> None:
    neighbours = Neighbourhood(
        projects=[project(("*", "*", account))], clusters=[C1], accounts={("shop", "there")}
    )
    found = findings("account-missing", application(**destination), neighbours=neighbours)
    assert bool(found) is missing
