"""Roles of a project: names, policies and groups, checked with the words of Argo CD's API server."""

import re

from argocd.budget import remembered
from argocd.go import runes
from argocd.judging.configuration import Version
from argocd.projects.rule_ids import RefusalId
from argocd.settings.casbin import line_problem

_Problem = tuple[RefusalId, str]
"""The rule that it belongs to, and what Argo CD says."""

ROLLBACK_SINCE: Version = (3, 6)
"""Before it there was no action of that name."""

_ROLE_NAME = re.compile(r"[a-zA-Z0-9]([-_a-zA-Z0-9]*[a-zA-Z0-9])?")
_ROLE_NAME_FORM = "Must consist of alphanumeric characters, '-' or '_', and must start and end with an alphanumeric character"
_OBJECT = re.compile(r"(/[*\w.-]+)?/[*\w.-]+", re.ASCII)
_RESOURCES = frozenset({"applications", "applicationsets", "repositories", "exec", "logs", "clusters"})
_ACTIONS = frozenset({"get", "create", "update", "delete", "sync", "override", "*"})
_ACTION_BEGINNINGS = ("action/", "update/", "delete/")
"""Anywhere in the action, not only at its beginning."""
_PARTS = 5
"""After the table."""
_INVALID_IN_GROUP = re.compile(r'["\n\r\t]')
_FINE = re.compile(
    r"p, *proj:([^,:\s\"]+):([^,:\s\"]+) *, *(?:applications|applicationsets|repositories|exec|logs|clusters) *,"
    r" *(?:get|create|update|delete|sync|override|\*) *, *([*\w.-]+)(?:/[*\w.-]+){1,2} *, *(?:allow|deny) *",
    re.ASCII,
)
"""Nearly every policy; whose role and whose objects they are is still to be compared."""
_MAY_BE_NO_CSV = re.compile(r'["\n]|^(?!p,)')


def role_name_problem(name: str) -> str:
    if _ROLE_NAME.fullmatch(name):
        return ""
    return f"invalid role name '{name}'. {_ROLE_NAME_FORM}"


def is_action(action: str, *, version: Version) -> bool:
    return (
        action in _ACTIONS
        or (action == "rollback" and version >= ROLLBACK_SINCE)
        or any(beginning in action for beginning in _ACTION_BEGINNINGS)
    )


def is_object(project: str, text: str) -> bool:
    """The project's applications, repositories or clusters, and nobody else's."""
    return text.startswith(project) and _OBJECT.fullmatch(text, len(project)) is not None


def policy_problems(project: str, role: str, policy: str, *, version: Version) -> tuple[_Problem, ...]:
    fine = _FINE.fullmatch(policy)
    if fine and fine.groups() == (project, role, project):
        return ()
    return _problems(project, role, policy, version)


# Each may be of any length, and up to three of the answers quote all of them.
@remembered(
    longest=600,
    most=4096,
    length=lambda project, role, policy, _version: len(project) + len(role) + len(policy),
)
def _problems(project: str, role: str, policy: str, version: Version) -> tuple[_Problem, ...]:
    rule = f"invalid policy rule '{policy}'"
    table, *parts = [part.strip(" ") for part in policy.split(",")]
    if table != "p" or len(parts) != _PARTS:
        return (("project/policy", f"{rule}: must be of the form: 'p, sub, res, act, obj, eft'"),)
    subject, resource, action, target, effect = parts
    expected = f"proj:{project}:{role}"
    problems: list[_Problem] = []
    if subject != expected:
        problems.append(("project/policy", f"{rule}: policy subject must be: '{expected}', not '{subject}'"))
    if resource not in _RESOURCES:
        named = "'applications', 'applicationsets', 'repositories', 'exec', 'logs' or 'clusters'"
        problems.append(("project/policy", f"{rule}: project resource must be: {named}, not '{resource}'"))
    if not is_action(action, version=version):
        problems.append(("project/policy", f"{rule}: invalid action '{action}'"))
    if not is_object(project, target):
        forms = f"'{project}/*', '{project}[/<NAMESPACE>]/<APPNAME>' or '{project}/<APPNAME>'"
        problems.append(("project/policy-object", f"{rule}: object must be of form {forms}, not '{target}'"))
    if effect not in {"allow", "deny"}:
        problems.append(("project/policy", f"{rule}: effect must be: 'allow' or 'deny'"))
    if not problems and _MAY_BE_NO_CSV.search(policy):
        wrong = filter(None, map(line_problem, policy.split("\n")))
        problems += [("project/policy-syntax", f"policy syntax error: {problem}") for problem in wrong]
    return tuple(problems)


@remembered(longest=300, most=4096)
def group_problem(group: str) -> str:
    name = runes.trim(group)
    if len(name) > 1 and name.startswith('"') and name.endswith('"'):
        name = name[1:-1]
    elif "," in name:
        return f"group '{name}' must be quoted"
    if not name:
        return f"group '{name}' is empty"
    if _INVALID_IN_GROUP.search(name):
        return f"group '{name}' contains invalid characters"
    if len(group) > 1 and group[0] in runes.SPACE:
        return f"group '{name}' contains a leading space"
    if len(group) > 1 and group[-1] in runes.SPACE:
        return f"group '{name}' contains a trailing space"
    return ""
