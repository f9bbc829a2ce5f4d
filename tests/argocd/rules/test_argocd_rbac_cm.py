"""Policies in argocd-rbac-cm."""

from typing import Any

import pytest

from argocd.rules.config_map_data import MOST_TOLD
from tests.argocd.fake_neighbours import Neighbourhood
from tests.argocd.rules.asking import ask, config_map, project

ALLOWED = "p, role:a, logs, get, */*, allow"
GROUP = "g, team, role:a"


def rbac_cm(policy: str = "", **data: Any) -> dict[str, Any]:
    return config_map("argocd-rbac-cm", **({"policy.csv": policy} if policy else {}), **data)


def told(rule: str, policy: str, *, mode: str = "") -> list[str]:
    return [found.message for found in ask(rule, rbac_cm(policy, **{"policy.matchMode": mode}))]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("p, role:a, applications, get, */*, allow", ""),
        ("# p, nothing", ""),
        ('g, "my,group", role:a', ""),
        ("p, role:a, applications, get, */*", "invalid RBAC policy"),
        ("p role:a, applications, get, */*, allow", "invalid RBAC policy"),
        ("policy, role:a, applications, get, */*, allow", "invalid RBAC policy"),
        ("g, my,group, role:a", "invalid RBAC policy"),
        ('p, "role:a, applications, get, */*, allow', "missing"),
        ("p, role:a, applications, get, */*, Allow", "neither allow nor deny"),
        ("p, role:a, applications, get, */*, allow # all", "neither allow nor deny"),
    ],
)
def test_a_line_is_read_as_casbin_reads_it(line: str, said: str) -> None:
    found = told("rbac/policy-line", f"# who\n\n{line}")
    assert bool(found) == bool(said)
    assert all(one.startswith("line 3: ") and said in one for one in found)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("applications, get, */*", ""),
        ("*, *, *", ""),
        ("app*, get, */*", ""),
        ("applications, action/apps/Deployment/restart, shop/*", ""),
        ("applications, action/*, shop/*", ""),
        ("applications, update/*, shop/*", ""),
        ("applications, act*, shop/*", ""),
        ("applications, *, *", ""),
        ("exec, create, shop/*", ""),
        ("clusters, get, https://kubernetes.default.svc", ""),
        ("write-repositories, create, shop/*", ""),
        ("extensions, invoke, httpbin", ""),
        ("application, get, */*", "no resource 'application', did you mean applications?"),
        ("foo*, get, */*", "no resource 'foo*'"),
        ("applications, read, */*", "applications have no action 'read'"),
        ("applications, sync/*, */*", "applications have no action 'sync/*'"),
        ("logs, list, */*", "logs have no action 'list'"),
        ("exec, get, */*", "exec have no action 'get'"),
        ("*, list, */*", "there is no action 'list'"),
        ("applications, get, shop", "'shop' has no project"),
    ],
)
def test_a_policy_is_about_what_argo_cd_asks_for(line: str, said: str) -> None:
    found = told("rbac/no-match", f"p, role:a, {line}, allow\n{GROUP}")
    assert bool(found) == bool(said)
    assert all(said in one for one in found)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("applications, (get|sync), shop/.*", ""),
        (".*, .*, .*", ""),
        ("app, get, shop/x", ""),
        ("apps, get, shop/.*", "no resource 'apps'"),
        ("applications, get, shop", "has no project"),
    ],
)
def test_with_regular_expressions_a_part_is_enough(line: str, said: str) -> None:
    found = told("rbac/no-match", f"p, role:a, {line}, allow\n{GROUP}", mode="regex")
    assert bool(found) == bool(said)
    assert all(said in one for one in found)


def test_a_pattern_that_cannot_be_used_is_refused() -> None:
    assert told("rbac/pattern", "p, role:a, applications, get, shop/[a-, allow")
    assert told("rbac/pattern", "p, role:a, applications, (get, shop/.*, allow", mode="regex")
    assert not told("rbac/pattern", "p, role:a, applications, (get, shop/*, allow")
    assert not told("rbac/no-match", "p, role:a, applications, get, shop/[a-, allow"), (
        "one finding for one cause"
    )


