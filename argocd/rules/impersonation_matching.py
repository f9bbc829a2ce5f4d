"""Applications and destinations that no account to sync with was named for, and accounts that are missing."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from argocd import names, reading
from argocd.applications import destinations
from argocd.globs.covering import is_literal
from argocd.impersonation import derivation
from argocd.impersonation.accounts import account_of
from argocd.impersonation.derivation import AccountOutcome, ServiceAccountEntry, entries_of
from argocd.impersonation.entry_index import EntryIndex
from argocd.judging import writers
from argocd.judging.case import Action, Case, Finding, Kind, Profile, Rule, SharedLook
from argocd.judging.configuration import Behaviour
from argocd.judging.memo import Remembered
from argocd.judging.ratchet import differs
from argocd.kubernetes_names import is_dns_label, is_dns_subdomain
from argocd.projects.global_projects import global_projects_of
from argocd.rules import examples
from argocd.rules.impersonation import ENTRIES, own_entries, project_with

_Place = tuple[int, str, str, str]
"""The index of a destination, its server or its cluster's name, and its namespace."""
_ALL: _Place = (-1, "", "", "")


def _needs_accounts(case: Case) -> bool:
    """Whether an application without a matching entry fails to sync here."""
    surroundings = case.surroundings
    return (
        surroundings.settings.known
        and surroundings.settings.impersonation.enabled
        and surroundings.settings.impersonation.enforced
        and surroundings.configuration.impersonation.behaviour is Behaviour.RELEASE
    )


def _all_entries(project: Mapping[str, Any], case: Case) -> tuple[ServiceAccountEntry, ...] | None:
    """The project's own entries, then those of its global projects; None where one is not known."""
    own = case.once(own_entries) if project is case.object else entries_of(project)
    surroundings = case.surroundings
    if surroundings.configuration.argocd.version < derivation.GLOBAL_ENTRIES_SINCE:
        return own
    added = global_projects_of(project, settings=surroundings.settings, neighbours=surroundings.neighbours)
    if added is None:
        return None
    return (*own, *(entry for one in added for entry in entries_of(one)))


def _destination_without_account(case: Case, places: Iterable[_Place]) -> Iterator[Finding]:
    entries = _all_entries(case.object, case) if _needs_accounts(case) else None
    if entries is None:
        return
    hint = "Add an entry for it, here or in a global project; the last one may be a catch-all."
    rule = "impersonation/destination-without-account"
    if not entries:
        message = "impersonation is on and no entry names an account: no application of this project can sync"
        yield Finding(rule, ENTRIES, message, hint)
        return
    own = case.once(own_entries)
    (index,) = case.once(_own_index) if len(entries) == len(own) else (EntryIndex(entries),)
    for place, literal, name, namespace in places:
        server = literal or (_server_named(name, case) if name else "")
        if not server:
            continue
        found = derivation.derive(
            index.candidates(server=server, namespace=namespace),
            server=server,
            destination_namespace=namespace,
            application_namespace=case.surroundings.configuration.argocd.namespace,
        )
        if found.outcome is AccountOutcome.UNMATCHED:
            message = f"no entry names an account for {server} and namespace '{namespace}': applications there fail to sync"
            yield Finding(rule, f"spec.destinations[{place}]", message, hint)


@Remembered
def _own_index(case: Case) -> Iterator[EntryIndex]:
    yield EntryIndex(case.once(own_entries))


@Remembered
def _destinations_to_match(case: Case) -> Iterator[_Place]:
    """Those without a pattern, which are few, and where no entry is the project's own all of them at once.

    While the accounts, and the labels by which global projects add some, stay what they were only new destinations
    are looked at.
    """
    entries, listed = case.once(own_entries), reading.sequence(case.object, "spec", "destinations")
    if listed and not entries:
        yield _ALL
    same = (
        case.old is not None
        and entries == entries_of(case.old)
        and not differs(case.old, case.object, ("metadata", "labels"))
    )
    for index, destination in case.changed_entries("spec", "destinations") if same else enumerate(listed):
        server, name = reading.text(destination, "server"), reading.text(destination, "name")
        namespace = reading.text(destination, "namespace")
        cluster = server or name
        if cluster and is_literal(cluster) and is_literal(namespace) and "!" not in cluster + namespace:
            yield index, server, "" if server else name, namespace


def _server_named(name: str, case: Case) -> str:
    found = destinations.resolve(
        {"name": name},
        neighbours=case.surroundings.neighbours,
        in_cluster_enabled=case.surroundings.settings.in_cluster,
    )
    return found.cluster.server if found and found.cluster else ""


