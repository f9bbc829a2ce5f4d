"""Examples are judged by all rules there are: a reader who copies a good one must meet no complaint."""

from dataclasses import replace
from datetime import date

import pytest

from argocd.engine.judge import judge
from argocd.judging.case import Case, Rule
from argocd.rules.catalogue import CATALOGUE
from tests.argocd.cases import case_of
from tests.argocd.fake_neighbours import Nothing

TODAY = date(2026, 9, 1)
GROUPS = frozenset(
    {
        "application",
        "applicationset",
        "field",
        "secret",
        "repository",
        "cluster",
        "ignore-sync",
        "settings",
        "parameters",
        "rbac",
        "object",
    }
)
RULES = [pytest.param(rule, id=rule.id) for rule in CATALOGUE if rule.id.split("/")[0] in GROUPS]


def staged(example: str, rule: Rule) -> Case:
    """Only an example of a rule about neighbours brings all that it needs."""
    case = case_of(example, rule=rule)
    if rule.neighbours:
        return case
    return replace(case, surroundings=replace(case.surroundings, neighbours=Nothing()))


@pytest.mark.parametrize("rule", RULES)
def test_a_bad_example_has_exactly_one_fault(rule: Rule) -> None:
    judgements = judge(staged(rule.bad, rule), today=TODAY)
    assert {(one.finding.rule, one.action) for one in judgements} == {(rule.id, rule.action)}


@pytest.mark.parametrize("rule", RULES)
def test_a_good_example_has_none(rule: Rule) -> None:
    judgements = judge(staged(rule.good, rule), today=TODAY)
    assert [one.finding for one in judgements] == []
