"""The accounts that projects let Argo CD sync as: who they are, and what must be granted for it."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from argocd import names
from argocd.globs.covering import is_literal
from argocd.impersonation.derivation import ServiceAccountEntry, entries_of, is_forbidden
from argocd.judging.configuration import Behaviour

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


def account_of(entry: ServiceAccountEntry) -> tuple[str, str]:
    """Namespace and name of the account; the namespace is empty where the application decides it."""
    namespace, colon, name = entry.account.partition(":")
    if colon:
        return namespace, name
    return (entry.namespace if is_literal(entry.namespace) else ""), entry.account


class SyncAccounts:
    """Accounts of this cluster that projects name, so that asking about a writer costs no more with many projects.

    A glob names nobody: it means accounts that its author may not know. Where a destination has no namespace the
    account is one of the application's namespace, of which only Argo CD's own is certain.
    """

    def __init__(self, *, argocd_namespace: str) -> None:
        self._argocd_namespace = argocd_namespace
        self._named: dict[str, frozenset[tuple[str, str]]] = {}
        self._projects: Counter[tuple[str, str]] = Counter()

    def put(self, name: str, project: Mapping[str, Any]) -> None:
        self.drop(name)
        self._named[name] = found = frozenset(self._accounts(project))
        self._projects.update(found)

    def drop(self, name: str) -> None:
        for account in self._named.pop(name, ()):
            self._projects[account] -= 1
            if not self._projects[account]:
                del self._projects[account]

    def has(self, namespace: str, name: str) -> bool:
        return (namespace, name) in self._projects

    def _accounts(self, project: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        for entry in entries_of(project):
            if entry.server == names.IN_CLUSTER_SERVER and is_literal(entry.namespace):
                namespace, name = account_of(entry)
                yield namespace or self._argocd_namespace, name
