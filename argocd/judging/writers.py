"""Who asks: Argo CD, a principal, an agent, a replica, Kubernetes itself, or somebody else.

A writer without a name (a pipeline, where nobody has asked yet) is none of these.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import re2

from argocd import names
from argocd.judging.case import Surroundings, User
from argocd.judging.configuration import Configuration, matches

_CLEANERS = frozenset({names.GARBAGE_COLLECTOR, names.NAMESPACE_CONTROLLER, names.CONTROLLER_MANAGER})


def service_account(user: str) -> tuple[str, str] | None:
    """Namespace and name of a service account's user name."""
    namespace, _, name = user.removeprefix(names.SERVICE_ACCOUNT_PREFIX).partition(":")
    if not user.startswith(names.SERVICE_ACCOUNT_PREFIX) or not namespace or not name or ":" in name:
        return None
    return namespace, name


def is_kubernetes_cleaning_up(writer: User) -> bool:
    """The garbage collector or the namespace controller, whose requests always pass."""
    return writer.user in _CLEANERS


def is_tiphys(writer: User, *, namespace: str = names.TIPHYS_NAMESPACE) -> bool:
    return service_account(writer.user) == (namespace, names.TIPHYS_WEBHOOK_ACCOUNT)


def is_remote_argocd(writer: User) -> bool:
    """An Argo CD that lives elsewhere and reaches this cluster with the account it made here."""
    return writer.user == names.ARGOCD_MANAGER


def is_argocd(writer: User, surroundings: Surroundings) -> bool:
    """One of Argo CD's own accounts, or one that the configuration adds."""
    configuration = surroundings.configuration
    return is_remote_argocd(writer) or _is_one_of(
        writer, configuration, names.ARGOCD_ACCOUNTS, configuration.argocd.identities
    )


def is_syncing(writer: User, surroundings: Surroundings) -> bool:
    """Argo CD itself or, while impersonation is on, an account that it syncs as.

    That counts for the marks on what is synced and for nothing else: whoever may write a project names such accounts.
    """
    return is_argocd(writer, surroundings) or (
        surroundings.settings.impersonation.enabled and is_impersonated(writer, surroundings)
    )


def is_argocd_server(writer: User, configuration: Configuration) -> bool:
    """The account behind Argo CD's UI and command line; some installations put their own name before it."""
    namespace, name = service_account(writer.user) or ("", "")
    return namespace == configuration.argocd.namespace and name.endswith(names.ARGOCD_SERVER)


def is_principal(writer: User, configuration: Configuration) -> bool:
    added = configuration.agents.principal_identities
    return _is_one_of(writer, configuration, names.PRINCIPAL_ACCOUNTS, added)


def is_agent(writer: User, configuration: Configuration) -> bool:
    """An agent's sidecar on a workload cluster, or a writer that `agents.identity` takes for an agent."""
    added = configuration.agents.agent_identities
    return _is_one_of(writer, configuration, names.AGENT_ACCOUNTS, added) or bool(
        agent_named(writer, configuration)
    )


def is_replica(writer: User, configuration: Configuration) -> bool:
    added = configuration.agents.replica_identities
    return _is_one_of(writer, configuration, names.REPLICA_ACCOUNTS, added)


def agent_named(writer: User, configuration: Configuration) -> str:
    """The agent that the writer belongs to by `agents.identity`, or nothing."""
    if not configuration.agents.identity or not writer.user:
        return ""
    found = _expression(configuration.agents.identity).fullmatch(writer.user)
    return (found.group("agent") or "") if found else ""


def is_impersonated(writer: User, surroundings: Surroundings) -> bool:
    """Whether a project lets Argo CD sync to this cluster as this very account. Unknown projects name nobody."""
    account = service_account(writer.user)
    if account is None:
        return False
    return bool(surroundings.neighbours.is_sync_account(*account))


def _is_one_of(
    writer: User, configuration: Configuration, accounts: Iterable[str], added: tuple[str, ...]
) -> bool:
    if not writer.user:
        return False
    account = service_account(writer.user)
    if account and account[0] == configuration.argocd.namespace and account[1] in accounts:
        return True
    return matches(added, writer.user)


@lru_cache(maxsize=16)
def _expression(pattern: str) -> Any:
    return re2.compile(pattern)