def _derived(case: Case) -> tuple[derivation.Derivation, str] | None:
    """As whom the Application would sync, and the server; None where that cannot be known."""
    surroundings = case.surroundings
    if not (surroundings.settings.known and surroundings.settings.impersonation.enabled):
        return None
    project = surroundings.neighbours.project(
        reading.text(case.object, "spec", "project") or names.DEFAULT_PROJECT
    )
    cluster = destinations.resolve(
        reading.mapping(case.object, "spec", "destination"),
        neighbours=surroundings.neighbours,
        in_cluster_enabled=surroundings.settings.in_cluster,
    )
    if not project or cluster is None or cluster.cluster is None:
        return None
    entries = _all_entries(project, case)
    if entries is None:
        return None
    server = cluster.cluster.server
    found = derivation.account_for(
        case.object,
        entries=entries,
        server=server,
        settings=surroundings.settings,
        configuration=surroundings.configuration,
    )
    return found, server


def _no_account(case: Case) -> Iterator[Finding]:
    derived = _derived(case)
    if derived and derived[0].error:
        project = reading.text(case.object, "spec", "project") or names.DEFAULT_PROJECT
        yield Finding(
            "impersonation/no-account",
            "spec.destination",
            derived[0].error,
            f"Add an entry for this destination to {ENTRIES} of the project {project}.",
        )


def _account_missing(case: Case, accounts: Iterable[tuple[str, str, str]]) -> Iterator[Finding]:
    for path, namespace, name in accounts:
        if case.surroundings.neighbours.service_account(namespace, name) is False:
            yield Finding(
                "impersonation/account-missing",
                path,
                f"there is no service account '{name}' in namespace '{namespace}', so syncs as it have no rights",
                f"Create it: kubectl create serviceaccount {name} --namespace {namespace}",
            )


@Remembered
def _accounts_here(case: Case) -> Iterator[tuple[str, str, str]]:
    """Of this cluster: the path that names one, its namespace and its name."""
    return _named_here(case) if case.kind is Kind.PROJECT else _derived_here(case)


def _named_here(case: Case) -> Iterator[tuple[str, str, str]]:
    for entry in case.once(own_entries):
        namespace, name = account_of(entry)
        if entry.server == names.IN_CLUSTER_SERVER and is_dns_label(namespace) and is_dns_subdomain(name):
            yield f"{entry.path}.defaultServiceAccount", namespace, name


def _derived_here(case: Case) -> Iterator[tuple[str, str, str]]:
    derived = _derived(case)
    if derived and derived[1] == names.IN_CLUSTER_SERVER:
        account = writers.service_account(derived[0].user)
        if account:
            yield "spec.destination", *account


_ON = examples.argocd_cm("application.sync.impersonation.enabled: 'true'") + examples.BEFORE
_PROJECT = frozenset({Kind.PROJECT})
_ENTRY = "server: https://kubernetes.default.svc, namespace: shop, defaultServiceAccount: deployer"
_ACCOUNT = (
    "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: deployer, namespace: shop}\n" + examples.BEFORE
)
_DESTINATIONS = "destinations:\n- {server: https://kubernetes.default.svc, namespace: %s}\n"

RULES = (
    Rule(
        id="impersonation/destination-without-account",
        kinds=_PROJECT,
        profile=Profile.RECOMMENDED,
        action=Action.WARN,
        reads=(ENTRIES, "spec.destinations", "metadata.labels"),
        title="Every destination of a project has an account to sync with",
        explanation=(
            "With impersonation enforced an application whose destination no entry matches cannot sync. Entries of "
            "global projects count after the project's own."
        ),
        bad=_ON + project_with(_ENTRY, spec=_DESTINATIONS % "shop-live"),
        good=_ON + project_with(_ENTRY, spec=_DESTINATIONS % "shop"),
        check=SharedLook(_destinations_to_match, _destination_without_account),
        neighbours=True,
    ),
    Rule(
        id="impersonation/no-account",
        kinds=frozenset({Kind.APPLICATION}),
        profile=Profile.RECOMMENDED,
        action=Action.WARN,
        refused_by_argocd=True,
        reads=("spec.destination", "spec.project"),
        title="An application finds an account to sync with",
        explanation=(
            "With impersonation enforced Argo CD needs an entry of the project, or of its global projects, that "
            "matches the URL of the destination's cluster and its namespace as written."
        ),
        bad=_ON
        + project_with(_ENTRY)
        + examples.BEFORE
        + examples.application(destination="server: https://kubernetes.default.svc, namespace: shop-live"),
        good=_ON + project_with(_ENTRY) + examples.BEFORE + examples.application(),
        check=_no_account,
        neighbours=True,
    ),
    Rule(
        id="impersonation/account-missing",
        kinds=frozenset({Kind.PROJECT, Kind.APPLICATION}),
        profile=Profile.RECOMMENDED,
        action=Action.WARN,
        reads=(ENTRIES, "spec.destination", "spec.project"),
        title="The account to sync with exists",
        explanation=(
            "Kubernetes lets a user be impersonated that does not exist; it has no rights, and every sync is "
            "forbidden. Only accounts of this cluster can be looked for."
        ),
        bad=_ON + project_with(_ENTRY),
        good=_ON + _ACCOUNT + project_with(_ENTRY),
        check=SharedLook(_accounts_here, _account_missing),
        neighbours=True,
    ),
)
