"""Of a long list only what an update brings is judged."""

from dataclasses import replace
from datetime import date, datetime
from typing import Any

import pytest

from argocd import names
from argocd.engine.directory import Directory, Shelf
from argocd.engine.judge import judge
from argocd.judging.case import Case, Kind, Operation, Profile, Surroundings
from argocd.judging.configuration import Configuration
from argocd.judging.entries import added, is_reordered
from argocd.settings.argocd_cm import ImpersonationSwitch, Settings

HERE = names.IN_CLUSTER_SERVER


def project(**spec: Any) -> dict[str, Any]:
    metadata = {"name": "shop", "namespace": "argocd", "uid": "1"}
    return {"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": metadata, "spec": spec}


def update(old: dict[str, Any], new: dict[str, Any], profile: Profile = Profile.RECOMMENDED) -> Case:
    switch = ImpersonationSwitch(enabled=True, enforced=True)
    directory = Directory(argocd_namespace="argocd", known=[Shelf.PROJECTS, Shelf.SECRETS])
    return Case(
        kind=Kind.PROJECT,
        object=new,
        old=old,
        operation=Operation.UPDATE,
        surroundings=Surroundings(
            settings=Settings(known=True, impersonation=switch),
            configuration=Configuration(profile=profile),
            neighbours=directory,
        ),
    )


def told(
    old: dict[str, Any], new: dict[str, Any], profile: Profile = Profile.RECOMMENDED
) -> set[tuple[str, str]]:
    found = judge(update(old, new, profile), today=date(2026, 9, 1))
    return {(one.finding.rule, one.finding.path) for one in found}


@pytest.mark.parametrize(
    ("before", "after", "places"),
    [
        ([], ["a", "b"], [0, 1]),
        (["a", "b"], ["b", "a"], []),
        (["a", "b"], ["b", "c", "a"], [1]),
        ([{"x": 1, "y": 2}], [{"y": 2, "x": 1}, {"x": 1}], [1]),
        ([True], [1, "true"], [0, 1]),
        ([datetime(2026, 1, 1, tzinfo=None), {1: 2}], [{1: 2}, "a"], [0, 1]),  # noqa: DTZ001 - as YAML reads it
        (["a"], ["a", "a"], []),
    ],
)
def test_an_entry_that_stood_there_before_is_no_new_one(
    before: list[Any], after: list[Any], places: list[int]
) -> None:
    assert [index for index, _ in added(after, before)] == places


def test_without_an_older_version_all_entries_are_new() -> None:
    case = update(project(), project(sourceRepos=["a", "b"]))
    assert case.changed_entries("spec", "sourceRepos") == [(0, "a"), (1, "b")]
    assert replace(case, old=None).changed_entries("spec", "sourceRepos") == [(0, "a"), (1, "b")]


@pytest.mark.parametrize(
    ("before", "after", "moved"), [("ab", "axb", False), ("abc", "ac", False), ("abc", "cab", True)]
)
def test_another_order_is_one_of_entries_that_both_versions_have(
    before: str, after: str, *, moved: bool
) -> None:
    assert is_reordered(after, before) is moved


BAD: dict[str, tuple[Any, Any, str]] = {
    "destinations": (
        {"server": HERE, "namespace": "a[a-z0-9]"},
        {"server": HERE, "namespace": "b[a-z0-9]"},
        "project/glob-invalid",
    ),
    "sourceRepos": ("https://a/[a-z0-9]", "https://b/[a-z0-9]", "project/glob-invalid"),
    "sourceNamespaces": ("/a(/", "/b(/", "project/regular-expression"),
    "namespaceResourceBlacklist": (
        {"group": "", "kind": "[A"},
        {"group": "", "kind": "[B"},
        "project/kind-pattern",
    ),
    "roles": (
        {"name": "a", "policies": ["p, a"]},
        {"name": "b", "policies": ["p, b"]},
        "project/policy",
    ),
    "syncWindows": (
        {"kind": "deny", "schedule": "0 0 * * *", "duration": "24h", "applications": ["a"]},
        {"kind": "deny", "schedule": "0 1 * * *", "duration": "24h", "applications": ["a"]},
        "project/sync-window-always-open",
    ),
    "destinationServiceAccounts": (
        {"server": HERE, "namespace": "a", "defaultServiceAccount": "A A"},
        {"server": HERE, "namespace": "b", "defaultServiceAccount": "A A"},
        "impersonation/account-name",
    ),
}


