"""A review that takes too much work ends with what it has found."""

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

TODAY = date(2026, 9, 1)
RULE = "object/too-costly"
HERE = names.IN_CLUSTER_SERVER
LARGE = int(1.4 * (1 << 20))
"""Bytes; etcd stores 1.5 MiB with what surrounds an object."""

Object = dict[str, Any]


def own(kind: str, *, namespace: str = "argocd", **spec: Any) -> Object:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": "shop", "namespace": namespace, "uid": "1"},
        "spec": spec,
    }


def project(**spec: Any) -> Object:
    return own("AppProject", **spec)


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


def hostile(number: int = 400) -> list[Object]:
    return [{"server": HERE, "namespace": f"*a*a*b*a*{{a,b}}{index}"} for index in range(number)]


ORDINARY: dict[str, Object] = {
    "destinations": project(
        destinations=[{"server": HERE, "namespace": f"team-{index}-checkout"} for index in range(18_000)],
        destinationServiceAccounts=[{"server": HERE, "namespace": "*", "defaultServiceAccount": "deployer"}],
    ),
    "destinations with wildcards": project(
        destinations=[{"server": HERE, "namespace": f"team-{index}-*"} for index in range(18_000)]
    ),
    "denials": project(
        destinations=[
            {"server": HERE, "namespace": "*"},
            *({"server": HERE, "namespace": f"!team-{index}-x"} for index in range(18_000)),
        ]
    ),
    "repositories": project(
        sourceRepos=[
            f"https://git.example.com/team-{index}/repository-{index}.git" for index in range(25_000)
        ]
    ),
    "namespaces": project(sourceNamespaces=[f"team-{index}-namespace-of-team" for index in range(45_000)]),
    "accounts": project(
        destinations=[{"server": HERE, "namespace": f"team-{index}-x"} for index in range(8_000)],
        destinationServiceAccounts=[
            {"server": HERE, "namespace": f"team-{index}-*", "defaultServiceAccount": f"deployer-{index}"}
            for index in range(8_000)
        ],
    ),
    "roles": project(
        roles=[
            {
                "name": f"role-{index}",
                "policies": [f"p, proj:shop:role-{index}, applications, sync, shop/*, allow"],
                "groups": [f"group-{index}"],
            }
            for index in range(12_000)
        ]
    ),
    "windows": project(
        syncWindows=[
            {
                "kind": "allow",
                "schedule": f"{index % 60} {index % 24} * * 1-5",
                "duration": "1h",
                "applications": [f"app-{index}-*"],
            }
            for index in range(14_000)
        ]
    ),
    "kinds": project(
        namespaceResourceWhitelist=[
            {"group": "example.com", "kind": f"Kind{index}"} for index in range(32_000)
        ]
    ),
    "sources": own(
        "Application",
        project="shop",
        destination={"server": HERE, "namespace": "shop"},
        sources=[
            {
                "repoURL": f"https://git.example.com/{index}",
                "path": "deploy",
                "targetRevision": "v1",
                "helm": {"values": f"name: {index}\n" * 20},
            }
            for index in range(4_000)
        ],
    ),
    "elements": own(
        "ApplicationSet",
        goTemplate=True,
        goTemplateOptions=["missingkey=error"],
        generators=[
            {"list": {"elements": [{"name": f"team-{index}", "cluster": "east"} for index in range(32_000)]}}
        ],
        template={
            "metadata": {"name": "shop-{{.name}}"},
            "spec": {"project": "shop", "destination": {"server": HERE, "namespace": "shop"}},
        },
    ),
    "a ConfigMap": {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "large", "namespace": "shop", "uid": "1"},
        "data": {f"key-{index}": "value " * 20 for index in range(11_000)},
    },
}

HOSTILE: dict[str, Object] = {
    "stars": project(destinations=hostile(15_000)),
    "nested braces": project(
        destinations=[
            {"server": HERE, "namespace": "{a," * 30 + str(index) + "}" * 30} for index in range(9_000)
        ]
    ),
    "accounts that are all globs": project(
        destinationServiceAccounts=[
            {"server": HERE, "namespace": f"a{index}**", "defaultServiceAccount": "a"}
            for index in range(15_000)
        ]
    ),
    "expressions that become large": project(
        sourceNamespaces=[f"/(?i:\\pL){{200}}{index}/" for index in range(30_000)]
    ),
    "windows of days": project(
        syncWindows=[
            {"kind": "deny", "schedule": f"0 0 {index % 28 + 1} * *", "duration": f"{index + 800}h"}
            for index in range(15_000)
        ]
    ),
    "names with many variables": own(
        "ApplicationSet",
        generators=[{"list": {"elements": [{"a": "b"}] * 100_000}}],
        template={"metadata": {"name": "{{a}}" * 200}},
    ),
    "what is wrong everywhere": project(sourceNamespaces=["?"] * 300_000),
    "generators of nothing": own("ApplicationSet", generators=[{}] * 300_000, template={}),
}


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
    changed = {**old, "spec": {**old["spec"], "destinations": hostile(401)}}
    assert told(changed, old=old, configuration=limited())[RULE] is Action.DENY


def test_the_configuration_has_its_say() -> None:
    thing = project(destinations=hostile())
    assert told(thing, configuration=limited(rules={RULE: Action.AUDIT}))[RULE] is Action.AUDIT
    assert RULE not in told(thing, configuration=limited(rules={RULE: Action.OFF}))
    assert told(thing, configuration=limited(enforcement=Enforcement.WARN))[RULE] is Action.WARN
    exempt = (Exemption(rules=(RULE,), names=("shop",)),)
    assert told(thing, configuration=limited(exemptions=exempt))[RULE] is Action.AUDIT
    more = Configuration(limits=ReviewLimits(review_steps=10_000_000))
    assert RULE not in told(thing, configuration=more)
