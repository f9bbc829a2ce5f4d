"""A review that takes too much work ends with what it has found."""

import tracemalloc
from collections.abc import Mapping
from datetime import date
from typing import Any

import orjson
import pytest

from argocd import names
from argocd.budget import DEFAULT_STEPS, StepBudget
from argocd.engine.directory import Directory, Shelf
from argocd.engine.judge import judge
from argocd.judging.case import Action, Case, Operation, Surroundings, User, kind_of
from argocd.judging.configuration import Configuration, Enforcement, Exemption, ReviewLimits
from argocd.settings.argocd_cm import ImpersonationSwitch, Settings
from tests.argocd.costly_objects import (
    HERE,
    HOSTILE,
    HOSTILE_SETTINGS,
    ORDINARY,
    Object,
    aliases,
    hostile,
    own,
    project,
)
from tests.processor_time import least_seconds

TODAY = date(2026, 9, 1)
RULE = "object/too-costly"
LARGE = int(1.4 * (1 << 20))
"""Bytes; etcd stores 1.5 MiB with what surrounds an object."""

SECONDS = 1.0
"""Of one core, for the whole budget."""


def told(
    thing: Mapping[str, Any],
    *,
    old: Mapping[str, Any] | None = None,
    configuration: Configuration | None = None,
    settings: Settings | None = None,
) -> dict[str, Action]:
    directory = Directory(
        argocd_namespace="argocd", known=[Shelf.PROJECTS, Shelf.SECRETS, Shelf.APPLICATIONS]
    )
    impersonated = Settings(known=True, impersonation=ImpersonationSwitch(enabled=True, enforced=True))
    case = Case(
        kind=kind_of(thing),
        object=thing,
        old=old,
        operation=Operation.CREATE if old is None else Operation.UPDATE,
        writer=User(user="ada"),
        surroundings=Surroundings(
            settings=settings or impersonated,
            configuration=configuration or Configuration(),
            neighbours=directory,
        ),
    )
    return {one.finding.rule: one.action for one in judge(case, today=TODAY)}


@pytest.mark.parametrize("thing", ORDINARY.values(), ids=ORDINARY)
def test_a_large_ordinary_object_takes_less_than_a_tenth_of_the_budget(thing: Object) -> None:
    assert len(orjson.dumps(thing)) > 0.75 * LARGE
    with StepBudget() as taken:
        found = told(thing)
    assert RULE not in found
    assert taken.steps < DEFAULT_STEPS / 10


