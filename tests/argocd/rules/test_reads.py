"""A rule looks at the fields it names and at no others: on these an update is measured."""

from dataclasses import replace
from typing import Any

import pytest

from argocd.judging.case import Case, Operation, Rule, path_of
from argocd.rules.catalogue import CATALOGUE
from tests.argocd.altered_objects import paths, replaced
from tests.argocd.cases import case_of

EVERY_RULE = [pytest.param(rule, id=rule.id) for rule in CATALOGUE if Operation.UPDATE in rule.operations]
OTHERS: tuple[Any, ...] = ("something else", "", None, True, 0, [], {"a": "b"})
WHAT_IT_IS = frozenset(
    {("apiVersion",), ("kind",), ("metadata",), ("metadata", "name"), ("metadata", "namespace")}
)
"""Fields that no update can change, though a message may quote them."""


def is_read(rule: Rule, path: tuple[Any, ...]) -> bool:
    for read in map(path_of, rule.reads):
        shorter = min(len(read), len(path))
        if read[:shorter] == path[:shorter]:
            return True
    return False


def answers(rule: Rule, case: Case) -> list[str]:
    return [finding.path for finding in rule.check(case)]


@pytest.mark.parametrize("rule", EVERY_RULE)
def test_a_field_that_a_rule_does_not_name_changes_nothing(rule: Rule) -> None:
    for example in (rule.bad, rule.good):
        case = case_of(example, rule=rule)
        before = answers(rule, case)
        for path in paths(case.object):
            if path and path not in WHAT_IT_IS and not is_read(rule, path):
                for other in OTHERS:
                    changed = replace(case, object=replaced(case.object, path, other))
                    assert answers(rule, changed) == before, (path, other)


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule.id) for rule in CATALOGUE if rule.needs])
def test_a_rule_is_silent_about_a_new_object_without_what_it_needs(rule: Rule) -> None:
    needed = [path_of(need) for need in rule.needs]
    example = case_of(rule.bad, rule=rule)
    bare = replace(example, old=None, object=without(example.object, needed))
    assert not answers(rule, bare)
    for path in paths(bare.object):
        if path and not any(need[: len(path)] == path for need in needed):
            for other in OTHERS:
                assert not answers(rule, replace(bare, object=replaced(bare.object, path, other)))


def without(thing: Any, needed: list[tuple[str, ...]], at: tuple[str, ...] = ()) -> Any:
    if not isinstance(thing, dict):
        return thing
    return {
        key: without(value, needed, (*at, key)) for key, value in thing.items() if (*at, key) not in needed
    }
