from dataclasses import replace
from datetime import date

import pytest

from argocd.engine.judge import judge
from argocd.judging.case import Rule
from argocd.rules import fields
from tests.argocd.cases import case_of


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule.id) for rule in fields.RULES])
def test_what_an_api_server_has_seen_is_not_compared(rule: Rule) -> None:
    """It has refused wrong types, and what it keeps may be of a newer release than the one that is configured."""
    stored = replace(case_of(rule.bad, rule=rule), written=False)
    assert judge(stored, today=date(2026, 1, 1), rules=(rule,)) == []


@pytest.mark.parametrize(
    ("api_version", "kind", "found"),
    [
        ("argoproj.io/v1alpha1", "Application", ""),
        ("argoproj.io/v1alpha1", "Workflow", ""),
        ("argoproj.io/v1alpha1", "Rollout", ""),
        ("argoproj.io/v1beta1", "ArgoCD", ""),
        ("app.k8s.io/v1beta1", "Application", ""),
        ("apps/v1", "Deployment", ""),
        ("", "Application", ""),
        ("argoproj.io/v1alpha1", "Aplication", "kind"),
        ("argoproj.io/v1alpha1", "application", "kind"),
        ("argoproj.io/v1alpha1", "Applicationset", "kind"),
        ("argoproj.io/v1alpha1", "AppProjects", "kind"),
        ("argoproj.io/v1", "Application", "apiVersion"),
        ("argoproj.io/v1alpha", "AppProject", "apiVersion"),
        ("argocd.argoproj.io/v1alpha1", "Application", "apiVersion"),
        ("argproj.io/v1alpha1", "Application", "apiVersion"),
        ("", "AppProject", "apiVersion"),
    ],
)
def test_a_kind_that_is_nearly_one_of_argo_cd_is_told(api_version: str, kind: str, found: str) -> None:
    rule = next(rule for rule in fields.RULES if rule.id == "object/argocd-kind")
    case = case_of(f"apiVersion: '{api_version}'\nkind: {kind}\nmetadata: {{name: shop}}\n", rule=rule)
    assert [finding.path for finding in rule.check(case)] == ([found] if found else [])