@pytest.mark.parametrize("thing", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_object_ends_at_the_budget_and_is_refused(thing: Object) -> None:
    with StepBudget() as taken:
        assert told(thing)[RULE] is Action.DENY
    assert taken.steps < 5 * DEFAULT_STEPS  # one charge may be large, the work is not done then


@pytest.mark.parametrize("thing", HOSTILE_SETTINGS.values(), ids=HOSTILE_SETTINGS)
def test_hostile_settings_end_at_the_budget_with_a_warning(thing: Object) -> None:
    assert told(thing)[RULE] is Action.WARN


@pytest.mark.parametrize(
    "thing", [*HOSTILE.values(), *HOSTILE_SETTINGS.values()], ids=[*HOSTILE, *HOSTILE_SETTINGS]
)
def test_a_hostile_object_takes_less_than_a_second_of_one_core(thing: Object) -> None:
    assert least_seconds(lambda: told(thing), below=SECONDS) < SECONDS


@pytest.mark.parametrize("depth", range(1, 75))
def test_nested_braces_are_judged_at_once(depth: int) -> None:
    """Whether they are all text or have wildcards in them: the work grows with the length."""
    for piece in ("{a,", "{*a,"):
        pattern = piece * depth + "b" + "}" * depth
        with StepBudget() as taken:
            told(project(destinations=[{"server": pattern, "namespace": pattern}]))
        assert taken.steps < 60_000


def test_the_same_object_costs_the_same_however_often_it_is_judged() -> None:
    thing = project(destinations=hostile(40), destinationServiceAccounts=hostile(10))
    steps = []
    for _ in range(3):
        with StepBudget() as taken:
            told(thing)
        steps.append(taken.steps)
    assert len(set(steps)) == 1


def test_what_was_found_before_is_told_too() -> None:
    found = told(project(sourceRepos=["!*"], destinations=hostile()), configuration=limited())
    assert found["project/source-repo-format"] is Action.DENY
    assert found[RULE] is Action.DENY


@pytest.mark.parametrize(
    "spec",
    [
        {
            "roles": [
                {"name": "r" * 300_000, "policies": [f"p, a, b, c, d, {number}" for number in range(1_000)]}
            ]
        },
        {"roles": [{"name": "r" * 300_000, "groups": ["a"] * 1_000}]},
    ],
    ids=["policies", "groups"],
)
def test_a_long_name_that_is_quoted_everywhere_takes_little_memory(spec: Object) -> None:
    thing = project(**spec)
    tracemalloc.start()
    try:
        told(thing)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 20 * (1 << 20)


def test_a_small_object_with_no_end_of_mistakes_ends_before_all_are_told() -> None:
    """Eight kilobytes with twelve thousand mistakes; an object with hundreds is told all of them."""
    assert told(project(syncWindows=[{}] * 2_500))[RULE] is Action.DENY
    assert RULE not in told(project(syncWindows=[{}] * 500))


def limited(**more: Any) -> Configuration:
    return Configuration(limits=ReviewLimits(review_steps=10_000), **more)


APPLICATION_NAMESPACES = Settings(application_namespaces=("team-*",))


@pytest.mark.parametrize(
    ("kind", "namespace", "settings", "action"),
    [
        ("AppProject", "argocd", Settings(), Action.DENY),
        ("AppProject", "", Settings(), Action.DENY),
        ("AppProject", "team-a", APPLICATION_NAMESPACES, Action.DENY),
        ("AppProject", "elsewhere", APPLICATION_NAMESPACES, Action.WARN),
        ("AppProject", "elsewhere", Settings(), Action.WARN),
    ],
)
def test_it_denies_where_the_entry_fails_closed_and_warns_where_it_fails_open(
    kind: str, namespace: str, settings: Settings, action: Action
) -> None:
    thing = own(kind, namespace=namespace, destinations=hostile())
    assert told(thing, configuration=limited(), settings=settings)[RULE] is action


def test_it_denies_in_the_namespace_of_an_agent_whose_cluster_is_known() -> None:
    """Its label makes the entry fail closed."""
    directory = Directory(argocd_namespace="argocd", known=list(Shelf))
    directory.put_secret(
        {
            "metadata": {"name": "a", "namespace": "argocd", "labels": {names.SECRET_TYPE: "cluster"}},
            "stringData": {"name": "edge-1", "server": "https://principal:9090?agentName=edge-1"},
        }
    )
    for namespace, action in (("edge-1", Action.DENY), ("edge-2", Action.WARN)):
        thing = own("AppProject", namespace=namespace, destinations=hostile())
        case = Case(
            kind=kind_of(thing),
            object=thing,
            surroundings=Surroundings(settings=Settings(), configuration=limited(), neighbours=directory),
        )
        assert [one.action for one in judge(case, today=TODAY) if one.finding.rule == RULE] == [action]


def test_values_of_charts_take_a_share_of_the_budget_and_no_more() -> None:
    source = {"repoURL": "https://git.example.com/a", "path": ".", "helm": {"values": f"a: {aliases(440)}"}}
    with StepBudget() as taken:
        told(own("Application", project="shop", destination={"server": HERE}, sources=[source] * 300))
    assert taken.steps < DEFAULT_STEPS / 10


def test_it_warns_about_objects_that_are_not_argo_cds_own() -> None:
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "large",
            "namespace": "argocd",
            "annotations": {names.SYNC_OPTIONS: "a," * 1_000},
        },
    }
    assert told(config_map, configuration=limited())[RULE] is Action.WARN


def test_on_an_update_only_what_changed_is_charged() -> None:
    old = project(destinations=hostile(), description="old")
    found = told({**old, "spec": {**old["spec"], "description": "new"}}, old=old, configuration=limited())
    assert RULE not in found
    more = {**old, "spec": {**old["spec"], "destinations": [*hostile(), *other(2)]}}
    assert RULE not in told(more, old=old, configuration=limited())
    many = {**old, "spec": {**old["spec"], "destinations": [*hostile(), *other(400)]}}
    assert told(many, old=old, configuration=limited())[RULE] is Action.DENY


def other(number: int) -> list[Object]:
    return [{**entry, "namespace": f"x{entry['namespace']}"} for entry in hostile(number)]


ENTRIES = 5_000
COMPARED = 3
"""Steps at most for an entry that stays: it is compared with those before, and counted where two must not be the same."""


def entry(kind: str, number: object) -> Any:
    """One of a list, costly to judge."""
    glob = f"*a*a{number}*{{b,c}}"
    return {
        "destinations": {"server": HERE, "namespace": glob},
        "sourceRepos": f"https://git.example.com/{number}*a*b*{{c,d}}",
        "sourceNamespaces": f"/^a{number}(b|c)+$/",
        "destinationServiceAccounts": {"server": HERE, "namespace": glob, "defaultServiceAccount": "a"},
        "namespaceResourceBlacklist": {"group": "a", "kind": f"[K{number}"},
        "roles": {"name": f"role-{number}", "policies": ["p, what, is, this"], "groups": [" x"]},
        "policies": f"p, proj:shop:dev, applications, fly-{number}, shop/*, allow",
        "groups": f" group-{number}",
        "syncWindows": {
            "kind": "deny",
            "schedule": "0 0 1 * *",
            "duration": f"{600 + len(str(number))}h",
            "applications": [glob],
        },
        "ignoreDifferences": {"kind": "Job", "jqPathExpressions": [f".spec.a{number}[] | select(.b)"]},
        "elements": {"name": f"team-{number}", "cluster": "east"},
        "generators": {"list": {"elements": [{"name": f"team-{number}"}]}},
        "filters": {
            "scmProvider": {
                "github": {"organization": "a"},
                "filters": [{"repositoryMatch": f"^a{number}(b|c)+$"}],
            }
        },
        "sources": {"repoURL": f"https://git.example.com/{number}", "path": "deploy", "targetRevision": "v1"},
        "values": {
            "repoURL": f"https://git.example.com/{number}",
            "path": "deploy",
            "helm": {"values": "a: [b, c, d, e, f, g]"},
        },
    }[kind]


