"""Entries of a project's destinationServiceAccounts that do not mean what they seem to."""

from collections.abc import Iterable, Iterator

from argocd import names, reading
from argocd.globs.covering import is_literal
from argocd.impersonation import derivation
from argocd.impersonation.accounts import account_of
from argocd.impersonation.derivation import ServiceAccountEntry, entries_of
from argocd.impersonation.entry_index import shadowed
from argocd.judging.case import Action, Case, Finding, Kind, Profile, Rule, SharedLook
from argocd.judging.entries import is_reordered
from argocd.judging.memo import Remembered
from argocd.kubernetes_names import is_account
from argocd.rules import examples
from argocd.rules.project_rule import noticed

ENTRIES = "spec.destinationServiceAccounts"
_LISTED = ("spec", "destinationServiceAccounts")
_KUBE_SYSTEM = "kube-system"


@Remembered
def own_entries(case: Case) -> tuple[ServiceAccountEntry, ...]:
    return entries_of(case.object)


@Remembered
def _changed(case: Case) -> Iterable[ServiceAccountEntry]:
    entries = case.once(own_entries)
    if case.old is None:
        return entries
    places = {index for index, _ in case.changed_entries(*_LISTED)}
    return [entry for entry in entries if entry.place in places]


def _account_name(case: Case) -> Iterator[Finding]:
    for entry in case.once(_changed):
        # What is forbidden Argo CD refuses itself.
        if not is_account(entry.account) and not derivation.is_forbidden(entry.account):
            user = derivation.user_of(entry.account, namespace="NAMESPACE")
            yield Finding(
                "impersonation/account-name",
                f"{entry.path}.defaultServiceAccount",
                f"no service account can be called '{entry.account}': Argo CD would impersonate '{user}'",
                "Write the account's name, or namespace:name where it is not in the destination's namespace.",
            )


@Remembered
def _odd_servers(case: Case) -> Iterator[tuple[ServiceAccountEntry, str]]:
    for entry in case.once(_changed):
        if problem := _server_problem(entry.server):
            yield entry, problem


def _server(case: Case, odd: Iterable[tuple[ServiceAccountEntry, str]]) -> Iterator[Finding]:
    for entry, problem in odd:
        yield Finding("impersonation/server", f"{entry.path}.server", problem, _better_server(entry, case))


def _server_problem(server: str) -> str:
    if not server:
        return "an entry without a server matches no cluster"
    if ("://" in server and not server.endswith("/")) or not is_literal(server):
        return ""
    if "://" in server:
        return f"'{server}' ends with a slash, and the URLs of clusters do not"
    return f"'{server}' is no URL, and entries are compared with the URLs of clusters"


def _better_server(entry: ServiceAccountEntry, case: Case) -> str:
    server = entry.server.rstrip("/") if "://" in entry.server else ""
    if entry.server == names.IN_CLUSTER_NAME:
        server = names.IN_CLUSTER_SERVER
    elif not server and entry.server:
        clusters = case.surroundings.neighbours.clusters_by_name(entry.server) or ()
        server = clusters[0].server if clusters else ""
    return f"Write {server}." if server else f"Write a URL such as {names.IN_CLUSTER_SERVER}, or a glob."


def _catch_all(case: Case) -> Iterator[Finding]:
    entries = case.once(own_entries)
    for entry in entries[:-1]:
        if entry.is_catch_all:
            yield Finding(
                "impersonation/catch-all-not-last",
                entry.path,
                f"this entry matches everything, so the {len(entries) - 1 - entries.index(entry)} after it never count",
                "Move it to the end of the list.",
            )
            return


def _shadowed(case: Case) -> Iterator[Finding]:
    """By what this update brings: which entry comes first counts, so that another order makes all of them new."""
    fresh = None
    if case.old is not None and not is_reordered(
        reading.sequence(case.object, *_LISTED), reading.sequence(case.old, *_LISTED)
    ):
        fresh = {entry.place for entry in case.once(_changed)}
    for entry, one in shadowed(case.once(own_entries), fresh=fresh):
        yield Finding(
            "impersonation/shadowed-entry",
            entry.path,
            f"never reached: {one.path} matches all that this entry matches, and the first match counts",
            "Put narrow entries before wide ones.",
        )


def _control_plane(case: Case) -> Iterator[Finding]:
    argocd_namespace = case.surroundings.configuration.argocd.namespace
    for entry in case.once(_changed):
        namespace, name = account_of(entry)
        if namespace in {argocd_namespace, _KUBE_SYSTEM}:
            yield Finding(
                "impersonation/control-plane-account",
                f"{entry.path}.defaultServiceAccount",
                f"'{name}' is an account of {namespace}: its rights are those of the control plane, not of a tenant",
                "Name an account of the tenant's namespace that may do what its applications need.",
            )


def _feature_off(case: Case) -> Iterator[Finding]:
    settings = case.surroundings.settings
    if settings.known and not settings.impersonation.enabled and case.once(own_entries):
        yield Finding(
            "impersonation/feature-off",
            ENTRIES,
            "impersonation is off, so Argo CD ignores these entries and syncs with its own rights",
            f'Set {names.IMPERSONATION_ENABLED_KEY}: "true" in {names.ARGOCD_CM}.',
        )