@pytest.mark.parametrize(
    ("policy", "default", "said"),
    [
        (ALLOWED, "", "nobody has 'role:a'"),
        (ALLOWED, "role:a", ""),
        (f"{ALLOWED}\n{GROUP}", "", ""),
        ("g, role:a, role:readonly", "", "nobody has 'role:a'"),
        ("p, role:admin, logs, get, */*, allow", "", ""),
        ("p, ada, logs, get, */*, allow\np, proj:shop:ci, logs, get, shop/*, allow", "", ""),
        (f"{ALLOWED}\ng, my,group, role:a", "", ""),
    ],
)
def test_a_role_is_somebodys(policy: str, default: str, said: str) -> None:
    found = ask("rbac/unassigned-role", rbac_cm(policy, **{"policy.default": default}))
    assert bool(found) == bool(said)
    assert all(said in one.message for one in found)


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (GROUP, "'role:a' may do nothing"),
        ("g, team, role:admn", "did you mean role:admin?"),
        ("g, team, role:admin\ng, others, role:readonly", ""),
        ("g, role:a, role:readonly\ng, team, role:a", ""),
        (f"{ALLOWED}\n{GROUP}", ""),
        (ALLOWED, ""),
    ],
)
def test_a_role_that_is_given_away_may_do_something(policy: str, said: str) -> None:
    found = told("rbac/role", policy)
    assert bool(found) == bool(said)
    assert all(said in one for one in found)


@pytest.mark.parametrize("rule", ["rbac/role", "rbac/unassigned-role"])
def test_roles_of_all_policies_count(rule: str) -> None:
    assert not ask(rule, rbac_cm(ALLOWED, **{"policy.team.csv": GROUP}))


def test_a_role_that_nobody_had_and_that_may_do_nothing_now_is_told() -> None:
    old = rbac_cm(ALLOWED)
    assert ask("rbac/role", rbac_cm(GROUP), old=old)
    assert not ask("rbac/unassigned-role", rbac_cm(f"# first\n{ALLOWED}"), old=old)


@pytest.mark.parametrize(
    ("default", "found"),
    [("", 0), ("role:readonly", 0), ("role:a", 0), ("readonly", 1), ("role:none", 1), ("role:'readonly'", 1)],
)
def test_the_default_is_a_role(default: str, found: int) -> None:
    given = rbac_cm(f"p, role:a, logs, get, */*, allow\n{GROUP}", **{"policy.default": default})
    assert len(ask("rbac/default", given)) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", 0),
        ("[groups]", 0),
        ("- groups\n- email", 0),
        ("groups", 1),
        ("[1]", 1),
        ("[groups", 1),
        ("{a: b}", 1),
    ],
)
def test_scopes_are_a_list(text: str, found: int) -> None:
    assert len(ask("rbac/scopes", rbac_cm(scopes=text))) == found


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("applications, get, shop/*", 0),
        ("applications, get, sh*/*", 0),
        ("applications, get, default/*", 0),
        ("applications, get, other/*", 1),
        ("logs, get, other/ns/app", 1),
        ("projects, update, other", 1),
        ("repositories, get, other/*", 0),
    ],
)
def test_a_policy_names_projects_that_exist(line: str, found: int) -> None:
    known = Neighbourhood(projects=[project()])
    given = rbac_cm(f"p, role:a, {line}, allow\n{GROUP}")
    assert len(ask("rbac/project", given, neighbours=known)) == found
    assert not ask("rbac/project", given)


def test_an_update_answers_for_the_lines_that_it_brings() -> None:
    bad = "p, role:b, application, get, shop, nope"
    old = rbac_cm(f"{bad}\n{GROUP}")
    for rule in ("rbac/policy-line", "rbac/no-match", "rbac/role", "rbac/unassigned-role"):
        assert ask(rule, old)
        assert not ask(rule, rbac_cm(f"# first\n{bad}\n{GROUP}\n{ALLOWED}"), old=old)
    assert ask("rbac/policy-line", rbac_cm(f"{bad}\np, more"), old=old)


def test_of_very_many_bad_lines_the_first_are_told() -> None:
    assert len(told("rbac/policy-line", "p, x\n" * 20_000)) == MOST_TOLD
