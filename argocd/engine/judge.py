"""Asks the rules that have something to say about a case, and no others; `argocd.engine.plan` says which these are.

It ends with what it has found when the budget of the review is used up (`argocd.budget`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from argocd import reading
from argocd.budget import FINDING, BudgetExceededError, StepBudget
from argocd.engine.plan import Group, plan_for
from argocd.engine.templates import TEMPLATE, template_findings
from argocd.judging.case import Action, Case, Finding, Kind, Operation, Rule, kind_of
from argocd.judging.configuration import Exemption
from argocd.judging.memo import nothing_found
from argocd.judging.ratchet import changes_only_what_passes
from argocd.judging.writers import is_kubernetes_cleaning_up
from argocd.rules.any_object import TOO_COSTLY, too_costly
from argocd.rules.catalogue import CATALOGUE

_SECRETS = frozenset({Kind.REPOSITORY, Kind.CLUSTER})


@dataclass(frozen=True, slots=True)
class Judgement:
    """A finding and what is to be done about it.

    With an `exemption` the action is `audit`: its use is reported and changes nothing.
    """

    finding: Finding
    action: Action
    exemption: Exemption | None = None


def judge(case: Case, *, today: date, rules: Sequence[Rule] = CATALOGUE) -> list[Judgement]:
    """Everything that is wrong with the object, in the order of the rules; `today` ends exemptions."""
    if _always_passes(case):
        return []
    judgements: list[Judgement] = []
    limits = case.surroundings.configuration.limits
    try:
        with StepBudget(limits.review_steps) as budget:
            _ask(case, rules, judgements, budget)
            if case.kind is Kind.APPLICATION_SET:
                judgements += _of_template(case, rules)
    except BudgetExceededError:
        judgements += costs_too_much(case)
    return weigh(judgements, case, today=today) if judgements else judgements


def _ask(case: Case, rules: Sequence[Rule], judgements: list[Judgement], budget: StepBudget) -> None:
    alone: tuple[Any, ...] = (case,)
    for notice, steps in _asked(case, rules):
        known = alone
        if notice is not None:
            try:
                noticed = case.once(notice)
            except BudgetExceededError:
                raise
            except Exception as error:  # noqa: BLE001 - as below: each rule that needs it has failed, and says so
                judgements += [_failure(rule, error) for _, rule, _ in steps]
                continue
            if not noticed:
                continue
            known = (case, noticed)
        for ask, rule, action in steps:
            try:
                for finding in ask(*known):
                    budget.spend(FINDING)
                    mild = action is Action.DENY and rule.mild_when is not None and case.once(rule.mild_when)
                    judgements.append(Judgement(finding, Action.WARN if mild else action))
            except BudgetExceededError:
                raise
            except Exception as error:  # noqa: BLE001 - one broken rule must not stop every write to a cluster
                judgements.append(_failure(rule, error))


def _of_template(case: Case, rules: Sequence[Rule]) -> list[Judgement]:
    try:
        return [Judgement(finding, action) for finding, _, action in template_findings(case, rules)]
    except BudgetExceededError:
        raise
    except Exception as error:  # noqa: BLE001 - as above
        broken = f"judging the template failed with {type(error).__name__}"
        return [Judgement(Finding("applicationset/template-syntax", TEMPLATE, broken), Action.WARN)]


def _asked(case: Case, rules: Sequence[Rule]) -> tuple[Group, ...]:
    configuration = case.surroundings.configuration
    # Where no namespace has a policy of its own all of them have one plan.
    namespace = reading.text(case.object, "metadata", "namespace") if configuration.namespaces else ""
    plan = plan_for(case, rules, namespace=namespace)
    if case.old is None or _is_new_to_argocd(case, case.old):
        agenda = plan.for_whole(case.object)
    else:
        agenda = plan.for_change(case.old, case.object)
    return agenda.fresh if agenda.looks and agenda.looks <= nothing_found(case) else agenda.groups


def _is_new_to_argocd(case: Case, old: Any) -> bool:
    """Whether a label makes a Secret what it was not: nobody has judged it as that, so nothing of it is old."""
    return case.kind in _SECRETS and kind_of(old) is not case.kind


def _always_passes(case: Case) -> bool:
    """What Kubernetes cleans up; and a deletion that has begun may be asked for again."""
    return is_kubernetes_cleaning_up(case.writer) or (
        case.operation is Operation.DELETE
        and reading.value(case.object, "metadata", "deletionTimestamp") is not None
    )


def costs_too_much(case: Case) -> list[Judgement]:
    """What is said of an object whose review has used up its budget."""
    action = case.surroundings.configuration.action_for(
        TOO_COSTLY, namespace=reading.text(case.object, "metadata", "namespace")
    )
    if action is Action.OFF or case.operation not in TOO_COSTLY.operations:
        return []
    mild = action is Action.DENY and TOO_COSTLY.mild_when is not None and TOO_COSTLY.mild_when(case)
    return [Judgement(too_costly(case), Action.WARN if mild else action)]


def _failure(rule: Rule, error: Exception) -> Judgement:
    # The type alone: an exception's text may quote the object, and the object may be a Secret.
    broken = f"this rule failed with {type(error).__name__} and did not judge to the end"
    return Judgement(Finding(rule.id, "", broken), Action.WARN)


def weigh(judgements: list[Judgement], case: Case, *, today: date) -> list[Judgement]:
    """What is done in the end: changes that pass anyway and exemptions make findings milder."""
    configuration = case.surroundings.configuration
    gentle = case.old is not None and changes_only_what_passes(case.old, case.object)
    name = reading.text(case.object, "metadata", "name")
    namespace = reading.text(case.object, "metadata", "namespace")
    weighed = []
    for judgement in judgements:
        finding, action, exemption = judgement.finding, judgement.action, None
        if action is Action.DENY and gentle:
            action = Action.WARN
        if configuration.exemptions:
            exemption = configuration.exemption_for(
                finding.rule, namespace=namespace, name=name, writer=case.writer, today=today
            )
            action = Action.AUDIT if exemption else action
        weighed.append(Judgement(finding, action, exemption))
    return weighed
