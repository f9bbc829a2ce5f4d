"""Rules about projects as a whole: their examples, updates and deletions, and objects that could be anything."""

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from argocd.judging.case import Case, Kind, Operation, Rule, Surroundings
from argocd.judging.configuration import Configuration
from argocd.judging.neighbours import KnownCluster
from argocd.rules.catalogue import CATALOGUE
from argocd.settings.argocd_cm import Settings
from tests.argocd.cases import case_of
from tests.argocd.fake_neighbours import Neighbourhood, Nothing
from tests.argocd.rules.asking import ask, project

OURS = [rule for rule in CATALOGUE if rule.id.startswith("project/")]


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule.id) for rule in OURS])
def test_an_example_shows_one_mistake_and_the_good_one_none(rule: Rule) -> None:
    def told(example: str) -> set[str]:
        case = case_of(example, rule=rule)
        return {
            finding.rule for one in OURS if case.operation in one.operations for finding in one.check(case)
        }

    assert told(rule.bad) == {rule.id}
    assert told(rule.good) == set()


EU = KnownCluster(server="https://eu", name="eu")


def application(name: str, namespace: str = "shop") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "argocd"},
        "spec": {
            "project": "shop",
            "source": {"repoURL": "https://git.example.com/a"},
            "destination": {"name": "eu", "namespace": namespace},
        },
    }


def changed(*, applications: int = 1, neighbours: Any = None) -> list[str]:
    old = project(sourceRepos=["*"], destinations=[{"name": "eu", "namespace": "*"}])
    new = project(sourceRepos=["*"], destinations=[{"name": "eu", "namespace": "tools"}])
    known = Neighbourhood(
        applications=[application(f"app-{number}") for number in range(applications)], clusters=[EU]
    )
    told = ask("project/update-breaks-applications", new, old=old, neighbours=neighbours or known)
    return [one.message for one in told]


def test_applications_that_an_update_breaks_are_named() -> None:
    (message,) = changed()
    assert message == "as a result of project update 1 applications destination became invalid: app-0"
    assert changed(applications=7)[0].endswith("app-0, app-1, app-2, app-3, app-4, …")


def test_without_applications_or_knowledge_of_them_an_update_breaks_nothing() -> None:
    assert changed(applications=0) == []
    assert changed(neighbours=Nothing()) == []


def test_where_clusters_are_not_known_sources_are_judged_all_the_same() -> None:
    class Applications(Nothing):
        def applications_of_project(self, project: str) -> Any:
            return [application("app")]

    old, new = project(sourceRepos=["*"]), project(sourceRepos=["https://git.example.com/b"])
    told = ask("project/update-breaks-applications", new, old=old, neighbours=Applications())
    assert "1 applications source became invalid" in told[0].message
    assert not ask("project/update-breaks-applications", new, neighbours=Applications())


@pytest.mark.parametrize(
    ("metadata", "applications", "denied"),
    [
        ({}, 0, False),
        ({}, 1, True),
        ({"name": "default"}, 0, True),
        ({"namespace": "elsewhere"}, 1, False),
        ({"namespace": ""}, 1, True),
    ],
)
def test_a_project_in_use_and_the_default_one_stay_where_argo_cd_reads_them(
    metadata: dict[str, str], applications: int, *, denied: bool
) -> None:
    known = Neighbourhood(applications=[application("app")] * applications)
    rule = next(one for one in OURS if one.id == "project/deletion")
    case = Case(
        kind=Kind.PROJECT,
        object=project(metadata),
        operation=Operation.DELETE,
        surroundings=Surroundings(settings=Settings(), configuration=Configuration(), neighbours=known),
    )
    assert bool(list(rule.check(case))) is denied


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(st.sampled_from("ab*?[]{},!/\\é\0:@."), max_size=6)
    | st.sampled_from(["*", "!*", "[", "/", "{a*,a}", "ssh://git@a:b/c", "TZ=UTC", "0s", "1d"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=5,
)
FIELDS = yaml.safe_load(
    """
    destinations: [server, name, namespace]
    roles: [name, policies, groups]
    syncWindows: [kind, schedule, duration, applications, namespaces, clusters, timeZone, description]
    destinationServiceAccounts: [server, namespace, defaultServiceAccount]
    clusterResourceWhitelist: [group, kind, name]
    namespaceResourceBlacklist: [group, kind]
    sourceRepos: [a]
    sourceNamespaces: [a]
    signatureKeys: [keyID]
    sourceIntegrity: [git]
    """
)
specs = st.fixed_dictionaries(
    {},
    optional={
        key: values
        | st.lists(values | st.dictionaries(st.sampled_from(fields), values, max_size=4), max_size=4)
        for key, fields in FIELDS.items()
    },
)


@settings(max_examples=150)
@given(specs | values, st.sampled_from(["shop", "", None, 3]))
def test_no_rule_about_projects_raises_on_anything(spec: Any, name: Any) -> None:
    thing = {"metadata": {"name": name, "namespace": name}, "spec": spec}
    for old in (None, project()):
        case = Case(
            kind=Kind.PROJECT,
            object=thing,
            old=old,
            operation=Operation.UPDATE if old else Operation.CREATE,
            surroundings=Surroundings(
                settings=Settings(),
                configuration=Configuration(),
                neighbours=Neighbourhood(applications=[application("a")], clusters=[EU]),
            ),
        )
        for rule in OURS:
            for finding in rule.check(case):
                assert finding.rule == rule.id
                assert finding.hint
