"""Asks the rules that have something to say about a case, and no others; `argocd.engine.plan` says which these are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from argocd import reading
from argocd.engine.plan import Group, plan_for
from argocd.engine.templates import TEMPLATE, template_findings
from argocd.judging.case import Action, Case, Finding, Kind, Rule
from argocd.judging.configuration import Exemption
from argocd.judging.memo import nothing_found
from argocd.judging.ratchet import changes_only_what_passes
from argocd.judging.writers import is_kubernetes_cleaning_up
from argocd.rules.catalogue import CATALOGUE

MAX_MESSAGE = 1024
"""Characters of a message: it may quote a field of a megabyte, and a reader wants its beginning."""


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
    metadata = reading.mapping(case.object, "metadata")
    if _always_passes(case, metadata):
        return []
    judgements: list[Judgement] = []
    alone: tuple[Any, ...] = (case,)
    for notice, steps in _asked(case, rules, namespace=reading.text(metadata, "namespace")):
        known = alone
        if notice is not None:
            try:
                noticed = case.once(notice)
            except Exception as error:  # noqa: BLE001 - as below: each rule that needs it has failed, and says so
                judgements += [_failure(rule, error) for _, rule, _ in steps]
                continue
            if not noticed:
                continue
            known = (case, noticed)
        for ask, rule, action in steps:
            try:
                for finding in ask(*known):
                    mild = action is Action.DENY and rule.mild_when is not None and case.once(rule.mild_when)
                    judgements.append(Judgement(finding, Action.WARN if mild else action))
            except Exception as error:  # noqa: BLE001 - one broken rule must not stop every write to a cluster
                judgements.append(_failure(rule, error))
    if case.kind is Kind.APPLICATION_SET:
        judgements += _of_template(case, rules)
    return weigh(judgements, case, today=today) if judgements else judgements


def _of_template(case: Case, rules: Sequence[Rule]) -> list[Judgement]:
    try:
        return [Judgement(finding, action) for finding, _, action in template_findings(case, rules)]
    except Exception as error:  # noqa: BLE001 - as above
        broken = f"judging the template failed with {type(error).__name__}"
        return [Judgement(Finding("applicationset/template-syntax", TEMPLATE, broken), Action.WARN)]


def _asked(case: Case, rules: Sequence[Rule], *, namespace: str) -> tuple[Group, ...]:
    plan = plan_for(case, rules, namespace=namespace)
    agenda = plan.for_whole(case.object) if case.old is None else plan.for_change(case.old, case.object)
    return agenda.fresh if agenda.looks and agenda.looks <= nothing_found(case) else agenda.groups


def _always_passes(case: Case, metadata: Mapping[str, Any]) -> bool:
    return (
        metadata.get("deletionTimestamp") is not None
        or (case.old is not None and reading.value(case.old, "metadata", "deletionTimestamp") is not None)
        or is_kubernetes_cleaning_up(case.writer)
    )


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
        if len(finding.message) > MAX_MESSAGE:
            finding = replace(finding, message=f"{finding.message[:MAX_MESSAGE]}…")
        if action is Action.DENY and gentle:
            action = Action.WARN
        if configuration.exemptions:
            exemption = configuration.exemption_for(
                finding.rule, namespace=namespace, name=name, writer=case.writer, today=today
            )
            action = Action.AUDIT if exemption else action
        weighed.append(Judgement(finding, action, exemption))
    return weighed
