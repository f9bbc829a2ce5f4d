"""Tiphys's own configuration as a value, and what it decides: which rule speaks here, and how loudly.

`argocd.engine.configuration_file` reads it from `tiphys.yaml`. Everything has a default: `Configuration()` is a good one.
"""

import fnmatch
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from functools import lru_cache

from argocd import names
from argocd.budget import DEFAULT_STEPS
from argocd.judging.case import Action, Profile, Rule, User

Version = tuple[int, ...]


class Enforcement(StrEnum):
    ENFORCE = "enforce"
    WARN = "warn"


class Role(StrEnum):
    CONTROL_PLANE = "control-plane"
    WORKLOAD = "workload"
    STANDBY = "standby"


class TrackingFormat(StrEnum):
    RELEASED = "released"
    PROPOSED = "proposed"
    BOTH = "both"


class InstallationIds(StrEnum):
    AUTO = "auto"
    OFF = "off"


class Behaviour(StrEnum):
    """What happens to an Application that no entry of destinationServiceAccounts matches."""

    RELEASE = "release"
    PROPOSAL = "proposal"


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    # The translation has no nested repetition: a match costs at most length times length.
    return re.compile(fnmatch.translate(pattern))


def matches(patterns: Iterable[str], text: str) -> bool:
    """Whether one of our configuration's globs (`*`, `?`, `[abc]`) is about the whole text.

    These are not Argo CD's globs, whose surprises (`a*a` matches `a`) nobody should meet in our file.
    """
    return any(_compiled(pattern).match(text) for pattern in patterns)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespacePolicy:
    """What differs in the namespaces that `match` names."""

    match: str
    profile: Profile | None = None
    rules: Mapping[str, Action] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exemption:
    """Findings that are reported and change nothing. An empty list says nothing; users and groups are alternatives."""

    rules: tuple[str, ...]
    namespaces: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    until: date | None = None
    reason: str = ""

    def covers(self, rule: str, *, namespace: str, name: str, writer: User, today: date) -> bool:
        return (
            (self.until is None or today <= self.until)
            and any(wanted in {rule, group_of(rule)} for wanted in self.rules)
            and (not self.namespaces or matches(self.namespaces, namespace))
            and (not self.names or matches(self.names, name))
            and (
                not (self.users or self.groups)
                or matches(self.users, writer.user)
                or any(matches(self.groups, group) for group in writer.groups)
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgoCD:
    namespace: str = names.DEFAULT_NAMESPACE
    version: Version = (3, 5)
    identities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Agents:
    autonomous: tuple[str, ...] = ()
    known_autonomous: frozenset[str] = field(default=frozenset(), metadata={"configured": False})
    """Those that their principal keeps as such, as a webhook reads them."""
    identity: str = ""
    principal_identities: tuple[str, ...] = ()
    agent_identities: tuple[str, ...] = ()
    replica_identities: tuple[str, ...] = ()

    def is_autonomous(self, agent: str) -> bool:
        return agent in self.known_autonomous or matches(self.autonomous, agent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracking:
    """`kinds` are `Kind` or `Kind.group`, added to the default list."""

    format: TrackingFormat = TrackingFormat.RELEASED
    kinds: tuple[str, ...] = ()
    neutralize_copies: bool = False
    installation_id: InstallationIds = InstallationIds.AUTO


@dataclass(frozen=True, slots=True, kw_only=True)
class ImpersonationOptions:
    behaviour: Behaviour = Behaviour.RELEASE
    check_writer: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewLimits:
    """`review_steps` is the budget of work for one review."""

    review_steps: int = DEFAULT_STEPS


@dataclass(frozen=True, slots=True, kw_only=True)
class PageOptions:
    """`url` is how people reach the webhook's pages; empty where nobody is told."""

    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    profile: Profile = Profile.RECOMMENDED
    enforcement: Enforcement = Enforcement.ENFORCE
    rules: Mapping[str, Action] = field(default_factory=dict)
    namespaces: tuple[NamespacePolicy, ...] = ()
    exemptions: tuple[Exemption, ...] = ()
    role: Role = Role.CONTROL_PLANE
    active_peer: str = field(default="", metadata={"configured": False})
    """On a standby: who is active instead, as the principal there has recorded it."""
    argocd: ArgoCD = field(default_factory=ArgoCD)
    agents: Agents = field(default_factory=Agents)
    tracking: Tracking = field(default_factory=Tracking)
    impersonation: ImpersonationOptions = field(default_factory=ImpersonationOptions)
    limits: ReviewLimits = field(default_factory=ReviewLimits)
    pages: PageOptions = field(default_factory=PageOptions)

    def policy_for(self, namespace: str) -> NamespacePolicy | None:
        """The first entry of `namespaces` that is about this one."""
        for policy in self.namespaces:
            if matches((policy.match,), namespace):
                return policy
        return None

    def action_for(self, rule: Rule, *, namespace: str = "") -> Action:
        return self.action_under(self.policy_for(namespace), rule)

    def action_under(self, policy: NamespacePolicy | None, rule: Rule) -> Action:
        """The namespace's word before the general one, an exact id before its group, both before the default.

        A group's action is for the rules that the profile has on, and it wakes those of the strict profile unless
        only parity was asked for; any other needs its exact id to be woken.
        """
        profile = (policy and policy.profile) or self.profile
        awake = profile.includes(rule.profile) or rule.neighbours
        grouping = awake or (rule.profile is Profile.STRICT and profile is not Profile.PARITY)
        action = rule.action if awake else Action.OFF
        for overrides in (policy.rules, self.rules) if policy else (self.rules,):
            if (exact := overrides.get(rule.id)) is not None:
                action = exact
                break
            if grouping and (grouped := overrides.get(group_of(rule.id))) is not None:
                action = grouped
                break
        return self.enforced(action)

    def enforced(self, action: Action) -> Action:
        """What becomes of it in a careful first week, when nothing is refused."""
        if action is Action.DENY and self.enforcement is Enforcement.WARN:
            return Action.WARN
        return action

    def exemption_for(
        self, rule: str, *, namespace: str, name: str, writer: User, today: date
    ) -> Exemption | None:
        """The first exemption that covers a finding of the rule; its use is to be reported."""
        for exemption in self.exemptions:
            if exemption.covers(rule, namespace=namespace, name=name, writer=writer, today=today):
                return exemption
        return None


def group_of(rule: str) -> str:
    """How the configuration names all rules of a group: `project/*`."""
    return f"{rule.partition('/')[0]}/*"
