"""Reading tiphys.yaml."""

from datetime import date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argocd.engine.configuration_file import parse_configuration, parse_text
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
    group_of,
)
from argocd.rules.catalogue import CATALOGUE

RULE = CATALOGUE[0].id
GROUP = group_of(RULE)

FULL = f"""
profile: parity
enforcement: warn
rules:
  {RULE}: off
  {GROUP}: audit
namespaces:
  - match: "team-*"
    profile: recommended
    rules: {{{GROUP}: warn}}
exemptions:
  - rules: [{RULE}]
    namespaces: [argocd]
    names: [legacy-*]
    users: [ada]
    groups: [admins]
    until: 2027-01-31
    reason: ticket 4711
role: standby
argocd:
  namespace: gitops
  version: "v3.6.0-rc1"
  identities: ["system:serviceaccount:gitops:*"]
agents:
  autonomous: [edge-*]
  identity: "system:serviceaccount:agents:(?P<agent>[a-z-]+)"
  principal-identities: [p]
  agent-identities: [a]
  replica-identities: [r]
tracking:
  format: both
  kinds: [Rollout.argoproj.io]
  neutralize-copies: true
  installation-id: off
impersonation:
  behaviour: proposal
  check-writer: true
limits:
  review-steps: 5000
pages:
  url: https://tiphys.example.com/webhook/
"""


def problems_of(text: str) -> list[str]:
    return [str(problem) for problem in parse_text(text)[1]]


def test_an_empty_file_is_a_good_configuration() -> None:
    assert parse_text("") == (Configuration(), [])
    assert parse_configuration({}) == (Configuration(), [])


def test_every_key_is_read() -> None:
    assert parse_text(FULL) == (
        Configuration(
            profile=Profile.PARITY,
            enforcement=Enforcement.WARN,
            rules={RULE: Action.OFF, GROUP: Action.AUDIT},
            namespaces=(
                NamespacePolicy(match="team-*", profile=Profile.RECOMMENDED, rules={GROUP: Action.WARN}),
            ),
            exemptions=(
                Exemption(
                    rules=(RULE,),
                    namespaces=("argocd",),
                    names=("legacy-*",),
                    users=("ada",),
                    groups=("admins",),
                    until=date(2027, 1, 31),
                    reason="ticket 4711",
                ),
            ),
            role=Role.STANDBY,
            argocd=ArgoCD(
                namespace="gitops", version=(3, 6, 0), identities=("system:serviceaccount:gitops:*",)
            ),
            agents=Agents(
                autonomous=("edge-*",),
                identity="system:serviceaccount:agents:(?P<agent>[a-z-]+)",
                principal_identities=("p",),
                agent_identities=("a",),
                replica_identities=("r",),
            ),
            tracking=Tracking(
                format=TrackingFormat.BOTH,
                kinds=("Rollout.argoproj.io",),
                neutralize_copies=True,
                installation_id=InstallationIds.OFF,
            ),
            impersonation=ImpersonationOptions(behaviour=Behaviour.PROPOSAL, check_writer=True),
            limits=ReviewLimits(review_steps=5000),
            pages=PageOptions(url="https://tiphys.example.com/webhook"),
        ),
        [],
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "not YAML: line 2, column 1: did not find expected node content"),
        ("[]", "must be a mapping, not a list"),
        ("enforcment: warn", "enforcment: unknown key, did you mean enforcement?"),
        ("xyzzy: 1", "xyzzy: unknown key"),
        ("1: 2", "1: unknown key"),
        ("profile: lenient", "profile: must be one of parity, recommended, strict, not lenient"),
        (
            "role: standbye",
            "role: must be one of control-plane, workload, standby, not standbye, did you mean standby?",
        ),
        ("role: off", "role: must be one of control-plane, workload, standby, not false"),
        ("rules: {no/such-rule: warn}", "rules[no/such-rule]: there is no rule no/such-rule"),
        (f"rules: {{{RULE}x: warn}}", f"rules[{RULE}x]: there is no rule {RULE}x, did you mean {RULE}?"),
        (f"rules: {{{RULE}: loud}}", f"rules[{RULE}]: must be one of deny, warn, audit, off, not loud"),
        ("namespaces: team-*", "namespaces: must be a list, not team-*"),
        ("namespaces: [{}]", "namespaces[0].match: is needed: a glob of namespaces"),
        (
            "namespaces: [{match: a, profil: parity}]",
            "namespaces[0].profil: unknown key, did you mean profile?",
        ),
        ("exemptions: [{names: [x]}]", "exemptions[0].rules: is needed: which rules, by id or as group/*"),
        ("exemptions: [{rules: [x/*]}]", "exemptions[0].rules[0]: there is no rule x/*"),
        (
            f"exemptions: [{{rules: [{RULE}], until: soon}}]",
            "exemptions[0].until: must be a day like 2027-01-31, not soon",
        ),
        (
            f"exemptions: [{{rules: [{RULE}], until: 3}}]",
            "exemptions[0].until: must be a day like 2027-01-31, not 3",
        ),
        (
            "argocd: {version: 3.10}",
            'argocd.version: must be a version like "3.5" or "3.5.1", in quotes (YAML reads 3.10 as 3.1), not 3.1',
        ),
        (
            "argocd: {version: latest}",
            'argocd.version: must be a version like "3.5" or "3.5.1", not latest',
        ),
        ("argocd: {namespace: 7}", "argocd.namespace: must be text, not 7: put it in quotes"),
        ("agents: {autonomous: [1]}", "agents.autonomous[0]: must be text, not 1: put it in quotes"),
        ("agents: {identity: (}", "agents.identity: is no RE2 expression: missing ): ("),
        (
            "agents: {identity: a.*}",
            "agents.identity: needs a group named agent, as in (?P<agent>[a-z0-9-]+)",
        ),
        (
            "tracking: {neutralize-copies: maybe}",
            "tracking.neutralize-copies: must be true or false, not maybe",
        ),
        ("tracking: {kinds: {}}", "tracking.kinds: must be a list, not a mapping"),
    ],
)
def test_a_problem_is_named_at_its_path(text: str, problem: str) -> None:
    assert problems_of(text) == [problem]


