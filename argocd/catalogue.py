"""All rules there are, in the order in which findings are told.

A new module of `argocd/rules/` adds its import and its tuple here; a test notices when one is missing.
"""

from argocd.judging import Rule
from argocd.rules import impersonation, impersonation_matching, tracking

CATALOGUE: tuple[Rule, ...] = (
    *impersonation.RULES,
    *impersonation_matching.RULES,
    *tracking.RULES,
)
