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


@pytest.mark.parametrize(
    ("kind", "entry", "keys"),
    [
        ("scmProvider", {"repositoryMatch": "(a", "branchMatch": "*", "labelMatch": "a{2,1}"}, 3),
        ("scmProvider", {"repositoryMatch": "^a-.*$", "branchMatch": "(?i)main|v[0-9]+"}, 0),
        ("scmProvider", {"repositoryMatch": "({{.team}}"}, 0),
        ("scmProvider", {"titleMatch": "(a"}, 0),
        ("pullRequest", {"branchMatch": "(a", "targetBranchMatch": "[", "titleMatch": "a**)"}, 3),
    ],
)
def test_a_filters_expression_compiles(kind: str, entry: dict[str, str], keys: int) -> None:
    found = ask("applicationset/filter", application_set(generators=[{kind: {"filters": [entry]}}]))
    at = f"spec.generators[0].{kind}.filters[0]"
    assert {each.path for each in found} == ({f"{at}.{key}" for key in entry} if keys else set())


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"key": "a", "operator": "In", "values": ["b"]}, ""),
        ({"key": "a", "operator": "Exists"}, ""),
        ({"key": "a", "operator": "{{.op}}"}, ""),
        ({"key": "a", "operator": "Equals", "values": ["b"]}, "operator"),
        ({"key": "a", "operator": "in", "values": ["b"]}, "operator"),
        ({"key": "a", "operator": "In"}, "values"),
        ({"key": "a", "operator": "Exists", "values": ["b"]}, "values"),
        ({"key": "not a key", "operator": "Exists"}, "key"),
        ({"key": "{{.key}}", "operator": "Exists"}, ""),
        ({"key": "example.com/a", "operator": "Exists"}, ""),
    ],
)
@pytest.mark.parametrize("where", ["selector", "clusters.selector", "clusterDecisionResource.labelSelector"])
def test_a_selector_has_keys_and_operators_of_kubernetes(expression: Any, expected: str, where: str) -> None:
    generator: dict[str, Any] = {"matchExpressions": [expression]}
    for key in reversed(where.split(".")):
        generator = {key: generator}
    found = ask("applicationset/selector", application_set(generators=[generator]))
    place = f"spec.generators[0].{where}.matchExpressions[0].{expected}"
    assert [each.path for each in found] == ([place] if expected else [])


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("env", 0),
        ("argocd.argoproj.io/secret-type", 0),
        ("{{.key}}", 0),
        ("not a key", 1),
        ("Example.com/env", 1),
        ("env/", 1),
        ("a" * 64, 1),
    ],
)
def test_a_selector_has_keys_of_labels(key: str, expected: int) -> None:
    generator = {"clusters": {"selector": {"matchLabels": {key: "a"}}}}
    assert len(ask("applicationset/selector", application_set(generators=[generator]))) == expected


def test_there_is_a_generator() -> None:
    rule = "applicationset/generators-empty"
    assert [each.path for each in ask(rule, application_set(generators=[]))] == ["spec.generators"]
    assert not ask(rule, application_set(generators=[{"clusters": {}}]))


def test_an_entry_holds_one_generator() -> None:
    rule = "applicationset/generators-in-one-entry"
    both: dict[str, Any] = {"clusters": {}, "list": {}}
    assert [each.path for each in ask(rule, application_set(generators=[{"list": {}}, both]))] == [
        "spec.generators[1]"
    ]
    assert not ask(rule, application_set(generators=[{"list": {}, "selector": {}}, {"clusters": {}}]))


@pytest.mark.parametrize(
    ("elements", "expected"),
    [
        ([{"env": "a"}, {"env": "b"}], 0),
        ([{"env": "a"}, {"env": "a"}], 1),
        ([{"env": "a", "zone": "b"}, {"env": "a", "zone": "c"}], 1),
        ([{"zone": "a"}, {"zone": "b"}], 1),
        ([{"env": "{{.a}}"}, {"env": "{{.a}}"}], 0),
        ([], 0),
    ],
)
def test_the_keys_of_a_merge_tell_elements_apart(elements: list[dict[str, str]], expected: int) -> None:
    child = {"list": {"elements": elements}}
    other: dict[str, Any] = {"clusters": {}}
    merge = {"merge": {"mergeKeys": ["env"], "generators": [other, child]}}
    for generator, at in ((merge, ""), ({"matrix": {"generators": [merge, other]}}, ".matrix.generators[0]")):
        found = ask("applicationset/merge-keys", application_set(goTemplate=True, generators=[generator]))
        assert [each.path for each in found] == [
            f"spec.generators[0]{at}.merge.generators[1]" for _ in range(expected)
        ]
