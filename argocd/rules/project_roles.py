"""What Argo CD's API server refuses in a project's roles: their names, policies and groups."""

from argocd.agents.autonomous_projects import is_rewritten_mirror
from argocd.rules.project_rule import refused

_ROLES = ("spec.roles",)
_NAMED = ("spec.roles", "metadata.name")
"""Policies repeat the project's name."""


def _role(*, name: str = "deployer", policies: str = "", groups: str = "") -> str:
    return f"roles: [{{name: {name}, policies: [{policies}], groups: [{groups}]}}]"


def _policy(
    *,
    subject: str = "proj:shop:deployer",
    action: str = "sync",
    target: str = "shop/*",
    beginning: str = "p, ",
) -> str:
    return f"'{beginning}{subject}, applications, {action}, {target}, allow'"


RULES = (
    refused(
        "project/duplicate-role",
        reads=_ROLES,
        mild_when=is_rewritten_mirror,
        title="Roles have different names",
        explanation="Tokens and policies name a role, so there can be only one of a name.",
        hint="Merge the two roles, or rename one of them.",
        bad="roles: [{name: deployer}, {name: deployer}]",
        good="roles: [{name: deployer}, {name: viewer}]",
    ),
    refused(
        "project/role-name",
        reads=_ROLES,
        title="A role has a name that Argo CD takes",
        explanation="Letters and digits of ASCII, inside also - and _. Policies repeat it, separated by colons and commas.",
        hint="Use letters and digits, and - or _ between them.",
        bad=_role(name="ops team"),
        good=_role(name="ops-team"),
    ),
    refused(
        "project/duplicate-policy",
        reads=_ROLES,
        mild_when=is_rewritten_mirror,
        title="Policies of a role are different",
        explanation="The same policy twice in one role.",
        hint="Remove one of the two.",
        bad=_role(policies=f"{_policy()}, {_policy()}"),
        good=_role(policies=f"{_policy()}, {_policy(action='get')}"),
    ),
    refused(
        "project/policy",
        reads=_NAMED,
        title="A policy has the form, the subject, the resource, the action and the effect that it can have",
        explanation=(
            "`p, proj:PROJECT:ROLE, RESOURCE, ACTION, OBJECT, EFFECT`. The subject is the role itself. Resources are "
            "applications, applicationsets, repositories, clusters, exec and logs; actions get, create, update, "
            "delete, sync, override, `*` and what has action/, update/ or delete/ in it; effects allow and deny, in "
            "lower case. A policy that kubectl has written works all the same: warn instead of denying if such "
            "projects exist."
        ),
        hint="Compare with: p, proj:PROJECT:ROLE, applications, sync, PROJECT/*, allow",
        bad=_role(policies=_policy(subject="proj:other:deployer")),
        good=_role(policies=_policy()),
    ),
    refused(
        "project/policy-object",
        reads=_NAMED,
        title="A policy is about objects of its own project",
        explanation=(
            "The object is PROJECT/NAME or PROJECT/NAMESPACE/NAME, with `*` where one likes. Argo CD's documentation "
            "also shows a lone `*` and URLs of repositories: its API server refuses both, though they work when "
            "kubectl has written them."
        ),
        hint="Begin the object with the project's name and a slash.",
        bad=_role(policies=_policy(target="*")),
        good=_role(policies=_policy(target="shop/*")),
    ),
    refused(
        "project/policy-syntax",
        reads=_ROLES,
        title="A policy can be read as a line of CSV",
        explanation=(
            "Argo CD hands all policies of a project to casbin as CSV. One line that is none, for a quotation mark "
            "in it or a space before the first comma, makes it refuse all of them."
        ),
        hint="Begin with `p,` and use no quotation marks.",
        bad=_role(policies=_policy(beginning="p , ")),
        good=_role(policies=_policy()),
    ),
    refused(
        "project/duplicate-group",
        reads=_ROLES,
        mild_when=is_rewritten_mirror,
        title="Groups of a role are different",
        explanation="The same group twice in one role.",
        hint="Remove one of the two.",
        bad=_role(groups="'example:ops', 'example:ops'"),
        good=_role(groups="'example:ops', 'example:dev'"),
    ),
    refused(
        "project/group-name",
        reads=_ROLES,
        title="A group has a name that can stand in a line of CSV",
        explanation=(
            "Not empty, no white space around it, no quotation mark, tab or line break in it; one with a comma is "
            "put into double quotes."
        ),
        hint="Remove what is around the name, or put a name with a comma into double quotes.",
        bad=_role(groups="'cn=ops,dc=example'"),
        good=_role(groups="'\"cn=ops,dc=example\"'"),
    ),
)
