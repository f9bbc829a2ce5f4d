"""The accounts that projects let Argo CD sync as: who they are, and what must be granted for it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from argocd import globs
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
    """All projects' accounts, so that asking about a writer costs no more with a thousand projects.

    Where a destination has no namespace the account is one of the application's namespace, of which only
    Argo CD's own is certain.
    """

    def __init__(self, *, argocd_namespace: str) -> None:
        self._argocd_namespace = argocd_namespace
        self._entries: dict[str, tuple[ServiceAccountEntry, ...]] = {}
        self._certain: Counter[tuple[str, str]] = Counter()
        self._patterns: dict[str, Counter[str]] = {}

    def put(self, name: str, project: Mapping[str, Any]) -> None:
        self.drop(name)
        self._entries[name] = entries_of(project)
        for entry in self._entries[name]:
            self._count(entry, 1)

    def drop(self, name: str) -> None:
        for entry in self._entries.pop(name, ()):
            self._count(entry, -1)

    def has(self, namespace: str, name: str) -> bool:
        if self._certain[namespace, name] > 0:
            return True
        here = {namespace, ""} if namespace == self._argocd_namespace else {namespace}
        patterns = self._patterns.get(name, ())
        return any(globs.match(pattern, text) is globs.Verdict.YES for pattern in patterns for text in here)

    def _count(self, entry: ServiceAccountEntry, step: int) -> None:
        if ":" in entry.account or is_literal(entry.namespace):
            namespace, name = account_of(entry)
            key = (namespace or self._argocd_namespace, name)
            self._certain[key] += step
            if not self._certain[key]:
                del self._certain[key]
            return
        patterns = self._patterns.setdefault(entry.account, Counter())
        patterns[entry.namespace] += step
        if not patterns[entry.namespace]:
            del patterns[entry.namespace]
        if not patterns:
            del self._patterns[entry.account]
