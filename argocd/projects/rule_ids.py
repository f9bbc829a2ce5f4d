"""The rules about what Argo CD's API server refuses in a project.

The validation says which of them each problem belongs to. Both sides name them with this type, so that a type
checker finds an id that no rule has.
"""

from typing import Literal

RefusalId = Literal[
    "project/shape",
    "project/destination-format",
    "project/duplicate-destination",
    "project/duplicate-source-namespace",
    "project/source-repo-format",
    "project/duplicate-source-repo",
    "project/duplicate-role",
    "project/role-name",
    "project/duplicate-policy",
    "project/policy",
    "project/policy-object",
    "project/policy-syntax",
    "project/duplicate-group",
    "project/group-name",
    "project/duplicate-sync-window",
    "project/sync-window-kind",
    "project/sync-window-schedule",
    "project/sync-window-duration",
    "project/sync-window-description",
    "project/sync-window-target",
    "project/destination-service-account",
    "project/duplicate-destination-service-account",
]
