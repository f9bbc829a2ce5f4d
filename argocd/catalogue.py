"""All rules there are, in the order in which findings are told.

A new module of `argocd/rules/` adds its import and its tuple here; a test notices when one is missing.
"""

from argocd.judging import Rule
from argocd.rules import tracking

CATALOGUE: tuple[Rule, ...] = (*tracking.RULES,)
