"""Roles of projects."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argocd.projects import roles

VERSION = (3, 5)
GOOD = "p, proj:shop:dev, applications, sync, shop/*, allow"


def problems(policy: str) -> list[str]:
    found = roles.policy_problems("shop", "dev", policy, version=VERSION)
    return [
        f"{rule.removeprefix('project/')}: {message.removeprefix(f'invalid policy rule {policy!r}: ')}"
        for rule, message in found
    ]


@pytest.mark.parametrize(
    "policy",
    [
        GOOD,
        "p,proj:shop:dev,logs,*,shop/*/web-*,deny",
        "p, proj:shop:dev, exec, action/apps/Deployment/restart, shop/a_b.c-d, allow",
        "p, proj:shop:dev, clusters, xdelete/y, shop/x, allow",
    ],
)
def test_a_good_policy_passes(policy: str) -> None:
    assert problems(policy) == []


def test_everything_that_is_wrong_is_said_at_once() -> None:
    resources = "'applications', 'applicationsets', 'repositories', 'exec', 'logs' or 'clusters'"
    forms = "'shop/*', 'shop[/<NAMESPACE>]/<APPNAME>' or 'shop/<APPNAME>'"
    assert problems("p, proj:shop:ops, projects, fly, other/*, Allow") == [
        "policy: policy subject must be: 'proj:shop:dev', not 'proj:shop:ops'",
        f"policy: project resource must be: {resources}, not 'projects'",
        "policy: invalid action 'fly'",
        f"policy-object: object must be of form {forms}, not 'other/*'",
        "policy: effect must be: 'allow' or 'deny'",
    ]


@pytest.mark.parametrize("policy", ["", "g, a, b", "p, a, b, c, d, e, f", f"\t{GOOD}"])
def test_a_policy_has_six_parts(policy: str) -> None:
    assert len(problems(policy)) == 1
    assert "must be of the form: 'p, sub, res, act, obj, eft'" in problems(policy)[0]


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        (GOOD.replace("p, ", "p , ", 1), "policy syntax error: invalid RBAC policy"),
        (GOOD.replace("sync", 'action/"x'), "policy syntax error: error parsing policy line"),
        (GOOD.replace("sync", "action/\nx"), "policy syntax error: invalid RBAC policy"),
    ],
)
def test_a_policy_that_is_no_csv_is_told(policy: str, problem: str) -> None:
    found = roles.policy_problems("shop", "dev", policy, version=VERSION)
    assert [rule for rule, _ in found][:1] == ["project/policy-syntax"]
    assert found[0][1].startswith(problem)


def test_rollback_came_with_a_release() -> None:
    assert not roles.is_action("rollback", version=(3, 5, 1))
    assert roles.is_action("rollback", version=(3, 6))


def test_a_dot_in_a_projects_name_is_a_dot() -> None:
    assert roles.is_object("some.project", "some.project/x")
    assert not roles.is_object("some.project", "some-project/x")
    assert not roles.is_object("p", "p/ä")
    assert not roles.is_object("p", "p/x\n")


@pytest.mark.parametrize("name", ["a", "1", "a-b", "a--b", "A_b"])
def test_a_role_may_be_called(name: str) -> None:
    assert not roles.role_name_problem(name)


@pytest.mark.parametrize("name", ["", "-", "_a", "a-", "a b", "a\n", "ä"])
def test_a_role_may_not_be_called(name: str) -> None:
    assert roles.role_name_problem(name).startswith(f"invalid role name '{name}'. Must consist of")


@pytest.mark.parametrize(
    ("group", "problem"),
    [
        ("acme:ops", ""),
        ('"cn=ops,dc=acme"', ""),
        ("a", ""),
        (" ", "group '' is empty"),
        ('""', "group '' is empty"),
        ("a,b", "group 'a,b' must be quoted"),
        ('"', "group '\"' contains invalid characters"),
        ('"a\tb"', "group 'a\tb' contains invalid characters"),
        (" a", "group 'a' contains a leading space"),
        ("a\u2003", "group 'a' contains a trailing space"),
    ],
)
def test_a_group_can_stand_in_csv(group: str, problem: str) -> None:
    assert roles.group_problem(group) == problem


def test_long_texts_are_judged_and_not_remembered() -> None:
    before = roles._problems.short.cache_info().currsize, roles.group_problem.short.cache_info().currsize
    assert problems(GOOD + "x" * 2000)
    assert roles.group_problem(" " + "x" * 2000)
    assert (
        roles._problems.short.cache_info().currsize,
        roles.group_problem.short.cache_info().currsize,
    ) == before


@given(st.text(max_size=60))
def test_every_text_gets_an_answer(text: str) -> None:
    roles.policy_problems("shop", "dev", text, version=VERSION)
    roles.group_problem(text)
    roles.role_name_problem(text)


WORDS = (
    *(
        "p",
        "g",
        " p",
        "proj:shop:dev",
        "proj:shop:ops",
        "proj:shop",
        "proj:shop:dev:x",
        "applications",
        "logs",
    ),
    *(
        "projects",
        "sync",
        "*",
        "action/x",
        "shop/*",
        "shop/a/b",
        "shop/a/b/c",
        "shop//a",
        "other/*",
        "shop",
        "",
    ),
    *("allow", "deny", "Allow", 'a"b', "a\nb", "\tallow", "é"),
)


@given(
    st.lists(st.sampled_from(WORDS), min_size=4, max_size=7)
    | st.tuples(*(st.sampled_from(WORDS) | st.just(part) for part in GOOD.split(", "))),
    st.sampled_from([",", ", ", " , ", ",  "]),
)
def test_the_short_way_to_a_good_policy_leads_where_the_long_one_does(
    parts: list[str] | tuple[str, ...], separator: str
) -> None:
    policy = separator.join(parts)
    found = roles.policy_problems("shop", "dev", policy, version=VERSION)
    assert found == roles._problems.__wrapped__("shop", "dev", policy, VERSION)
