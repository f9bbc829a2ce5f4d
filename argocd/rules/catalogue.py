"""All rules there are, in the order in which findings are told.

A new module of `argocd/rules/` adds its import and its tuple here; a test notices when one is missing.
"""

from argocd.judging.case import Rule
from argocd.rules import (
    agent_mirrors,
    agent_projects,
    any_object,
    application_habits,
    application_permissions,
    application_set_rollout,
    application_set_spec,
    application_spec,
    application_surroundings,
    application_sync_policy,
    argocd_cm,
    cluster_secrets,
    ignore_sync,
    impersonation,
    impersonation_matching,
    project_impact,
    project_patterns,
    project_permissions,
    project_roles,
    project_spec,
    project_sync_windows,
    secrets,
    tracking,
)

CATALOGUE: tuple[Rule, ...] = (
    *project_spec.RULES,
    *project_roles.RULES,
    *project_sync_windows.RULES,
    *project_patterns.RULES,
    *project_permissions.RULES,
    *project_impact.RULES,
    *application_spec.RULES,
    *application_sync_policy.RULES,
    *application_habits.RULES,
    *application_surroundings.RULES,
    *application_permissions.RULES,
    *application_set_spec.RULES,
    *application_set_rollout.RULES,
    *secrets.RULES,
    *cluster_secrets.RULES,
    *ignore_sync.RULES,
    *argocd_cm.RULES,
    *any_object.RULES,
    *impersonation.RULES,
    *impersonation_matching.RULES,
    *tracking.RULES,
    *agent_projects.RULES,
    *agent_mirrors.RULES,
)
