"""Generators that can give nothing but an error."""

from typing import Any

import pytest

from tests.argocd.rules.asking import application_set, ask

RULE = "applicationset/generator-incomplete"


@pytest.mark.parametrize(
    ("generator", "path"),
    [
        ({"git": {"revision": "main"}}, "git.repoURL"),
        ({"git": {"repoURL": "https://git.example.com/shop.git"}}, ""),
        ({"scmProvider": {"cloneProtocol": "ssh"}}, "scmProvider"),
        ({"scmProvider": {"awsCodeCommit": {}}}, ""),
        ({"pullRequest": {}}, "pullRequest"),
        ({"pullRequest": {"azuredevops": {"repo": "shop"}}}, ""),
        ({"list": {"elementsYaml": "- env: [a"}}, "list.elementsYaml"),
        ({"list": {"elementsYaml": "env: test"}}, "list.elementsYaml"),
        ({"list": {"elementsYaml": "[test]"}}, "list.elementsYaml"),
        ({"list": {"elementsYaml": "- env: test"}}, ""),
        ({"list": {"elementsYaml": "{{ .environments | toYaml }}"}}, ""),
        ({"list": {"elementsYaml": ""}}, ""),
    ],
)
def test_each_has_what_it_needs(generator: dict[str, Any], path: str) -> None:
    alone = ask(RULE, application_set(generators=[generator]))
    inside = ask(RULE, application_set(generators=[{"matrix": {"generators": [generator, {"list": {}}]}}]))
    assert [each.path for each in alone] == ([f"spec.generators[0].{path}"] if path else [])
    assert [each.path for each in inside] == (
        [f"spec.generators[0].matrix.generators[0].{path}"] if path else []
    )
