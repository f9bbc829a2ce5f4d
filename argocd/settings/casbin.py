"""Lines of CSV that Argo CD hands to casbin, the library that decides who may do what."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from argocd import reading
from argocd.budget import spend
from argocd.go import runes

RESOURCES: Mapping[str, frozenset[str]] = {
    "applications": frozenset(
        {"get", "create", "update", "delete", "sync", "override", "action", "rollback"}
    ),
    "applicationsets": frozenset({"get", "create", "update", "delete"}),
    "clusters": frozenset({"get", "create", "update", "delete"}),
    "projects": frozenset({"get", "create", "update", "delete"}),
    "repositories": frozenset({"get", "create", "update", "delete"}),
    "write-repositories": frozenset({"get", "create", "update", "delete"}),
    "certificates": frozenset({"get", "create", "update", "delete"}),
    "accounts": frozenset({"get", "create", "update"}),
    "gpgkeys": frozenset({"get", "create", "delete"}),
    "logs": frozenset({"get"}),
    "exec": frozenset({"create"}),
    "extensions": frozenset({"invoke"}),
}
"""What Argo CD asks casbin about, with the actions."""
PATHS = ("action/", "update/", "delete/")
"""Beginnings of an action on an application that goes on with a group, a kind and more."""
IN_PROJECTS = frozenset({"applications", "applicationsets", "logs", "exec"})
"""Their objects are PROJECT/NAME or PROJECT/NAMESPACE/NAME."""
BUILT_IN_ROLES = frozenset({"role:admin", "role:readonly"})
ROLE = "role:"
EFFECTS = ("allow", "deny")

_TABLES = {"p": 6, "g": 3, "r": 0, "e": 0, "m": 0}
"""The tables of Argo CD's casbin model, with the number of columns where it insists on one."""
_QUOTED = re.compile(r'"((?:[^"]|"")*)"(,|$)')
_UNQUOTED = re.compile(r'([^",]*)(,|$)')
_READING = 4
"""Steps for a line."""
_SPACE = re.compile(f"[{re.escape(runes.SPACE)}]*")


@dataclass(frozen=True, slots=True)
class PolicyLine:
    """One line of a policy: where it is, what it says, or what casbin says to it."""

    key: str
    number: int
    text: str
    fields: tuple[str, ...] = ()
    problem: str = ""


def policy_keys(data: Mapping[str, Any]) -> Iterator[str]:
    """The keys that Argo CD joins to one policy, `policy.csv` first."""
    keys = (key for key in data if isinstance(key, str))
    found = [key for key in keys if key.startswith("policy.") and key.endswith(".csv")]
    yield from sorted(found, key=lambda key: (key != "policy.csv", key))


def policy_lines(data: Mapping[str, Any]) -> Iterator[PolicyLine]:
    """All lines that say something."""
    for key in policy_keys(data):
        policy = reading.text(data, key)
        spend(_READING * (1 + policy.count("\n")))
        for number, text in enumerate(policy.split("\n"), start=1):
            line = runes.trim(text)
            if line and not line.startswith("#"):
                fields = fields_of(line)
                if isinstance(fields, str):
                    yield PolicyLine(key, number, line, problem=fields)
                else:
                    yield PolicyLine(key, number, line, fields, _misfit(line, fields))


def line_problem(line: str) -> str:
    """What is wrong with one line of CSV that Argo CD hands to casbin."""
    line = runes.trim(line)
    if not line or line.startswith("#"):
        return ""
    fields = fields_of(line)
    return fields if isinstance(fields, str) else _misfit(line, fields)


def fields_of(line: str) -> tuple[str, ...] | str:
    """The columns, or what Go's CSV reader says; white space before a column is passed over, after it it counts."""
    fields: list[str] = []
    at = 0
    while True:
        space = _SPACE.match(line, at)
        at = space.end() if space else at
        quoted = line.startswith('"', at)
        found = (_QUOTED if quoted else _UNQUOTED).match(line, at)
        if not found:
            reason = 'extraneous or missing " in quoted-field' if quoted else 'bare " in non-quoted-field'
            return f'error parsing policy line "{line}": {reason}'
        fields.append(found[1].replace('""', '"') if quoted else found[1])
        if not found[2]:
            return tuple(fields)
        at = found.end()


def _misfit(line: str, fields: tuple[str, ...]) -> str:
    columns = _TABLES.get(fields[0])
    if columns is None or (columns and len(fields) != columns):
        return f"invalid RBAC policy: {line}"
    return ""
