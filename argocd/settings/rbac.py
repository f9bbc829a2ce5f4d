"""argocd-rbac-cm: what its policies can match, and who has which role."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from argocd import globs, reading
from argocd.settings import value_forms
from argocd.settings.casbin import (
    BUILT_IN_ROLES,
    IN_PROJECTS,
    PATHS,
    RESOURCES,
    ROLE,
    PolicyLine,
)
from argocd.spelling import did_you_mean

DEFAULT_KEY = "policy.default"
MODE_KEY = "policy.matchMode"
SCOPES_KEY = "scopes"

_GLOB = re.compile(r"[*?\[\]{}\\]")
_EXPRESSION = re.compile(r"[.*+?()|\[\]{}^$\\]")
_ACTIONS = frozenset().union(*RESOURCES.values())
_PERMISSION, _GROUP = "p", "g"


class MatchMode(StrEnum):
    GLOB = "glob"
    REGEX = "regex"

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "MatchMode":
        """Any text but `regex` means globs."""
        return cls.REGEX if reading.text(data, MODE_KEY) == cls.REGEX else cls.GLOB


@dataclass(frozen=True, slots=True)
class Permission:
    """A line of the table p, as far as it can be read."""

    line: PolicyLine
    subject: str
    resource: str
    action: str
    target: str
    effect: str


def permissions(lines: Iterable[PolicyLine]) -> Iterator[Permission]:
    for line in lines:
        if not line.problem and line.fields[0] == _PERMISSION:
            yield Permission(line, *line.fields[1:])


def pattern_problem(pattern: str, mode: MatchMode) -> str:
    """What happens to a pattern that cannot be used: Argo CD takes it for one that matches nothing, or panics."""
    if mode is MatchMode.REGEX:
        return "" if value_forms.compiles(pattern) else "is no regular expression: Argo CD panics on it"
    if not _GLOB.search(pattern):
        return ""
    return "is no glob: it matches nothing" if globs.compile_error(pattern) else ""


def matches_nothing(permission: Permission, mode: MatchMode) -> str:
    """Why no request of Argo CD's is about the line; empty where one may be."""
    resource, action, target = permission.resource, permission.action, permission.target
    if not _may_be(resource, RESOURCES, mode):
        return f"there is no resource {value_forms.shown(resource)}{did_you_mean(resource, RESOURCES)}"
    known = RESOURCES.get(resource, _ACTIONS)
    paths = PATHS if resource == "applications" or resource not in RESOURCES else ()
    if not _may_be(action, known, mode) and not _may_go_on(action, paths, mode):
        whose = f"{resource} have" if resource in RESOURCES else "there is"
        return f"{whose} no action {value_forms.shown(action)}{did_you_mean(action, known)}"
    if resource in IN_PROJECTS and "/" not in target and _is_literal(target, mode):
        return f"objects of {resource} are PROJECT/NAME, and {value_forms.shown(target)} has no project"
    return ""


def _is_literal(pattern: str, mode: MatchMode) -> bool:
    return not (_EXPRESSION if mode is MatchMode.REGEX else _GLOB).search(pattern)


def _may_be(pattern: str, words: Iterable[str], mode: MatchMode) -> bool:
    """Whether the pattern may match one of the words; of one with wildcards only the beginning is looked at."""
    if mode is MatchMode.REGEX:
        return not _is_literal(pattern, mode) or any(pattern in word for word in words)
    wild = _GLOB.search(pattern)
    return pattern in words if not wild else any(word.startswith(pattern[: wild.start()]) for word in words)


def _may_go_on(action: str, paths: tuple[str, ...], mode: MatchMode) -> bool:
    wild = _GLOB.search(action)
    beginning = action[: wild.start()] if wild else action
    return mode is MatchMode.REGEX or any(
        beginning.startswith(path) or (wild is not None and path.startswith(beginning)) for path in paths
    )


def project_of(permission: Permission, mode: MatchMode) -> str:
    """The one project that the line is about; empty where it is about none, or about a pattern of them."""
    if permission.resource in IN_PROJECTS:
        project, slash, _ = permission.target.partition("/")
        return project if slash and _is_literal(project, mode) else ""
    if permission.resource == "projects" and _is_literal(permission.target, mode):
        return permission.target
    return ""


@dataclass(frozen=True, slots=True)
class Roles:
    """`defined` may do something, `given` belong to somebody, each with the line that says so first.

    Where a line cannot be read nothing is said of roles: it may have been about any of them.
    """

    defined: Mapping[str, PolicyLine]
    given: Mapping[str, PolicyLine]
    default: str
    readable: bool

    def unassigned(self) -> Iterator[tuple[str, PolicyLine]]:
        for role, line in self.defined.items() if self.readable else ():
            if (
                role.startswith(ROLE)
                and role not in self.given
                and role not in {*BUILT_IN_ROLES, self.default}
            ):
                yield role, line

    def undefined(self) -> Iterator[tuple[str, PolicyLine]]:
        for role, line in self.given.items():
            if role.startswith(ROLE) and not self.exists(role):
                yield role, line

    def exists(self, role: str) -> bool:
        may_be_unread = not self.readable and role.startswith(ROLE)
        return role in BUILT_IN_ROLES or role in self.defined or may_be_unread


def roles_of(lines: Iterable[PolicyLine], *, default: str) -> Roles:
    defined: dict[str, PolicyLine] = {}
    given: dict[str, PolicyLine] = {}
    readable = True
    for line in lines:
        if line.problem:
            readable = False
        elif line.fields[0] == _PERMISSION:
            defined.setdefault(line.fields[1], line)
        elif line.fields[0] == _GROUP:
            _, member, role = line.fields
            given.setdefault(role, line)
            if member.startswith(ROLE):
                defined.setdefault(member, line)  # it has what the other role has
    return Roles(defined, given, default, readable)
