"""What we say of bad objects beside what a real Argo CD said of them (`python -m tests.cluster.argocd.bad_objects`)."""

import pytest

from argocd.judging.case import Finding
from argocd.rules.catalogue import CATALOGUE
from tests.cluster.argocd.bad_objects.comparison import Compared, as_asked, compared, known_verdicts
from tests.cluster.argocd.bad_objects.table import bad_objects, good_objects, judged
from webhook.admission.messages import warnings

ENOUGH = 120
SILENT = {
    "applicationset/rolling-amount": "it is ignored, and the whole step is updated at once",
    "applicationset/rolling-operator": "the step selects nothing, and its Applications never sync",
    "applicationset/rolling-steps": "automated sync is taken away, and nothing replaces it",
    "applicationset/strategy-type": "all are synced at once although a rollout was asked for",
    "impersonation/account-name": "seen only at a sync with impersonation, which no account answers",
    "project/kind-pattern": "a pattern that does not compile matches nothing: what it denies is permitted",
    "project/regular-expression": "one that does not compile matches nothing, logged at each try",
}
"""Rules that deny although Argo CD is content, and what it does instead; their pages say it at length."""


@pytest.fixture(scope="module")
def table() -> list[Compared]:
    return list(compared())


def test_argo_cd_was_asked_about_every_object(table: list[Compared]) -> None:
    assert len(table) >= ENOUGH
    assert set(known_verdicts()) == {
        *bad_objects(),
        *(good.name for good in good_objects().values()),
    }


def test_without_the_mistake_both_are_content() -> None:
    verdicts, configuration = known_verdicts(), as_asked()
    for good in good_objects().values():
        assert verdicts[good.name] == {}
        assert [
            each for each in judged(good.object, configuration=configuration) if each.action == "deny"
        ] == []


def test_what_argo_cd_complains_of_and_the_object_alone_shows_is_said_before(table: list[Compared]) -> None:
    assert [str(each) for each in table if each.missed] == []


def test_what_we_deny_argo_cd_does_not_take_or_the_rule_says_why(table: list[Compared]) -> None:
    alone = {rule for each in table if each.denied_alone for rule in each.denials}
    assert alone == set(SILENT)
    assert all(rule.explanation for rule in CATALOGUE if rule.id in SILENT)


def test_what_alone_speaks_where_argo_cd_complains_is_said_before_what_it_ignores(
    table: list[Compared],
) -> None:
    said = [{*each.denials, *each.warnings} for each in table if each.argo_cd]
    ignored = Finding("repository/type", "type", "it is so")
    for rule in {rule for rules in said if len(rules) == 1 for rule in rules}:
        first, _ = warnings([ignored, Finding(rule, "spec", "it is so")])
        assert first.startswith(f"{rule}:")
