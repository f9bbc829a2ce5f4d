"""What the configuration makes of a rule."""

from datetime import date

import pytest

from argocd.judging.case import Action, Kind, Profile, Rule, User
from argocd.judging.configuration import (
    Configuration,
    Enforcement,
    Exemption,
    NamespacePolicy,
    group_of,
    matches,
)

TODAY = date(2026, 9, 1)


def rule(
    *, profile: Profile = Profile.RECOMMENDED, action: Action = Action.WARN, neighbours: bool = False
) -> Rule:
    return Rule(
        id="project/example",
        kinds=frozenset({Kind.PROJECT}),
        profile=profile,
        action=action,
        reads=("spec",),
        title="",
        explanation="",
        bad="",
        good="",
        check=lambda _: (),
        neighbours=neighbours,
    )


def test_a_rule_has_its_own_action_by_default() -> None:
    assert Configuration().action_for(rule(action=Action.DENY)) is Action.DENY


@pytest.mark.parametrize(
    ("judging", "expected"),
    [
        (rule(), Action.OFF),
        (rule(profile=Profile.PARITY, action=Action.DENY), Action.DENY),
        (rule(neighbours=True), Action.WARN),
    ],
)
def test_the_parity_profile_leaves_parity_and_neighbours(judging: Rule, expected: Action) -> None:
    assert Configuration(profile=Profile.PARITY).action_for(judging) is expected


def test_an_exact_id_counts_before_its_group() -> None:
    configuration = Configuration(rules={"project/*": Action.AUDIT, "project/example": Action.DENY})
    assert configuration.action_for(rule()) is Action.DENY


def test_a_group_changes_the_action_of_rules_that_are_on() -> None:
    assert Configuration(rules={"project/*": Action.AUDIT}).action_for(rule()) is Action.AUDIT


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        (Profile.PARITY, {Profile.PARITY}),
        (Profile.RECOMMENDED, {Profile.PARITY, Profile.RECOMMENDED}),
        (Profile.STRICT, set(Profile)),
    ],
)
def test_a_profile_has_its_own_rules_and_those_of_the_ones_before_it(
    profile: Profile, expected: set[Profile]
) -> None:
    configuration = Configuration(profile=profile)
    awake = {one for one in Profile if configuration.action_for(rule(profile=one)) is Action.WARN}
    assert awake == expected


@pytest.mark.parametrize(
    ("profile", "expected"),
    [(Profile.PARITY, Action.OFF), (Profile.RECOMMENDED, Action.DENY), (Profile.STRICT, Action.DENY)],
)
def test_a_group_wakes_opinions_too_unless_only_parity_is_asked_for(
    profile: Profile, expected: Action
) -> None:
    configuration = Configuration(profile=profile, rules={"project/*": Action.DENY})
    assert configuration.action_for(rule(profile=Profile.STRICT)) is expected


def test_a_group_of_a_namespace_wakes_opinions_there() -> None:
    configuration = Configuration(
        namespaces=(NamespacePolicy(match="team-*", rules={"project/*": Action.DENY}),)
    )
    assert configuration.action_for(rule(profile=Profile.STRICT), namespace="team-a") is Action.DENY
    assert configuration.action_for(rule(profile=Profile.STRICT), namespace="other") is Action.OFF


def test_only_an_exact_id_wakes_a_rule_that_the_profile_has_off() -> None:
    grouped = Configuration(profile=Profile.PARITY, rules={"project/*": Action.WARN})
    exact = Configuration(profile=Profile.PARITY, rules={"project/example": Action.WARN})
    assert grouped.action_for(rule()) is Action.OFF
    assert exact.action_for(rule()) is Action.WARN


def test_the_first_namespace_that_matches_speaks_before_the_general_rules() -> None:
    configuration = Configuration(
        rules={"project/example": Action.OFF},
        namespaces=(
            NamespacePolicy(match="team-*", rules={"project/*": Action.AUDIT}),
            NamespacePolicy(match="team-a", rules={"project/*": Action.DENY}),
        ),
    )
    assert configuration.action_for(rule(), namespace="team-a") is Action.AUDIT
    assert configuration.action_for(rule(), namespace="other") is Action.OFF


def test_a_namespace_without_a_word_about_the_rule_leaves_it_to_the_general_rules() -> None:
    configuration = Configuration(
        rules={"project/example": Action.AUDIT}, namespaces=(NamespacePolicy(match="*"),)
    )
    assert configuration.action_for(rule(), namespace="team-a") is Action.AUDIT


def test_a_namespace_may_have_a_profile_of_its_own() -> None:
    configuration = Configuration(namespaces=(NamespacePolicy(match="team-*", profile=Profile.PARITY),))
    assert configuration.action_for(rule(), namespace="team-a") is Action.OFF
    assert configuration.action_for(rule(), namespace="argocd") is Action.WARN


def test_a_careful_first_week_turns_denials_into_warnings_and_nothing_else() -> None:
    careful = Configuration(enforcement=Enforcement.WARN)
    assert careful.action_for(rule(action=Action.DENY)) is Action.WARN
    assert careful.action_for(rule(action=Action.AUDIT)) is Action.AUDIT


@pytest.mark.parametrize(
    ("exemption", "covered"),
    [
        (Exemption(rules=("project/example",)), True),
        (Exemption(rules=("project/*",)), True),
        (Exemption(rules=("application/*",)), False),
        (Exemption(rules=("project/*",), namespaces=("argo*",)), True),
        (Exemption(rules=("project/*",), namespaces=("team-*",)), False),
        (Exemption(rules=("project/*",), names=("legacy-*",)), True),
        (Exemption(rules=("project/*",), names=("new-*",)), False),
        (Exemption(rules=("project/*",), users=("ada",)), True),
        (Exemption(rules=("project/*",), users=("bob",)), False),
        (Exemption(rules=("project/*",), users=("bob",), groups=("admins",)), True),
        (Exemption(rules=("project/*",), groups=("others",)), False),
        (Exemption(rules=("project/*",), until=TODAY), True),
        (Exemption(rules=("project/*",), until=date(2026, 8, 31)), False),
    ],
)
def test_an_exemption_covers_what_all_of_its_lists_say(exemption: Exemption, *, covered: bool) -> None:
    found = Configuration(exemptions=(exemption,)).exemption_for(
        "project/example",
        namespace="argocd",
        name="legacy-pay",
        writer=User(user="ada", groups=("admins",)),
        today=TODAY,
    )
    assert found is (exemption if covered else None)


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("team-*", "team-a", True),
        ("team-?", "team-ab", False),
        ("a*a", "a", False),
        ("team-[ab]", "team-b", True),
        ("TEAM", "team", False),
        ("*", "", True),
    ],
)
def test_the_globs_of_our_own_file_have_no_surprises(pattern: str, text: str, *, expected: bool) -> None:
    assert matches((pattern,), text) is expected


def test_no_pattern_matches_nothing() -> None:
    assert not matches((), "")


def test_a_group_is_named_with_a_star() -> None:
    assert group_of("project/destination-service-account") == "project/*"
