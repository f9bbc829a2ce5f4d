"""What Argo CD's API server checks on an AppProject, in its order and with its words, but all of it at once.

A project that is written with kubectl passes none of these checks in Argo CD: its controllers use it as it is.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from argocd import globs, impersonation, policies, windows
from argocd.policy import Version

_NOTHING: Mapping[str, Any] = {}
_DENIES_ALL = "!*"


class Code(StrEnum):
    """How the API server answers; about sync windows it gives no code."""

    NONE = ""
    INVALID_ARGUMENT = "InvalidArgument"
    ALREADY_EXISTS = "AlreadyExists"
    OUT_OF_RANGE = "OutOfRange"


@dataclass(frozen=True, slots=True)
class Problem:
    """`rule` is the id of the rule that reports it."""

    rule: str
    path: str
    message: str
    code: Code = Code.INVALID_ARGUMENT


def validate(project: Mapping[str, Any], *, version: Version) -> list[Problem]:
    """Everything that the API server would refuse, in the order in which it would find it."""
    return _Validation(project, version).problems


class _Validation:
    def __init__(self, project: Mapping[str, Any], version: Version) -> None:
        self.problems: list[Problem] = []
        self._version = version
        spec = self._mapping(project.get("spec"), "spec")
        metadata = self._mapping(project.get("metadata"), "metadata")
        self._project = self._text(metadata, "name", "metadata")
        self._destinations(spec)
        self._source_namespaces(spec)
        self._source_repos(spec)
        self._roles(spec)
        self._windows(spec)
        self._accounts(spec)

    def _add(self, rule: str, path: str, message: str, code: Code = Code.INVALID_ARGUMENT) -> None:
        self.problems.append(Problem(rule, path, message, code))

    # -- what is there, and whether it can be what it should be ----------------------------------------------

    def _wrong(self, path: str, wanted: str) -> None:
        self._add("project/shape", path, f"must be {wanted}")

    def _mapping(self, value: Any, path: str) -> Mapping[str, Any]:
        if isinstance(value, Mapping):
            return value
        if value is not None:
            self._wrong(path, "an object")
        return _NOTHING

    def _list(self, owner: Mapping[str, Any], key: str, path: str) -> list[Any] | tuple[Any, ...]:
        value = owner.get(key)
        if isinstance(value, list | tuple):
            return value
        if value is not None:
            self._wrong(f"{path}.{key}", "a list")
        return ()

    def _mappings(self, spec: Mapping[str, Any], key: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for index, item in enumerate(self._list(spec, key, "spec")):
            path = f"spec.{key}[{index}]"
            yield path, self._mapping(item, path)

    def _text(self, owner: Mapping[str, Any], key: str, path: str) -> str:
        value = owner.get(key)
        if isinstance(value, str):
            return value
        if value is not None:
            self._wrong(f"{path}.{key}", "a text")
        return ""

    def _texts(self, owner: Mapping[str, Any], key: str, path: str) -> list[str]:
        texts: list[str] = []
        for item in self._list(owner, key, path):
            if isinstance(item, str):
                texts.append(item)
                continue
            if item is not None:
                self._wrong(f"{path}.{key}[{len(texts)}]", "a text")
            texts.append("")
        return texts

    # -- the checks ------------------------------------------------------------------------------------------

    def _destinations(self, spec: Mapping[str, Any]) -> None:
        seen: set[str] = set()
        for path, entry in self._mappings(spec, "destinations"):
            name = self._text(entry, "name", path)
            server = self._text(entry, "server", path)
            namespace = self._text(entry, "namespace", path)
            if _DENIES_ALL in {name, server, namespace}:
                for key, value in (("name", name), ("server", server), ("namespace", namespace)):
                    if value == _DENIES_ALL:
                        self._add(
                            "project/destination-format",
                            f"{path}.{key}",
                            f"{key} has an invalid format, '!*'",
                        )
            target = f"{server or name}/{namespace}"
            if target in seen:
                self._add("project/duplicate-destination", path, f"destination '{target}' already added")
            seen.add(target)

    def _source_namespaces(self, spec: Mapping[str, Any]) -> None:
        seen: set[str] = set()
        for index, namespace in enumerate(self._texts(spec, "sourceNamespaces", "spec")):
            if namespace in seen:
                self._add(
                    "project/duplicate-source-namespace",
                    f"spec.sourceNamespaces[{index}]",
                    f"source namespace '{namespace}' already added",
                )
            seen.add(namespace)

    def _source_repos(self, spec: Mapping[str, Any]) -> None:
        seen: set[str] = set()
        for index, url in enumerate(self._texts(spec, "sourceRepos", "spec")):
            path = f"spec.sourceRepos[{index}]"
            if url == _DENIES_ALL:
                self._add("project/source-repo-format", path, "source repository has an invalid format, '!*'")
            if url in seen:
                self._add("project/duplicate-source-repo", path, f"source repository '{url}' already added")
            seen.add(url)

    def _roles(self, spec: Mapping[str, Any]) -> None:
        seen: set[str] = set()
        for path, role in self._mappings(spec, "roles"):
            name = self._text(role, "name", path)
            if name in seen:
                self._add(
                    "project/duplicate-role", path, f"role '{name}' already exists", Code.ALREADY_EXISTS
                )
            seen.add(name)
            if problem := policies.role_name_problem(name):
                self._add("project/role-name", f"{path}.name", problem)
            self._policies(role, name, path)
            self._groups(role, name, path)

    def _policies(self, role: Mapping[str, Any], name: str, path: str) -> None:
        seen: set[str] = set()
        for index, policy in enumerate(self._texts(role, "policies", path)):
            at = f"{path}.policies[{index}]"
            if policy in seen:
                self._add(
                    "project/duplicate-policy",
                    at,
                    f"policy '{policy}' already exists for role '{name}'",
                    Code.ALREADY_EXISTS,
                )
            seen.add(policy)
            for rule, problem in policies.policy_problems(self._project, name, policy, version=self._version):
                self._add(rule, at, problem)

    def _groups(self, role: Mapping[str, Any], name: str, path: str) -> None:
        seen: set[str] = set()
        for index, group in enumerate(self._texts(role, "groups", path)):
            at = f"{path}.groups[{index}]"
            if group in seen:
                self._add(
                    "project/duplicate-group",
                    at,
                    f"group '{group}' already exists for role '{name}'",
                    Code.ALREADY_EXISTS,
                )
            seen.add(group)
            if problem := policies.group_problem(group):
                self._add("project/group-name", at, problem)

    def _windows(self, spec: Mapping[str, Any]) -> None:
        seen: set[tuple[Any, ...]] = set()
        for index, item in enumerate(self._list(spec, "syncWindows", "spec")):
            if item is None:
                continue
            path = f"spec.syncWindows[{index}]"
            window = self._mapping(item, path)
            identity = windows.identity(window, version=self._version)
            if identity in seen:
                kind, schedule, duration = identity[:3]
                self._add(
                    "project/duplicate-sync-window",
                    path,
                    f"sync window with kind '{kind}', schedule '{schedule}', and duration '{duration}' already exists",
                    Code.ALREADY_EXISTS,
                )
            seen.add(identity)
            self._window(window, path)

    def _window(self, window: Mapping[str, Any], path: str) -> None:
        for key in windows.TARGETS:
            self._texts(window, key, path)
        for key, check in _WINDOW_FIELDS:
            if problem := check(self._text(window, key, path)):
                self._add(f"project/sync-window-{key}", f"{path}.{key}", problem, Code.NONE)
        if problem := windows.target_problem(window):
            self._add("project/sync-window-target", path, problem, Code.OUT_OF_RANGE)

    def _accounts(self, spec: Mapping[str, Any]) -> None:
        seen: set[str] = set()
        for path, entry in self._mappings(spec, "destinationServiceAccounts"):
            server = self._text(entry, "server", path)
            namespace = self._text(entry, "namespace", path)
            account = self._text(entry, "defaultServiceAccount", path)
            for key, wrong in (
                ("server", _is_no_plain_glob(server)),
                ("namespace", _is_no_plain_glob(namespace)),
                ("defaultServiceAccount", impersonation.is_forbidden(account)),
            ):
                if wrong:
                    self._add(
                        "project/destination-service-account",
                        f"{path}.{key}",
                        f"{key} has an invalid format, '{entry.get(key) or ''}'",
                    )
            target = f"{server}/{namespace}"
            if target in seen:
                self._add(
                    "project/duplicate-destination-service-account",
                    path,
                    f"destinationServiceAccount '{target}' already added",
                )
            seen.add(target)


_WINDOW_FIELDS = (
    ("kind", windows.kind_problem),
    ("schedule", windows.schedule_problem),
    ("duration", windows.duration_problem),
    ("description", windows.description_problem),
)


def _is_no_plain_glob(pattern: str) -> bool:
    return "!" in pattern or bool(globs.compiled(pattern).error)
