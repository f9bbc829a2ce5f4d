"""The accounts that projects let Argo CD sync as: who they are, and what must be granted for it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from argocd import globs
from argocd.glob_covering import is_literal
from argocd.impersonation import Entry, entries_of, is_forbidden
from argocd.policy import Behaviour

PROPOSED_DEFAULT = "default"
"""The account of the proposal for applications that no entry matches."""


@dataclass(frozen=True, slots=True, order=True)
class Grant:
    """The right to impersonate some accounts of a namespace; an empty namespace means any of them.

    A grant for one namespace fits a Role there, which a ClusterRole with the same rule would exceed.
    """

    namespace: str
    accounts: tuple[str, ...]

    @property
    def rule(self) -> dict[str, Any]:
        return {
            "apiGroups": [""],
            "resources": ["serviceaccounts"],
            "verbs": ["impersonate"],
            "resourceNames": list(self.accounts),
        }


def grants_for(project: Mapping[str, Any], *, behaviour: Behaviour = Behaviour.RELEASE) -> tuple[Grant, ...]:
    """What the credential of a cluster needs so that Argo CD can sync the project's applications there."""
    accounts: dict[str, set[str]] = {}
    for entry in entries_of(project):
        if not is_forbidden(entry.account):
            namespace, name = account_of(entry)
            accounts.setdefault(namespace, set()).add(name)
    if behaviour is Behaviour.PROPOSAL:
        accounts.setdefault("", set()).add(PROPOSED_DEFAULT)
    everywhere = accounts.get("", set())
    return tuple(
        Grant(namespace, tuple(sorted(needed)))
        for namespace, found in sorted(accounts.items())
        if (needed := found if not namespace else found - everywhere)
    )


def account_of(entry: Entry) -> tuple[str, str]:
    """Namespace and name of the account; the namespace is empty where the application decides it."""
    namespace, colon, name = entry.account.partition(":")
    if colon:
        return namespace, name
    return (entry.namespace if is_literal(entry.namespace) else ""), entry.account


def may_be(entry: Entry, *, namespace: str, name: str, argocd_namespace: str) -> bool:
    """Whether Argo CD may sync as this account because of the entry.

    Where the destination has no namespace the account is one of the application's, of which only Argo CD's
    own namespace is certain.
    """
    if ":" in entry.account:
        return entry.account == f"{namespace}:{name}"
    return entry.account == name and (
        _matches(entry.namespace, namespace)
        or (namespace == argocd_namespace and _matches(entry.namespace, ""))
    )


def _matches(pattern: str, text: str) -> bool:
    return globs.match(pattern, text) is globs.Verdict.YES


class SyncAccounts:
    """All projects' accounts by name, so that one writer's costs the same however many projects there are."""

    def __init__(self, *, argocd_namespace: str) -> None:
        self._argocd_namespace = argocd_namespace
        self._entries: dict[str, tuple[Entry, ...]] = {}
        self._projects: dict[str, dict[str, list[Entry]]] = {}

    def put(self, name: str, project: Mapping[str, Any]) -> None:
        self.drop(name)
        self._entries[name] = entries_of(project)
        for entry in self._entries[name]:
            self._projects.setdefault(entry.account, {}).setdefault(name, []).append(entry)

    def drop(self, name: str) -> None:
        for entry in self._entries.pop(name, ()):
            naming = self._projects.get(entry.account, {})
            naming.pop(name, None)
            if not naming:
                self._projects.pop(entry.account, None)

    def has(self, namespace: str, name: str) -> bool:
        return any(
            may_be(entry, namespace=namespace, name=name, argocd_namespace=self._argocd_namespace)
            for entry in self._named(f"{namespace}:{name}", name)
        )

    def _named(self, *texts: str) -> Iterable[Entry]:
        for text in texts:
            for entries in self._projects.get(text, {}).values():
                yield from entries
