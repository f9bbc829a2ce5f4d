"""No rule quotes what stands before the host of a URL, wherever somebody wrote it and however long it is."""

from dataclasses import replace
from datetime import date

import pytest

from argocd.engine.judge import judge
from argocd.judging.case import Finding, Rule
from argocd.rules.catalogue import CATALOGUE
from tests.argocd.altered_objects import at, paths, replaced
from tests.argocd.cases import case_of

TOKEN = "github_pat_" + "x" * 82
"""As long as GitHub's: 93 characters."""
TEXTS = (
    f"https://bot:{TOKEN}@git.example.com/shop.git",
    f"https://{TOKEN}@git.example.com/shop.git",
    f"!https://bot:{TOKEN}@git.example.com/*[",
)


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule.id) for rule in CATALOGUE])
def test_credentials_of_urls_are_in_no_finding(rule: Rule) -> None:
    for example in (rule.bad, rule.good):
        case = case_of(example, rule=rule)
        for path in paths(case.object):
            if not isinstance(at(case.object, path), str) or path in {("apiVersion",), ("kind",)}:
                continue
            for text in TEXTS:
                altered = replace(case, object=replaced(case.object, path, text))
                for judgement in judge(altered, today=date(2026, 9, 1), rules=(rule,)):
                    assert "xxxxxxxx" not in repr(judgement.finding), path


def test_a_user_without_a_password_that_everybody_is_stays() -> None:
    finding = Finding("a/b", "", "ssh://git@host/path", "ssh://git:secret@host/path")
    assert (finding.message, finding.hint) == ("ssh://git@host/path", "ssh://[removed]@host/path")
