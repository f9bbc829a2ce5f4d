"""Reads `tiphys.yaml` into a Configuration, with every problem at its exact path.

What is wrong is left at its default and named; whoever reads the file decides whether to go on.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import re2

from argocd.engine.sections import ConfigurationProblem, ConfigurationSection, describe
from argocd.judging.case import Action, Profile
from argocd.judging.configuration import (
    Agents,
    ArgoCD,
    Behaviour,
    Configuration,
    Enforcement,
    Exemption,
    ImpersonationOptions,
    InstallationIds,
    NamespacePolicy,
    PageOptions,
    ReviewLimits,
    Role,
    Tracking,
    TrackingFormat,
    Version,
    group_of,
)
from argocd.rules.catalogue import CATALOGUE
from argocd.spelling import did_you_mean
from tiphys import safe_yaml

AGENT_GROUP = "agent"
"""The group of `agents.identity` that holds the agent's name."""

FEWEST_STEPS = 1000
"""Of a budget: fewer would refuse objects of everyday size."""

_URL = re.compile(r"https?://[^\s@]{1,200}")
"""Without a user's name and password: every denial repeats it."""

_VERSION = re.compile(r"v?(\d{1,9}(?:\.\d{1,9}){1,2})(?:[-+].*)?", re.ASCII)


def parse_text(text: str) -> tuple[Configuration, list[ConfigurationProblem]]:
    """The configuration in a file's or a ConfigMap's text."""
    try:
        data = safe_yaml.load(text)
    except safe_yaml.YamlError as error:
        return Configuration(), [ConfigurationProblem("", f"not YAML: {error}")]
    return parse_configuration(data)


def parse_configuration(data: Any) -> tuple[Configuration, list[ConfigurationProblem]]:
    """The configuration in data that a YAML or JSON reader made."""
    problems: list[ConfigurationProblem] = []
    top = ConfigurationSection(data, problems=problems)
    argocd, agents = top.section("argocd"), top.section("agents")
    tracking, impersonation = top.section("tracking"), top.section("impersonation")
    limits, pages = top.section("limits"), top.section("pages")
    configuration = Configuration(
        profile=top.choice("profile", Profile.RECOMMENDED),
        enforcement=top.choice("enforcement", Enforcement.ENFORCE),
        rules=_actions(top, "rules"),
        namespaces=tuple(_namespaces(top)),
        exemptions=tuple(_exemptions(top)),
        role=top.choice("role", Role.CONTROL_PLANE),
        argocd=ArgoCD(
            namespace=argocd.text("namespace", ArgoCD().namespace),
            version=_version(argocd, "version", ArgoCD().version),
            identities=argocd.texts("identities"),
        ),
        agents=Agents(
            autonomous=agents.texts("autonomous"),
            identity=_identity(agents, "identity"),
            principal_identities=agents.texts("principal-identities"),
            agent_identities=agents.texts("agent-identities"),
            replica_identities=agents.texts("replica-identities"),
        ),
        tracking=Tracking(
            format=tracking.choice("format", TrackingFormat.RELEASED),
            kinds=tracking.texts("kinds"),
            neutralize_copies=tracking.flag("neutralize-copies"),
            installation_id=tracking.choice("installation-id", InstallationIds.AUTO),
        ),
        impersonation=ImpersonationOptions(
            behaviour=impersonation.choice("behaviour", Behaviour.RELEASE),
            check_writer=impersonation.flag("check-writer"),
        ),
        limits=ReviewLimits(
            review_steps=limits.number("review-steps", ReviewLimits().review_steps, least=FEWEST_STEPS)
        ),
        pages=PageOptions(url=_url(pages, "url")),
    )
    for section in (top, argocd, agents, tracking, impersonation, limits, pages):
        section.close()
    return configuration, problems


def _namespaces(top: ConfigurationSection) -> Iterator[NamespacePolicy]:
    for entry in top.sections("namespaces"):
        match = entry.text("match")
        if not match:
            entry.complain("match", "is needed: a glob of namespaces")
        yield NamespacePolicy(
            match=match,
            profile=entry.optional("profile", Profile),
            rules=_actions(entry, "rules"),
        )
        entry.close()


def _exemptions(top: ConfigurationSection) -> Iterator[Exemption]:
    for entry in top.sections("exemptions"):
        before = entry.complaints
        rules = entry.texts("rules")
        exemption = Exemption(
            rules=rules,
            namespaces=entry.texts("namespaces"),
            names=entry.texts("names"),
            users=entry.texts("users"),
            groups=entry.texts("groups"),
            until=entry.day("until"),
            reason=entry.text("reason"),
        )
        if not rules:
            entry.complain("rules", "is needed: which rules, by id or as group/*")
        for index, rule in enumerate(rules):
            _is_rule(entry, rule, at=f"rules[{index}]")
        entry.close()
        # A part that was not understood must not widen the exemption by its absence.
        if entry.complaints == before:
            yield exemption


def parse_rules(data: Any) -> tuple[dict[str, Action], list[ConfigurationProblem]]:
    """The section `rules` alone."""
    problems: list[ConfigurationProblem] = []
    return _actions(ConfigurationSection({"rules": data}, problems=problems), "rules"), problems


def _actions(section: ConfigurationSection, key: str) -> dict[str, Action]:
    found: dict[str, Action] = {}
    for rule, word in section.section(key).items():
        at = f"{key}[{rule}]"
        action = section.choose(at, word, Action)
        if _is_rule(section, rule, at=at) and action:
            found[rule] = action
    return found


@cache
def _known_rules() -> frozenset[str]:
    ids = [rule.id for rule in CATALOGUE]
    return frozenset([*ids, *map(group_of, ids)])


def _is_rule(section: ConfigurationSection, rule: Any, *, at: str) -> bool:
    if rule in _known_rules():
        return True
    section.complain(at, f"there is no rule {describe(rule)}{did_you_mean(rule, _known_rules())}")
    return False


def _version(section: ConfigurationSection, key: str, default: Version) -> Version:
    value = section.raw(key)
    if value is None:
        return default
    if isinstance(value, str) and (found := _VERSION.fullmatch(value)):
        return tuple(int(part) for part in found[1].split("."))
    quotes = ", in quotes (YAML reads 3.10 as 3.1)" if isinstance(value, float | int) else ""
    section.complain(key, f'must be a version like "3.5" or "3.5.1"{quotes}, not {describe(value)}')
    return default


def _url(section: ConfigurationSection, key: str) -> str:
    url = section.text(key)
    if url and not _URL.fullmatch(url):
        section.complain(key, f"must be an address that begins with http:// or https://, not {describe(url)}")
        return ""
    return url.rstrip("/")


def _identity(section: ConfigurationSection, key: str) -> str:
    pattern = section.text(key)
    if not pattern:
        return ""
    options = re2.Options()
    options.log_errors = False
    try:
        groups = re2.compile(pattern, options).groupindex
    except re2.error as error:
        section.complain(key, f"is no RE2 expression: {describe(error.args[0].decode(errors='replace'))}")
        return ""
    if AGENT_GROUP not in groups:
        section.complain(key, f"needs a group named {AGENT_GROUP}, as in (?P<{AGENT_GROUP}>[a-z0-9-]+)")
        return ""
    return pattern
