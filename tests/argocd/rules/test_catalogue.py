"""The rules as a whole."""

import ast
import re
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest

import argocd
from argocd import rules
from argocd.engine.judge import judge
from argocd.judging.case import Action, Operation, Profile, Rule, path_of
from argocd.projects.rule_ids import RefusalId
from argocd.rules.any_object import TOO_COSTLY
from argocd.rules.catalogue import CATALOGUE
from tests.argocd.cases import case_of

ID = r"[a-z]+(-[a-z]+)*/[a-z0-9]+(-[a-z0-9]+)*"
EVERY_RULE = [pytest.param(rule, id=rule.id) for rule in CATALOGUE]
ASKED = [pytest.param(rule, id=rule.id) for rule in CATALOGUE if rule is not TOO_COSTLY]
"""The engine itself says that a review ended too early."""


def test_ids_are_unique() -> None:
    ids = [rule.id for rule in CATALOGUE]
    assert sorted(ids) == sorted(set(ids))


def test_every_module_of_rules_is_listed() -> None:
    for file in Path(rules.__file__).parent.glob("*.py"):
        module = import_module(f"{rules.__name__}.{file.stem}")
        assert set(getattr(module, "RULES", ())) <= set(CATALOGUE), f"{file.name} is not listed"


def test_every_problem_of_a_projects_validation_has_its_rule() -> None:
    assert set(get_args(RefusalId)) <= {rule.id for rule in CATALOGUE}


def test_every_id_that_the_code_names_is_that_of_a_rule() -> None:
    ids = {rule.id for rule in CATALOGUE}
    groups = {rule.partition("/")[0] for rule in ids}
    for file in Path(argocd.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                group, slash, _ = node.value.partition("/")
                named = slash and group in groups and re.fullmatch(ID, node.value)
                assert not named or node.value in ids, f"{file}:{node.lineno} names no rule: {node.value}"


@pytest.mark.parametrize("rule", EVERY_RULE)
def test_a_rule_can_be_documented(rule: Rule) -> None:
    assert re.fullmatch(ID, rule.id)
    assert rule.title
    assert not rule.title.endswith(".")
    assert "\n" not in rule.title
    assert rule.explanation.endswith(".")
    assert rule.bad.strip()
    assert rule.good.strip()
    assert rule.kinds
    assert rule.action is not Action.OFF


@pytest.mark.parametrize("rule", EVERY_RULE)
def test_a_rule_reads_fields_that_an_update_can_compare(rule: Rule) -> None:
    assert rule.reads or rule.operations == {Operation.DELETE}
    for read in rule.reads:
        assert path_of(read)[0] in {
            "metadata",
            "spec",
            "status",
            "operation",
            "data",
            "type",
            "apiVersion",
            "kind",
        }
        assert "[]" not in read


@pytest.mark.parametrize("rule", EVERY_RULE)
def test_an_opinion_says_what_works_although_it_speaks(rule: Rule) -> None:
    assert bool(rule.opinion) == (rule.profile is Profile.STRICT)
    if rule.opinion:
        assert rule.opinion.endswith(".")
        assert rule.action is Action.WARN


@pytest.mark.parametrize("rule", EVERY_RULE)
def test_a_rule_about_neighbours_warns_unless_it_guards_a_deletion(rule: Rule) -> None:
    if rule.neighbours and Operation.DELETE not in rule.operations:
        assert rule.action is Action.WARN


@pytest.mark.parametrize("rule", ASKED)
def test_the_bad_example_of_a_rule_breaks_it_and_the_good_one_does_not(rule: Rule) -> None:
    found = list(rule.check(case_of(rule.bad, rule=rule)))
    assert found, "the bad example breaks no rule"
    assert {finding.rule for finding in found} == {rule.id}
    assert all(finding.message and finding.hint for finding in found)
    judgements = judge(case_of(rule.good, rule=rule), today=date(2026, 9, 1))
    assert rule.id not in {one.finding.rule for one in judgements}


@pytest.mark.parametrize("rule", EVERY_RULE)
def test_the_engine_asks_the_rule_about_its_example(rule: Rule) -> None:
    judgements = judge(case_of(rule.bad, rule=rule), today=date(2026, 9, 1))
    assert (rule.id, rule.action) in {(one.finding.rule, one.action) for one in judgements}