def with_entries(kind: str, entries: list[Any]) -> Object:
    if kind in {"policies", "groups"}:
        return project(roles=[{"name": "dev", kind: entries}])
    if kind in {"ignoreDifferences", "sources", "values"}:
        key = "sources" if kind == "values" else kind
        spec: Object = {"project": "shop", "destination": {"server": HERE}, key: entries}
        return {**own("Application"), "spec": spec}
    if kind in {"elements", "filters", "generators"}:
        generators = [{"list": {"elements": entries}}] if kind == "elements" else entries
        template = {"metadata": {"name": "shop-{{.name}}"}, "spec": {"project": "shop"}}
        return own("ApplicationSet", goTemplate=True, generators=generators, template=template)
    return project(**{kind: entries})


def steps_of_an_update(kind: str) -> tuple[int, int]:
    """Of one entry among thousands, and of that entry alone in a new object."""
    entries = [entry(kind, number) for number in range(ENTRIES)]
    changed = [*entries[:2_000], entry(kind, "new"), *entries[2_001:]]
    with StepBudget() as alone:
        told(with_entries(kind, [entry(kind, "new")]))
    with StepBudget() as taken:
        assert RULE not in told(with_entries(kind, changed), old=with_entries(kind, entries))
    return taken.steps, alone.steps


@pytest.mark.parametrize(
    "kind",
    [
        "destinations",
        "sourceRepos",
        "sourceNamespaces",
        "namespaceResourceBlacklist",
        "roles",
        "policies",
        "groups",
        "syncWindows",
        "ignoreDifferences",
    ],
)
def test_an_update_of_one_entry_among_thousands_is_charged_as_that_entry(kind: str) -> None:
    taken, alone = steps_of_an_update(kind)
    assert taken < COMPARED * ENTRIES + 3 * alone


def test_a_new_account_is_compared_with_the_others_and_they_not_with_each_other() -> None:
    """Two globs are held against each other in some thirty steps, and the new one stands between the others."""
    taken, alone = steps_of_an_update("destinationServiceAccounts")
    assert taken < (COMPARED + 30) * ENTRIES + 3 * alone


@pytest.mark.parametrize(
    ("kind", "each"), [("sources", 5), ("values", 5), ("elements", 5), ("generators", 30), ("filters", 30)]
)
def test_what_stays_is_charged_for_what_is_a_question_about_all(kind: str, each: int) -> None:
    """Which names they generate, and which of them are the same; what each of them says is charged where it is new."""
    taken, _ = steps_of_an_update(kind)
    assert taken < each * ENTRIES < DEFAULT_STEPS / 4


def test_a_source_or_a_generator_that_stays_is_not_judged_again() -> None:
    wrong = {"repoURL": "https://git.example.com/a b", "path": "../.."}
    sources = [wrong, entry("sources", 1)]
    old, new = (with_entries("sources", [*sources, entry("sources", number)]) for number in (2, 3))
    assert "application/source-path" in told(old)
    assert not told(new, old=old)
    generators = [{"git": {}}, entry("generators", 1)]
    old, new = (with_entries("generators", [*generators, entry("generators", number)]) for number in (2, 3))
    assert "applicationset/git-empty" in told(old)
    assert "applicationset/git-empty" not in told(new, old=old)
    assert "applicationset/git-empty" in told({**new, "spec": {**new["spec"], "goTemplate": False}}, old=old)


def test_the_configuration_has_its_say() -> None:
    thing = project(destinations=hostile())
    assert told(thing, configuration=limited(rules={RULE: Action.AUDIT}))[RULE] is Action.AUDIT
    assert RULE not in told(thing, configuration=limited(rules={RULE: Action.OFF}))
    assert told(thing, configuration=limited(enforcement=Enforcement.WARN))[RULE] is Action.WARN
    exempt = (Exemption(rules=(RULE,), names=("shop",)),)
    assert told(thing, configuration=limited(exemptions=exempt))[RULE] is Action.AUDIT
    more = Configuration(limits=ReviewLimits(review_steps=10_000_000))
    assert RULE not in told(thing, configuration=more)
