"""What Argo CD's API server checks on an AppProject, in its order and with its words, but all of it at once.

A project that is written with kubectl passes none of these checks in Argo CD: its controllers use it as it is.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import compress
from typing import Any

from argocd import globs, reading
from argocd.budget import FINDING, spend
from argocd.impersonation import derivation
from argocd.judging.configuration import Version
from argocd.judging.entries import added
from argocd.projects import roles, sync_windows
from argocd.projects.rule_ids import RefusalId
from argocd.shortening import told

_NOTHING: Mapping[str, Any] = {}
_LISTS = (list, tuple)
_DENIES_ALL = "!*"


class Code(StrEnum):
    """How the API server answers; about sync windows it gives no code."""

    NONE = ""
    INVALID_ARGUMENT = "InvalidArgument"
    ALREADY_EXISTS = "AlreadyExists"
    OUT_OF_RANGE = "OutOfRange"


@dataclass(frozen=True, slots=True)
class ValidationProblem:
    """`rule` is the id of the rule that reports it."""

    rule: RefusalId
    path: str
    message: str
    code: Code = Code.INVALID_ARGUMENT


def validate(
    project: Mapping[str, Any], *, version: Version, old: Mapping[str, Any] | None = None
) -> list[ValidationProblem]:
    """Everything that the API server would refuse, in the order in which it would find it.

    Of what the older version has too only that is told which concerns several entries: two that are the same.
    """
    return _Validation(project, version, old).problems


_Where = tuple[str, int]
"""A list under `spec` and a place in it: paths are only written out for what is wrong."""
_TEXT = frozenset({str})


class _Validation:
    __slots__ = ("_old", "_old_roles", "_project", "_version", "problems")

    def __init__(self, project: Mapping[str, Any], version: Version, old: Mapping[str, Any] | None) -> None:
        self.problems: list[ValidationProblem] = []
        self._version = version
        self._old = old
        self._old_roles = _by_name(reading.sequence(old, "spec", "roles"))
        spec = self._mapping(project.get("spec"), "spec")
        metadata = self._mapping(project.get("metadata"), "metadata")
        name = metadata.get("name")
        self._project = name if isinstance(name, str) else ""
        self._destinations(spec)
        self._source_namespaces(spec)
        self._source_repos(spec)
        self._roles(spec)
        self._windows(spec)
        self._accounts(spec)

    def _add(
        self, rule: RefusalId, where: _Where, rest: str, message: str, code: Code = Code.INVALID_ARGUMENT
    ) -> None:
        spend(FINDING)
        self.problems.append(
            ValidationProblem(rule, f"spec.{where[0]}[{where[1]}]{rest}", told(message), code)
        )

    # -- what is there, and whether it is what it should be --------------------------------------------------

    def _wrong(self, path: str, wanted: str) -> None:
        spend(FINDING)
        self.problems.append(ValidationProblem("project/shape", path, f"must be {wanted}"))

    def _mapping(self, value: Any, path: str) -> Mapping[str, Any]:
        if isinstance(value, Mapping):
            return value
        if value is not None:
            self._wrong(path, "an object")
        return _NOTHING

    def _list(self, owner: Mapping[str, Any], key: str, where: _Where | None = None) -> Sequence[Any]:
        value = owner.get(key)
        if value is None or isinstance(value, _LISTS):
            spend(len(value or ()))
            return value or ()
        self._wrong(f"spec.{where[0]}[{where[1]}].{key}" if where else f"spec.{key}", "a list")
        return ()

    def _entries(self, spec: Mapping[str, Any], key: str) -> Iterator[tuple[_Where, Mapping[str, Any]]]:
        for index, entry in enumerate(self._list(spec, key)):
            # Nearly every entry is a dict, and asking the abstract class takes long.
            yield (
                (key, index),
                entry if type(entry) is dict else self._mapping(entry, f"spec.{key}[{index}]"),
            )

    def _fields(self, owner: Mapping[str, Any], keys: tuple[str, ...], where: _Where) -> list[str]:
        """The texts of these fields; what is missing or no text is empty."""
        values = [owner.get(key, "") for key in keys]
        if not _TEXT.issuperset(map(type, values)):
            for place, value in enumerate(values):
                if not isinstance(value, str):
                    if value is not None:
                        self._wrong(f"spec.{where[0]}[{where[1]}].{keys[place]}", "a text")
                    values[place] = ""
        return values

    def _texts(self, owner: Mapping[str, Any], key: str, where: _Where | None = None) -> Sequence[str]:
        if key not in owner:
            return ()
        values = self._list(owner, key, where)
        if _TEXT.issuperset(map(type, values)):
            return values
        at = f"spec.{where[0]}[{where[1]}].{key}" if where else f"spec.{key}"
        for index, value in enumerate(values):
            if value is not None and not isinstance(value, str):
                self._wrong(f"{at}[{index}]", "a text")
        return [value if isinstance(value, str) else "" for value in values]

    def _fresh(self, spec: Mapping[str, Any], key: str) -> Container[int]:
        """The places of entries that the older version has not."""
        listed = reading.sequence(spec, key)
        if self._old is None:
            return range(len(listed))
        return {index for index, _ in added(listed, reading.sequence(self._old, "spec", key))}

    # -- the checks ------------------------------------------------------------------------------------------

    def _destinations(self, spec: Mapping[str, Any]) -> None:
        seen: set[str] = set()
        fresh = self._fresh(spec, "destinations")
        for where, entry in self._entries(spec, "destinations"):
            name, server, namespace = fields = self._fields(entry, _DESTINATION, where)
            if _DENIES_ALL in fields and where[1] in fresh:
                for key, value in zip(_DESTINATION, fields, strict=True):
                    if value == _DENIES_ALL:
                        message = f"{key} has an invalid format, '!*'"
                        self._add("project/destination-format", where, f".{key}", message)
            target = f"{server or name}/{namespace}"
            if target in seen:
                self._add("project/duplicate-destination", where, "", f"destination '{target}' already added")
            seen.add(target)

    def _source_namespaces(self, spec: Mapping[str, Any]) -> None:
        for index, namespace in _repeated(self._texts(spec, "sourceNamespaces")).items():
            message = f"source namespace '{namespace}' already added"
            self._add("project/duplicate-source-namespace", ("sourceNamespaces", index), "", message)

    def _source_repos(self, spec: Mapping[str, Any]) -> None:
        urls = self._texts(spec, "sourceRepos")
        repeated = _repeated(urls)
        if not repeated and _DENIES_ALL not in urls:
            return
        fresh = self._fresh(spec, "sourceRepos")
        for index, url in enumerate(urls):
            where = ("sourceRepos", index)
            if url == _DENIES_ALL and index in fresh:
                message = "source repository has an invalid format, '!*'"
                self._add("project/source-repo-format", where, "", message)
            if index in repeated:
                message = f"source repository '{url}' already added"
                self._add("project/duplicate-source-repo", where, "", message)

    def _roles(self, spec: Mapping[str, Any]) -> None:
        seen: set[str] = set()
        fresh = self._fresh(spec, "roles")
        for where, role in self._entries(spec, "roles"):
            (name,) = self._fields(role, ("name",), where)
            if name in seen:
                message = f"role '{name}' already exists"
                self._add("project/duplicate-role", where, "", message, Code.ALREADY_EXISTS)
            seen.add(name)
            if where[1] not in fresh:
                continue
            if problem := roles.role_name_problem(name):
                self._add("project/role-name", where, ".name", problem)
            self._policies(role, name, where)
            self._groups(role, name, where)

    def _policies(self, role: Mapping[str, Any], name: str, where: _Where) -> None:
        listed = self._texts(role, "policies", where)
        repeated, before = _repeated(listed), self._before(name, "policies")
        for index, policy in enumerate(listed):
            if index in repeated:
                message = f"policy '{policy}' already exists for role '{name}'"
                self._add(
                    "project/duplicate-policy", where, f".policies[{index}]", message, Code.ALREADY_EXISTS
                )
            if policy in before:
                continue
            for rule, problem in roles.policy_problems(self._project, name, policy, version=self._version):
                self._add(rule, where, f".policies[{index}]", problem)

    def _groups(self, role: Mapping[str, Any], name: str, where: _Where) -> None:
        listed = self._texts(role, "groups", where)
        repeated, before = _repeated(listed), self._before(name, "groups")
        for index, group in enumerate(listed):
            if index in repeated:
                message = f"group '{group}' already exists for role '{name}'"
                self._add("project/duplicate-group", where, f".groups[{index}]", message, Code.ALREADY_EXISTS)
            if group not in before and (problem := roles.group_problem(group)):
                self._add("project/group-name", where, f".groups[{index}]", problem)

    def _before(self, role: str, key: str) -> Container[str]:
        """What a role of that name had."""
        return set(reading.texts(self._old_roles.get(role), key))

    def _windows(self, spec: Mapping[str, Any]) -> None:
        seen: set[tuple[Any, ...]] = set()
        fresh = self._fresh(spec, "syncWindows")
        for index, item in enumerate(self._list(spec, "syncWindows")):
            if item is None:
                continue
            where = ("syncWindows", index)
            window = self._mapping(item, f"spec.syncWindows[{index}]") if type(item) is not dict else item
            fields = self._fields(window, _WINDOW, where)
            targets = [self._texts(window, key, where) for key in sync_windows.TARGETS]
            identity = sync_windows.identity_of(
                fields, targets, window.get("andOperator"), version=self._version
            )
            if identity in seen:
                kind, schedule, duration = identity[:3]
                named = f"kind '{kind}', schedule '{schedule}', and duration '{duration}'"
                message = f"sync window with {named} already exists"
                self._add("project/duplicate-sync-window", where, "", message, Code.ALREADY_EXISTS)
            seen.add(identity)
            if index not in fresh:
                continue
            for rule, key, problem in sync_windows.field_problems(*fields[:4]):
                self._add(rule, where, f".{key}", problem, Code.NONE)
            if not any(targets):
                problem = sync_windows.target_problem(*fields[:3])
                self._add("project/sync-window-target", where, "", problem, Code.OUT_OF_RANGE)

    def _accounts(self, spec: Mapping[str, Any]) -> None:
        seen: set[str] = set()
        fresh = self._fresh(spec, "destinationServiceAccounts")
        for where, entry in self._entries(spec, "destinationServiceAccounts"):
            server, namespace, account = fields = self._fields(entry, _ACCOUNT, where)
            wrong = where[1] in fresh and (
                _is_no_plain_glob(server),
                _is_no_plain_glob(namespace),
                derivation.is_forbidden(account),
            )
            if wrong and any(wrong):
                found = compress(zip(_ACCOUNT, fields, strict=True), wrong)
                for key, value in sorted(found, key=_is_found_by_compiling):
                    message = f"{key} has an invalid format, '{value}'"
                    self._add("project/destination-service-account", where, f".{key}", message)
            target = f"{server}/{namespace}"
            if target in seen:
                message = f"destinationServiceAccount '{target}' already added"
                self._add("project/duplicate-destination-service-account", where, "", message)
            seen.add(target)


def _by_name(roles: Iterable[Any]) -> dict[str, Any]:
    return {reading.text(role, "name"): role for role in roles}


_DESTINATION = ("name", "server", "namespace")
_ACCOUNT = ("server", "namespace", "defaultServiceAccount")
_WINDOW = ("kind", "schedule", "duration", "description", "timeZone")


def _repeated(texts: Sequence[str]) -> Mapping[int, str]:
    """The texts that were there before, by their places."""
    if len(set(texts)) == len(texts):
        return _NOTHING_REPEATED
    seen: set[str] = set()
    repeated = {}
    for index, text in enumerate(texts):
        if text in seen:
            repeated[index] = text
        seen.add(text)
    return repeated


_NOTHING_REPEATED: Mapping[int, str] = {}


def _is_no_plain_glob(pattern: str) -> bool:
    return "!" in pattern or bool(globs.compile_error(pattern))


def _is_found_by_compiling(field: tuple[str, str]) -> bool:
    """Argo CD looks at the characters of all three fields before it compiles the two patterns."""
    key, value = field
    return key != _ACCOUNT[2] and "!" not in value