@pytest.mark.parametrize("key", BAD)
def test_an_update_is_told_of_its_own_bad_entries_at_their_places(key: str) -> None:
    bad, worse, rule = BAD[key]
    found = told(project(**{key: [bad]}), project(**{key: [bad, worse]}))
    assert {path.split(".")[1] for found_rule, path in found if found_rule == rule} == {f"{key}[1]"}
    removed = told(project(**{key: [worse, bad]}), project(**{key: [bad]}))
    assert rule not in {found_rule for found_rule, _ in removed}


def test_a_policy_that_its_role_had_is_not_judged_again_and_in_another_role_it_is() -> None:
    old = project(roles=[{"name": "a", "policies": ["p, x"]}])
    same = project(roles=[{"name": "a", "policies": ["p, x"], "groups": ["g"]}])
    other = project(roles=[{"name": "b", "policies": ["p, x"]}])
    assert told(old, same) == set()
    assert ("project/policy", "spec.roles[0].policies[0]") in told(old, other)


def test_two_that_are_the_same_are_told_wherever_they_stand() -> None:
    one = {"server": HERE, "namespace": "a"}
    found = told(project(destinations=[one]), project(destinations=[one, one]))
    assert ("project/duplicate-destination", "spec.destinations[1]") in found


def account(namespace: str) -> dict[str, str]:
    return {"server": HERE, "namespace": namespace, "defaultServiceAccount": "deployer"}


def test_an_entry_is_told_when_it_is_shadowed_by_a_new_one_and_when_the_order_changes() -> None:
    rule = "impersonation/shadowed-entry"
    narrow, wide, other = account("shop-live"), account("shop-*"), account("other")
    before = project(destinationServiceAccounts=[narrow, other])
    first = project(destinationServiceAccounts=[wide, narrow, other])
    assert (rule, "spec.destinationServiceAccounts[1]") in told(before, first)
    last = project(destinationServiceAccounts=[narrow, other, wide])
    assert rule not in {found for found, _ in told(before, last)}
    assert (rule, "spec.destinationServiceAccounts[1]") in told(last, first)
    more = project(destinationServiceAccounts=[wide, narrow, other, account("another")])
    assert rule not in {found for found, _ in told(first, more)}


def test_destinations_are_looked_at_again_when_accounts_or_labels_change() -> None:
    rule = "impersonation/destination-without-account"
    here = [{"server": HERE, "namespace": "a"}, {"server": HERE, "namespace": "b"}]
    both = project(destinations=here, destinationServiceAccounts=[account("a"), account("b")])
    fewer = project(destinations=here, destinationServiceAccounts=[account("a")])
    assert (rule, "spec.destinations[1]") in told(both, fewer)
    labelled = {**fewer, "metadata": {**fewer["metadata"], "labels": {"team": "shop"}}}
    assert (rule, "spec.destinations[1]") in told(fewer, labelled)
    third = project(
        destinations=[*here, {"server": HERE, "namespace": "c"}], destinationServiceAccounts=[account("a")]
    )
    assert {path for found, path in told(fewer, third) if found == rule} == {"spec.destinations[2]"}


def test_a_way_to_argo_cds_namespace_is_told_when_it_opens() -> None:
    rule = "project/destination-control-plane"
    denial, everywhere = ({"server": HERE, "namespace": namespace} for namespace in ("!argocd", "*"))
    closed, opened = project(destinations=[everywhere, denial]), project(destinations=[everywhere])
    wider = project(destinations=[everywhere, {"server": HERE, "namespace": "shop"}])
    assert (rule, "spec.destinations[0]") in told(closed, opened, Profile.STRICT)
    assert (rule, "spec.destinations[0]") in told(project(destinations=[denial]), opened, Profile.STRICT)
    assert rule not in {found for found, _ in told(opened, closed, Profile.STRICT)}
    assert rule not in {found for found, _ in told(opened, wider, Profile.STRICT)}
