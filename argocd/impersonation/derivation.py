"""Which service account an application syncs with: `destinationServiceAccounts` of its project.

The released Argo CD and the proposal before it agree on everything but what happens without a match.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from argocd import globs, names, reading
from argocd.judging.configuration import Behaviour, Configuration, Version
from argocd.settings.argocd_cm import Settings

FORBIDDEN = frozenset("!*[]{}\\/")
"""Characters that Argo CD takes in no service account."""

UNMATCHED_IS_NO_ERROR_SINCE: Version = (3, 5)
GLOBAL_ENTRIES_SINCE: Version = (3, 5)


class ServiceAccountEntry(NamedTuple):
    """One of `destinationServiceAccounts`; `place` is where it stands in the list that it came from."""

    server: str
    namespace: str
    account: str
    place: int = 0

    @property
    def path(self) -> str:
        return f"spec.destinationServiceAccounts[{self.place}]"

    @property
    def is_catch_all(self) -> bool:
        return self.server in _EVERYTHING and self.namespace in _EVERYTHING


_EVERYTHING = frozenset({"*", "**"})
_FIELDS = ("server", "namespace", "defaultServiceAccount")


class AccountOutcome(StrEnum):
    ACCOUNT = "the account of an entry"
    DEFAULT = "the account default, as the proposal has it"
    CONTROLLER = "Argo CD's own credentials"
    UNMATCHED = "no account: the sync fails"
    INVALID = "an error: the sync fails"
    PANIC = "a panic: the application is not reconciled"


@dataclass(frozen=True, slots=True)
class Derivation:
    """`user` is whom Argo CD impersonates, `error` what it says instead, `entry` what decided."""

    outcome: AccountOutcome
    user: str = ""
    error: str = ""
    entry: ServiceAccountEntry | None = None


def entries_of(project: Mapping[str, Any] | None) -> tuple[ServiceAccountEntry, ...]:
    return entries_in(reading.sequence(project, "spec", "destinationServiceAccounts"))


def entries_in(items: Iterable[Any]) -> tuple[ServiceAccountEntry, ...]:
    return tuple(
        [
            ServiceAccountEntry._make((*reading.fields(item, _FIELDS), index))
            for index, item in enumerate(items)
            if type(item) is dict or isinstance(item, Mapping)
        ]
    )


def is_forbidden(account: str) -> bool:
    """Whether Argo CD refuses the text as a service account, when it validates and when it syncs."""
    return not account.strip(" ") or not FORBIDDEN.isdisjoint(account)


def user_of(account: str, *, namespace: str) -> str:
    """The user name of an entry's account: as written where it has a colon, else in that namespace."""
    qualified = account if ":" in account else f"{namespace}:{account}"
    return f"{names.SERVICE_ACCOUNT_PREFIX}{qualified}"


def derive(
    entries: Iterable[ServiceAccountEntry],
    *,
    server: str,
    destination_namespace: str,
    application_namespace: str,
) -> Derivation:
    """The first entry that matches decides, and a pattern that does not compile ends the walk.

    `server` is that of the resolved cluster; the namespace is the destination's as written, also where it is
    empty and the account is looked for in the application's own.
    """
    for entry in entries:
        at_server = _match(entry.server, server, "server", entry)
        if isinstance(at_server, Derivation):
            return at_server
        in_namespace = _match(entry.namespace, destination_namespace, "namespace", entry)
        if isinstance(in_namespace, Derivation):
            return in_namespace
        if at_server and in_namespace:
            if is_forbidden(entry.account):
                error = f"default service account contains invalid chars '{entry.account}'"
                return Derivation(AccountOutcome.INVALID, error=error, entry=entry)
            user = user_of(entry.account, namespace=destination_namespace or application_namespace)
            return Derivation(AccountOutcome.ACCOUNT, user=user, entry=entry)
    return Derivation(AccountOutcome.UNMATCHED)


def _match(pattern: str, text: str, what: str, entry: ServiceAccountEntry) -> bool | Derivation:
    if error := globs.compile_error(pattern):
        return Derivation(
            AccountOutcome.INVALID, error=f"invalid glob pattern for destination {what}: {error}", entry=entry
        )
    verdict = globs.match(pattern, text)
    if verdict in {globs.Verdict.YES, globs.Verdict.NO}:
        return verdict is globs.Verdict.YES
    error = f"the pattern '{pattern}' for the destination {what} ends in a {verdict}"
    return Derivation(AccountOutcome.PANIC, error=error, entry=entry)


def account_for(
    application: Mapping[str, Any],
    *,
    entries: Iterable[ServiceAccountEntry],
    server: str,
    settings: Settings,
    configuration: Configuration,
) -> Derivation:
    """As whom the application syncs, with what its Argo CD does where no entry matches."""
    if not settings.impersonation.enabled:
        return Derivation(AccountOutcome.CONTROLLER)
    namespace = reading.text(application, "spec", "destination", "namespace")
    own = reading.text(application, "metadata", "namespace")
    found = derive(entries, server=server, destination_namespace=namespace, application_namespace=own)
    if found.outcome is not AccountOutcome.UNMATCHED:
        return found
    if configuration.impersonation.behaviour is Behaviour.PROPOSAL:
        return Derivation(AccountOutcome.DEFAULT, user=user_of("default", namespace=namespace or own))
    if not settings.impersonation.enforced:
        return Derivation(AccountOutcome.CONTROLLER)
    if configuration.argocd.version < UNMATCHED_IS_NO_ERROR_SINCE:
        # Before 3.5 the message named the namespace in which the account would have been looked for.
        namespace = namespace or own
    error = f"no matching service account found for destination server {server} and namespace {namespace}"
    return Derivation(AccountOutcome.UNMATCHED, error=error)
