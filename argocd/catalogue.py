"""All rules there are, in the order in which findings are told.

A new module of `argocd/rules/` adds its import and its tuple here; a test notices when one is missing.
"""

from argocd.judging import Rule
from argocd.rules import (
    agents,
    application_habits,
    application_permissions,
    application_policies,
    application_surroundings,
    applications,
    applicationset_rollouts,
    applicationsets,
    clusters,
    ignoring,
    impersonation,
    impersonation_matching,
    mirrors,
    objects,
    project_changes,
    project_patterns,
    project_permissions,
    project_roles,
    projects,
    secrets,
    settings,
    tracking,
    windows,
)

CATALOGUE: tuple[Rule, ...] = (
    *projects.RULES,
    *project_roles.RULES,
    *windows.RULES,
    *project_patterns.RULES,
    *project_permissions.RULES,
    *project_changes.RULES,
    *applications.RULES,
    *application_policies.RULES,
    *application_habits.RULES,
    *application_surroundings.RULES,
    *application_permissions.RULES,
    *applicationsets.RULES,
    *applicationset_rollouts.RULES,
    *secrets.RULES,
    *clusters.RULES,
    *ignoring.RULES,
    *settings.RULES,
    *objects.RULES,
    *impersonation.RULES,
    *impersonation_matching.RULES,
    *tracking.RULES,
    *agents.RULES,
    *mirrors.RULES,
)