def test_an_exemption_that_is_not_understood_exempts_nothing() -> None:
    configuration, problems = parse_text(f"exemptions: [{{rules: [{RULE}], user: [ada]}}]")
    assert [str(problem) for problem in problems] == ["exemptions[0].user: unknown key, did you mean users?"]
    assert configuration.exemptions == ()


def test_a_wrong_value_is_repeated_only_so_far() -> None:
    assert problems_of(f"profile: {'x' * 100}") == [
        f"profile: must be one of parity, recommended, strict, not {'x' * 40}…"
    ]


@pytest.mark.parametrize("until", ["2027-01-31", datetime(2027, 1, 31, 12, 0), date(2027, 1, 31)])  # noqa: DTZ001 - as YAML readers give it
def test_a_day_may_be_text_or_a_date(until: object) -> None:
    configuration, problems = parse_configuration({"exemptions": [{"rules": [RULE], "until": until}]})
    assert not problems
    assert configuration.exemptions[0].until == date(2027, 1, 31)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["rules", "namespaces", "exemptions", "argocd", "version", "match", "until"])
            | st.text(max_size=3),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_data_gives_a_configuration_and_problems(data: object) -> None:
    configuration, problems = parse_configuration(data)
    assert isinstance(configuration, Configuration)
    assert all(str(problem) for problem in problems)


@pytest.mark.parametrize(
    "url", ["tiphys.example.com", "ftp://x", "https://", "https://a b", "https://me:word@x"]
)
def test_the_address_of_pages_is_one_that_a_browser_opens_and_everybody_may_read(url: str) -> None:
    configuration, (problem,) = parse_text(f"pages: {{url: '{url}'}}")
    assert configuration == Configuration()
    assert str(problem).startswith("pages.url: must be an address that begins with http:// or https://, not ")


@pytest.mark.parametrize("steps", ["999", "0", "-1", "true", "many", "1.5"])
def test_a_budget_is_a_whole_number_that_everyday_objects_need(steps: str) -> None:
    configuration, problems = parse_text(f"limits: {{review-steps: {steps}}}")
    assert configuration == Configuration()
    (problem,) = problems
    assert problem.path == "limits.review-steps"
    assert problem.message.startswith("must be a whole number, 1000 or more, not ")
