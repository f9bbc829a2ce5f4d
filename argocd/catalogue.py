"""All rules there are, in the order in which findings are told.

A new module of `argocd/rules/` adds its import and its tuple here; a test notices when one is missing.
"""

from argocd.judging import Rule
from argocd.rules import (
    application_habits,
    application_surroundings,
    applications,
    applicationsets,
    clusters,
    ignoring,
    impersonation,
    impersonation_matching,
    objects,
    settings,
    tracking,
)

CATALOGUE: tuple[Rule, ...] = (
    *applications.RULES,
    *application_habits.RULES,
    *application_surroundings.RULES,
    *applicationsets.RULES,
    *clusters.RULES,
    *ignoring.RULES,
    *settings.RULES,
    *objects.RULES,
    *impersonation.RULES,
    *impersonation_matching.RULES,
    *tracking.RULES,
)
