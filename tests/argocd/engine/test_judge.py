"""Asking the rules."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from argocd import names
from argocd.engine.judge import Judgement, judge
from argocd.judging.case import (
    Action,
    Case,
    Check,
    Finding,
    Kind,
    Object,
    Operation,
    Profile,
    Rule,
    SharedLook,
    Surroundings,
    User,
)
from argocd.judging.configuration import Configuration, Exemption, NamespacePolicy
from argocd.judging.memo import Remembered
from argocd.settings.argocd_cm import Settings
from argocd.shortening import LONGEST
from tests.argocd.fake_neighbours import Nothing

TODAY = date(2026, 9, 1)


def finding_of(rule: str, message: str = "wrong") -> Callable[[Case], Iterable[Finding]]:
    return lambda _: [Finding(rule, "spec", message)]


def rule(
    name: str,
    *,
    reads: tuple[str, ...] = ("spec.field",),
    kinds: frozenset[Kind] = frozenset({Kind.PROJECT}),
    action: Action = Action.DENY,
    operations: frozenset[Operation] = frozenset({Operation.CREATE, Operation.UPDATE}),
    check: Check | None = None,
    mild_when: Callable[[Case], bool] | None = None,
) -> Rule:
    return Rule(
        id=f"project/{name}",
        kinds=kinds,
        profile=Profile.RECOMMENDED,
        action=action,
        reads=reads,
        title="",
        explanation="",
        bad="",
        good="",
        check=check or finding_of(f"project/{name}"),
        operations=operations,
        mild_when=mild_when,
    )


def project(**parts: Any) -> Object:
    return {"metadata": {"name": "pay", "namespace": "argocd"}, "spec": {"field": 1, "other": 1}, **parts}


def case(
    thing: Object | None = None,
    *,
    old: Object | None = None,
    operation: Operation | None = None,
    configuration: Configuration | None = None,
    writer: User | None = None,
    kind: Kind = Kind.PROJECT,
) -> Case:
    return Case(
        kind=kind,
        object=project() if thing is None else thing,
        old=old,
        operation=operation or (Operation.UPDATE if old is not None else Operation.CREATE),
        surroundings=Surroundings(
            settings=Settings(), configuration=configuration or Configuration(), neighbours=Nothing()
        ),
        writer=writer or User(),
    )


def asked(judgements: list[Judgement]) -> list[str]:
    return [judgement.finding.rule.removeprefix("project/") for judgement in judgements]


def test_findings_come_in_the_order_of_the_rules() -> None:
    rules = [rule("b"), rule("a"), rule("c", action=Action.WARN)]
    found = judge(case(), today=TODAY, rules=rules)
    assert asked(found) == ["b", "a", "c"]
    assert [judgement.action for judgement in found] == [Action.DENY, Action.DENY, Action.WARN]


def test_a_rule_is_asked_about_its_kinds_and_about_every_kind_if_it_says_so() -> None:
    rules = [
        rule("application", kinds=frozenset({Kind.APPLICATION})),
        rule("any", kinds=frozenset({Kind.ANY})),
        rule("project"),
    ]
    assert asked(judge(case(), today=TODAY, rules=rules)) == ["any", "project"]
    assert asked(judge(case(kind=Kind.ANY), today=TODAY, rules=rules)) == ["any"]


def test_an_update_asks_only_the_rules_whose_fields_changed() -> None:
    rules = [
        rule("field"),
        rule("other", reads=("spec.other",)),
        rule("labels", reads=("metadata.labels",)),
        rule("both", reads=("metadata.labels", "spec.field")),
        rule("whole", reads=("spec",)),
    ]
    changed = case(project(spec={"field": 2, "other": 1}), old=project())
    assert asked(judge(changed, today=TODAY, rules=rules)) == ["field", "both", "whole"]


def test_a_rule_that_names_no_field_is_asked_at_every_update() -> None:
    assert asked(judge(case(old=project()), today=TODAY, rules=[rule("always", reads=())])) == ["always"]


def test_a_new_object_without_the_keys_that_a_rule_reads_is_not_asked_about() -> None:
    hook, wave = (f"metadata.annotations[{key}]" for key in (names.HOOK, names.SYNC_WAVE))
    rules = [
        rule("hook", reads=(hook,)),
        rule("either", reads=(hook, wave)),
        rule("also", reads=(hook, "spec.field")),
        rule("label", reads=("metadata.labels[x]",)),
    ]
    assert asked(judge(case(), today=TODAY, rules=rules)) == ["also"]
    waving = project(metadata={"annotations": {names.SYNC_WAVE: ""}})
    assert asked(judge(case(waving), today=TODAY, rules=rules)) == ["either", "also"]


def test_a_fact_about_a_case_is_found_once() -> None:
    found: list[Case] = []

    def fact(judged: Case) -> int:
        found.append(judged)
        return len(found)

    judged = case()
    assert [judged.once(fact), judged.once(fact)] == [1, 1]
    assert case().once(fact) == 2


def test_an_update_without_its_old_object_is_judged_as_a_whole() -> None:
    rules = [rule("a"), rule("always", reads=())]
    assert asked(judge(case(operation=Operation.UPDATE), today=TODAY, rules=rules)) == ["a", "always"]


def test_a_deletion_asks_the_rules_about_deletions() -> None:
    rules = [rule("a"), rule("deleting", operations=frozenset({Operation.DELETE}))]
    assert asked(judge(case(operation=Operation.DELETE), today=TODAY, rules=rules)) == ["deleting"]


def test_an_object_that_is_being_deleted_is_judged_by_what_changes_like_any_other() -> None:
    rules = [rule("a"), rule("labels", reads=("metadata.labels",)), rule("status", reads=("status",))]
    going = {"name": "pay", "namespace": "argocd", "deletionTimestamp": "2026-09-01T00:00:00Z"}
    before = project(metadata=going)

    def told(after: Object) -> list[str]:
        return asked(judge(case(after, old=before), today=TODAY, rules=rules))

    assert told(project(metadata=going, spec={"field": 2, "other": 1})) == ["a"]
    assert told(project(metadata={**going, "labels": {"a": "b"}})) == ["labels"]
    assert told(project(metadata={**going, "finalizers": []})) == []
    finished = judge(case({**before, "status": {"a": 1}}, old=before), today=TODAY, rules=rules)
    assert [one.action for one in finished] == [Action.WARN]


def test_a_deletion_that_has_begun_may_be_asked_for_again() -> None:
    deleting = rule("deleting", operations=frozenset({Operation.DELETE}))
    going = project(metadata={"name": "pay", "deletionTimestamp": "2026-09-01T00:00:00Z"})
    assert judge(case(going, operation=Operation.DELETE), today=TODAY, rules=[deleting]) == []


def test_the_garbage_collector_passes() -> None:
    collecting = case(operation=Operation.DELETE, writer=User(user=names.GARBAGE_COLLECTOR))
    deleting = rule("deleting", operations=frozenset({Operation.DELETE}))
    assert judge(collecting, today=TODAY, rules=[deleting]) == []


def test_rules_about_operations_and_finalizers_only_warn() -> None:
    rules = [rule("operation", reads=("operation",)), rule("finalizers", reads=("metadata.finalizers",))]
    syncing = case(project(operation={"sync": {}}), old=project())
    assert [judgement.action for judgement in judge(syncing, today=TODAY, rules=rules)] == [Action.WARN]
    also_changed = case(project(operation={}, spec={"field": 2}), old=project())
    assert [judgement.action for judgement in judge(also_changed, today=TODAY, rules=rules)] == [Action.DENY]


def test_a_rule_says_itself_when_it_only_warns() -> None:
    rules = [
        rule("mild", mild_when=lambda case: case.writer.user == "ada"),
        rule("audit", action=Action.AUDIT, mild_when=lambda _: True),
        rule("stern"),
    ]
    for writer, first in (("ada", Action.WARN), ("bob", Action.DENY)):
        found = judge(case(writer=User(user=writer)), today=TODAY, rules=rules)
        assert [judgement.action for judgement in found] == [first, Action.AUDIT, Action.DENY]


def test_a_refresh_request_is_no_change_of_the_annotations() -> None:
    refreshed = project(metadata={**project()["metadata"], "annotations": {names.REFRESH: "normal"}})
    rules = [rule("annotations", reads=("metadata.annotations",))]
    assert judge(case(refreshed, old=project()), today=TODAY, rules=rules) == []


def test_a_rule_that_is_off_is_not_asked() -> None:
    def never(_: Case) -> Iterator[Finding]:
        raise AssertionError

    configuration = Configuration(rules={"project/a": Action.OFF})
    rules = [rule("a", check=never), rule("b")]
    assert asked(judge(case(configuration=configuration), today=TODAY, rules=rules)) == ["b"]


def test_the_namespace_of_the_object_decides() -> None:
    configuration = Configuration(
        namespaces=(
            NamespacePolicy(match="team-a", rules={"project/*": Action.AUDIT}),
            NamespacePolicy(match="team-*", rules={"project/*": Action.WARN}),
        )
    )
    rules = [rule("a")]

    def action_in(namespace: str) -> Action:
        there = project(metadata={"namespace": namespace})
        return judge(case(there, configuration=configuration), today=TODAY, rules=rules)[0].action

    assert [action_in(namespace) for namespace in ("team-a", "team-b", "argocd", "team-a")] == [
        Action.AUDIT,
        Action.WARN,
        Action.DENY,
        Action.AUDIT,
    ]


def test_an_exempted_finding_is_reported_with_its_exemption() -> None:
    exemption = Exemption(rules=("project/a",), names=("pay",), until=TODAY)
    configuration = Configuration(exemptions=(exemption,))
    found = judge(case(configuration=configuration), today=TODAY, rules=[rule("a"), rule("b")])
    assert [(judgement.action, judgement.exemption) for judgement in found] == [
        (Action.AUDIT, exemption),
        (Action.DENY, None),
    ]
    later = judge(case(configuration=configuration), today=date(2026, 9, 2), rules=[rule("a")])
    assert [(judgement.action, judgement.exemption) for judgement in later] == [(Action.DENY, None)]


def test_a_rule_that_fails_says_so_without_the_object_and_stops_nobody() -> None:
    def failing(judged: Case) -> Iterator[Finding]:
        raise KeyError(judged.object["metadata"]["name"])

    found = judge(case(), today=TODAY, rules=[rule("a", check=failing), rule("b")])
    assert found[0].finding == Finding(
        "project/a", "", "this rule failed with KeyError and did not judge to the end"
    )
    assert found[0].action is Action.WARN
    assert asked(found) == ["a", "b"]


def test_what_is_said_is_cut_where_nobody_reads_on_and_nothing_is_cut_amid_a_password() -> None:
    long = "x" * 1_000_000
    cut = "x" * LONGEST + "…"
    assert Finding("project/a", long, long, long) == Finding("project/a", cut, cut, cut)
    password = Finding("project/a", "spec", f"{'x' * 1_000} https://me:{'p' * 4_000}@host {long}").message
    assert len(password) == len(cut)
    assert "p" * 4 not in password


def test_a_changed_configuration_is_noticed_and_only_a_few_are_remembered() -> None:
    rules = [rule("a")]
    for action in [Action.WARN, Action.AUDIT] * 20:
        configuration = replace(Configuration(), rules={"project/a": action})
        assert judge(case(configuration=configuration), today=TODAY, rules=rules)[0].action is action


@pytest.mark.parametrize("thing", [{}, {"metadata": None}, {"metadata": []}, {"metadata": {"namespace": 3}}])
def test_an_object_of_any_shape_is_judged(thing: Object) -> None:
    assert asked(judge(case(thing), today=TODAY, rules=[rule("a")])) == ["a"]
    assert asked(judge(case(thing, old=project()), today=TODAY, rules=[rule("a")])) == ["a"]


def test_a_new_object_without_what_a_rule_needs_is_not_asked_about_though_it_has_what_the_rule_reads() -> (
    None
):
    needing = replace(rule("a"), needs=("spec.needed",))
    assert asked(judge(case(), today=TODAY, rules=(needing, rule("b")))) == ["b"]
    having = project(spec={"needed": None})
    assert asked(judge(case(having), today=TODAY, rules=(needing, rule("b")))) == ["a", "b"]
    changed = case(project(spec={"field": 2}), old=project())
    assert asked(judge(changed, today=TODAY, rules=(needing,))) == ["a"]


def test_rules_that_share_a_look_are_asked_where_it_finds_something_and_where_it_fails() -> None:
    def seen(judged: Case) -> list[str]:
        found: list[str] = judged.object["spec"]["found"]
        return found

    def telling(name: str) -> Rule:
        return rule(
            name, check=SharedLook(seen, lambda _, found: [Finding(name, "spec", one) for one in found])
        )

    rules = (telling("a"), telling("b"))
    assert judge(case(project(spec={"found": []})), today=TODAY, rules=rules) == []
    told = judge(case(project(spec={"found": ["x", "y"]})), today=TODAY, rules=rules)
    assert [(one.finding.rule, one.finding.message) for one in told] == [
        ("a", "x"),
        ("a", "y"),
        ("b", "x"),
        ("b", "y"),
    ]
    failed = judge(case(), today=TODAY, rules=rules)
    assert [one.finding.message for one in failed] == [
        "this rule failed with KeyError and did not judge to the end"
    ] * 2


def test_what_is_remembered_of_a_project_is_told_again_and_only_what_found_nothing_is_skipped() -> None:
    taken: list[str] = []

    def looking(name: str) -> Rule:
        def look(judged: Case) -> list[str]:
            taken.append(name)
            return [one for one in judged.object["spec"]["sourceRepos"] if one == name]

        return rule(
            name,
            check=SharedLook(Remembered(look), lambda _, found: [Finding(f"project/{name}", "spec", *found)]),
        )

    rules = (looking("a"), rule("between"), looking("b"))
    for repositories, expected in ((["c"], ["between"]), (["b"], ["between", "b"])):
        for _ in range(2):
            judged = case(project(spec={"sourceRepos": repositories}))
            assert asked(judge(judged, today=TODAY, rules=rules)) == expected
    assert taken == ["a", "b", "a", "b"]


def test_more_sets_of_marks_than_are_worth_remembering_are_judged_all_the_same() -> None:
    keys = [f"mark-{number}" for number in range(10)]
    rules = tuple(rule(key, reads=(f"metadata.labels[{key}]",)) for key in keys)
    configuration = Configuration()
    for number in range(1 << len(keys)):
        had = [key for place, key in enumerate(keys) if number >> place & 1]
        marked = case(project(metadata={"labels": dict.fromkeys(had, "")}), configuration=configuration)
        assert asked(judge(marked, today=TODAY, rules=rules)) == had