@Remembered
def _odd_entries(case: Case) -> Iterator[Finding]:
    for look in (_account_name, _catch_all, _shadowed, _control_plane):
        yield from look(case)


_PROJECT = frozenset({Kind.PROJECT})
_IN_CLUSTER = "server: https://kubernetes.default.svc"


def project_with(*entries: str, spec: str = "") -> str:
    """An example project with these entries, each written as a flow mapping's inside."""
    listed = "".join(f"\n- {{{entry}}}" for entry in entries)
    return examples.project(spec=f"{spec}destinationServiceAccounts:{listed}")


_GOOD = project_with(f"{_IN_CLUSTER}, namespace: shop, defaultServiceAccount: deployer")

RULES = (
    Rule(
        id="impersonation/account-name",
        kinds=_PROJECT,
        profile=Profile.RECOMMENDED,
        action=Action.DENY,
        reads=(ENTRIES,),
        title="An account to sync with has a name that an account can have",
        explanation=(
            "Argo CD takes almost any text and impersonates a user of that name, whom no role binding knows: "
            "every sync is forbidden. A text with a colon is namespace:name and nothing else; "
            "`system:serviceaccount:` is put before it by Argo CD."
        ),
        bad=project_with(
            f"{_IN_CLUSTER}, namespace: shop, defaultServiceAccount: 'system:serviceaccount:shop:deployer'"
        ),
        good=project_with(f"{_IN_CLUSTER}, namespace: '*', defaultServiceAccount: 'shop:deployer'"),
        check=noticed("impersonation/account-name", _odd_entries),
    ),
    Rule(
        id="impersonation/server",
        kinds=_PROJECT,
        profile=Profile.RECOMMENDED,
        action=Action.WARN,
        reads=(ENTRIES,),
        title="An entry's server is a cluster's URL",
        explanation=(
            "Entries are compared with the URL of the destination's cluster, also where the Application names the "
            "cluster. A cluster's name, an empty text or a URL with a slash at its end matches nothing."
        ),
        bad=project_with("server: in-cluster, namespace: shop, defaultServiceAccount: deployer"),
        good=_GOOD,
        check=SharedLook(_odd_servers, _server),
    ),
    Rule(
        id="impersonation/catch-all-not-last",
        kinds=_PROJECT,
        profile=Profile.RECOMMENDED,
        action=Action.WARN,
        reads=(ENTRIES,),
        title="The entry that matches everything is the last one",
        explanation="The first entry that matches decides; what stands after a catch-all never counts.",
        bad=project_with(
            "server: '*', namespace: '*', defaultServiceAccount: viewer",
            f"{_IN_CLUSTER}, namespace: shop, defaultServiceAccount: deployer",
        ),
        good=project_with(
            f"{_IN_CLUSTER}, namespace: shop, defaultServiceAccount: deployer",
            "server: '*', namespace: '*', defaultServiceAccount: viewer",
        ),
        check=noticed("impersonation/catch-all-not-last", _odd_entries),
    ),
    Rule(
        id="impersonation/shadowed-entry",
        kinds=_PROJECT,
        profile=Profile.RECOMMENDED,
        action=Action.WARN,
        reads=(ENTRIES,),
        title="Every entry can be reached",
        explanation=(
            "The first entry that matches decides. An entry whose clusters and namespaces an earlier one already "
            "matches is dead, and its account is never used."
        ),
        bad=project_with(
            f"{_IN_CLUSTER}, namespace: 'shop-*', defaultServiceAccount: generic",
            f"{_IN_CLUSTER}, namespace: shop-live, defaultServiceAccount: careful",
        ),
        good=project_with(
            f"{_IN_CLUSTER}, namespace: shop-live, defaultServiceAccount: careful",
            f"{_IN_CLUSTER}, namespace: 'shop-*', defaultServiceAccount: generic",
        ),
        check=noticed("impersonation/shadowed-entry", _odd_entries),
    ),
    Rule(
        id="impersonation/control-plane-account",
        kinds=_PROJECT,
        profile=Profile.RECOMMENDED,
        action=Action.WARN,
        reads=(ENTRIES,),
        title="A project does not sync as an account of the control plane",
        explanation=(
            "Impersonation is there to give tenants fewer rights than Argo CD has. An account of Argo CD's namespace "
            "or of kube-system gives them as many, or more."
        ),
        bad=project_with(
            "server: '*', namespace: '*', defaultServiceAccount: 'argocd:argocd-application-controller'"
        ),
        good=_GOOD,
        check=noticed("impersonation/control-plane-account", _odd_entries),
    ),
    Rule(
        id="impersonation/feature-off",
        kinds=_PROJECT,
        profile=Profile.RECOMMENDED,
        action=Action.WARN,
        reads=(ENTRIES,),
        title="Accounts to sync with are used",
        explanation=(
            "With impersonation switched off Argo CD ignores destinationServiceAccounts and says nothing: "
            "applications sync with its own rights."
        ),
        bad=examples.argocd_cm("application.sync.impersonation.enabled: 'false'") + examples.BEFORE + _GOOD,
        good=examples.argocd_cm("application.sync.impersonation.enabled: 'true'") + examples.BEFORE + _GOOD,
        check=_feature_off,
        neighbours=True,
    ),
)
