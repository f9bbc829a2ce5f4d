"""ConfigMaps and Secrets of generators: every place that names one, and where it is looked for."""

from typing import Any

import pytest

from argocd.judging.case import Case, Kind, Operation, Surroundings
from argocd.judging.configuration import Configuration
from argocd.rules.application_set_references import RULES
from argocd.settings.argocd_cm import Settings
from tests.argocd.fake_neighbours import Neighbourhood, Nothing

SECRET = {"secretName": "gone", "key": "k"}
PLACES = [
    ({"plugin": {"configMapRef": {"name": "gone"}}}, "plugin.configMapRef.name"),
    ({"clusterDecisionResource": {"configMapRef": "gone"}}, "clusterDecisionResource.configMapRef"),
    ({"scmProvider": {"github": {"tokenRef": SECRET}}}, "scmProvider.github.tokenRef.secretName"),
    ({"scmProvider": {"github": {"appSecretName": "gone"}}}, "scmProvider.github.appSecretName"),
    (
        {"scmProvider": {"azureDevOps": {"accessTokenRef": SECRET}}},
        "scmProvider.azureDevOps.accessTokenRef.secretName",
    ),
    (
        {"scmProvider": {"bitbucket": {"appPasswordRef": SECRET}}},
        "scmProvider.bitbucket.appPasswordRef.secretName",
    ),
    (
        {"scmProvider": {"gitlab": {"caRef": {"configMapName": "gone", "key": "k"}}}},
        "scmProvider.gitlab.caRef.configMapName",
    ),
    (
        {"pullRequest": {"bitbucketServer": {"basicAuth": {"passwordRef": SECRET}}}},
        "pullRequest.bitbucketServer.basicAuth.passwordRef.secretName",
    ),
    (
        {"pullRequest": {"bitbucket": {"bearerToken": {"tokenRef": SECRET}}}},
        "pullRequest.bitbucket.bearerToken.tokenRef.secretName",
    ),
]
ELSEWHERE = {
    "plugin.configMapRef.name",
    "clusterDecisionResource.configMapRef",
    "scmProvider.github.appSecretName",
}
"""Looked for in Argo CD's namespace, wherever the ApplicationSet is."""


def found(
    generators: list[Any], *, namespace: str = "argocd", neighbours: Nothing | None = None
) -> list[str]:
    case = Case(
        kind=Kind.APPLICATION_SET,
        object={"metadata": {"name": "a", "namespace": namespace}, "spec": {"generators": generators}},
        old=None,
        operation=Operation.CREATE,
        surroundings=Surroundings(
            settings=Settings(),
            configuration=Configuration(),
            neighbours=Neighbourhood() if neighbours is None else neighbours,
        ),
    )
    return [finding.path for rule in RULES for finding in rule.check(case)]


@pytest.mark.parametrize(("generator", "path"), PLACES)
def test_what_is_missing_is_told_with_its_place(generator: dict[str, Any], path: str) -> None:
    assert found([generator]) == [f"spec.generators[0].{path}"]
    nested = {"matrix": {"generators": [{"list": {}}, generator]}}
    assert found([nested]) == [f"spec.generators[0].matrix.generators[1].{path}"]


@pytest.mark.parametrize(("generator", "path"), PLACES)
def test_what_exists_or_is_not_known_is_not_told(generator: dict[str, Any], path: str) -> None:
    assert found([generator], neighbours=Neighbourhood(secrets={"gone"}, config_maps={"gone"})) == []
    assert found([generator], neighbours=Nothing()) == []


@pytest.mark.parametrize(("generator", "path"), PLACES)
def test_of_other_namespaces_nothing_is_known(generator: dict[str, Any], path: str) -> None:
    assert bool(found([generator], namespace="team")) == (path in ELSEWHERE)


@pytest.mark.parametrize(
    "generator",
    [
        {"plugin": {"configMapRef": {"name": "plugin-{{.env}}"}}},
        {"plugin": {"configMapRef": {}}},
        {
            "plugin": None,
            "scmProvider": ["github"],
            "pullRequest": {"github": "x", "gitlab": {"tokenRef": []}},
        },
    ],
)
def test_a_name_that_a_template_gives_or_that_is_none_is_not_judged(generator: dict[str, Any]) -> None:
    assert found([generator]) == []
