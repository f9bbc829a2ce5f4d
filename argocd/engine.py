"""Asks the rules that have something to say about a case, and no others.

What depends on the configuration alone (which rules speak about a kind in a namespace, and how loudly) is
worked out once for each configuration; a request pays for the rules whose inputs changed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import reduce
from itertools import groupby
from operator import or_
from typing import Any

from argocd import reading
from argocd.agents_projects import repeats_by_rewriting
from argocd.catalogue import CATALOGUE
from argocd.changing import KEYED, Path, changes_only_what_passes, differs, path_of
from argocd.identities import is_kubernetes_cleaning_up
from argocd.judging import Action, Case, Check, Finding, Kind, Look, Operation, Rule
from argocd.policy import Configuration, Exemption, NamespacePolicy

MAX_MESSAGE = 1024
"""Characters of a message: it may quote a field of a megabyte, and a reader wants its beginning."""

Step = tuple[int, Check, Rule, Action]
"""The bits of the fields that the rule reads come first."""
Notice = Callable[[Case], Sequence[Any]]

_ALWAYS = 1
"""The bit of rules that name no fields: they are asked at every update."""


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
    metadata = reading.mapping(case.object, "metadata")
    namespace = reading.text(metadata, "namespace")
    plan = _plans(case.surroundings.configuration, rules).plan(case.kind, case.operation, namespace)
    asked = plan.present(case.object) if case.old is None else plan.changed(case.old, case.object)
    judgements: list[Judgement] = []
    for notice, together, steps in plan.groups:
        if not together & asked or (notice and _finds_nothing(notice, case)):
            continue
        for mask, check, rule, action in steps:
            if mask & asked:
                try:
                    for finding in check(case):
                        judgements.append(Judgement(finding, action))  # noqa: PERF401 - keeps what came before a failure
                except Exception as error:  # noqa: BLE001 - one broken rule must not stop every write to a cluster
                    judgements.append(_failure(rule, error))
    return _weigh(judgements, case, today=today) if judgements else judgements


def _finds_nothing(notice: Notice, case: Case) -> bool:
    try:
        return not case.once(notice)
    except Exception:  # noqa: BLE001 - each rule that needs it fails by itself, and says so
        return False


def _always_passes(case: Case) -> bool:
    return (
        reading.value(case.object, "metadata", "deletionTimestamp") is not None
        or reading.value(case.old, "metadata", "deletionTimestamp") is not None
        or is_kubernetes_cleaning_up(case.writer)
    )


def _failure(rule: Rule, error: Exception) -> Judgement:
    # The type alone: an exception's text may quote the object, and the object may be a Secret.
    broken = f"this rule failed with {type(error).__name__} and did not judge to the end"
    return Judgement(Finding(rule.id, "", broken), Action.WARN)


def _weigh(judgements: list[Judgement], case: Case, *, today: date) -> list[Judgement]:
    configuration = case.surroundings.configuration
    gentle = case.old is not None and changes_only_what_passes(case.old, case.object)
    name = reading.text(case.object, "metadata", "name")
    namespace = reading.text(case.object, "metadata", "namespace")
    weighed = []
    for judgement in judgements:
        finding, action, exemption = judgement.finding, judgement.action, None
        if len(finding.message) > MAX_MESSAGE:
            finding = replace(finding, message=f"{finding.message[:MAX_MESSAGE]}…")
        if action is Action.DENY and (gentle or repeats_by_rewriting(case, finding.rule)):
            action = Action.WARN
        if configuration.exemptions:
            exemption = configuration.exemption_for(
                finding.rule, namespace=namespace, name=name, writer=case.writer, today=today
            )
            action = Action.AUDIT if exemption else action
        weighed.append(Judgement(finding, action, exemption))
    return weighed


def _notice_of(step: Step) -> Notice | None:
    check = step[1]
    return check.notice if isinstance(check, Look) else None


def _grouped(steps: Sequence[Step]) -> Iterator[tuple[Notice | None, int, tuple[Step, ...]]]:
    """Neighbours that share one look at the case, with the bits of all: most objects need none of them asked."""
    for notice, group in groupby(steps, _notice_of):
        together = tuple(group)
        yield notice, reduce(or_, (step[0] for step in together)), together


class _Plan:
    """The rules for one kind, operation and namespace policy, with the fields that each one reads as bits."""

    def __init__(self, steps: Iterable[tuple[Rule, Action]]) -> None:
        bits: dict[Path, int] = {}
        masked: list[Step] = []
        for rule, action in steps:
            mask = 0 if rule.reads else _ALWAYS
            for read in rule.reads:
                mask |= bits.setdefault(path_of(read), 2 << len(bits))
            masked.append((mask, rule.check, rule, action))
        self.groups = tuple(_grouped(masked))
        self._fields: dict[Path, list[tuple[str, int]]] = {}
        for path, bit in bits.items():
            self._fields.setdefault(path[:-1], []).append((path[-1], bit))
        self._keys = {parent: fields for parent, fields in self._fields.items() if parent in KEYED}
        self._plain = sum((bit for path, bit in bits.items() if path[:-1] not in KEYED), _ALWAYS)

    def present(self, new: Mapping[str, Any]) -> int:
        """The bits of all fields but labels and annotations that the object does not have."""
        found = self._plain
        for parent, keys in self._keys.items():
            if held := reading.mapping(new, *parent):
                for key, bit in keys:
                    if key in held:
                        found |= bit
        return found

    def changed(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> int:
        """The bits of the fields that differ; fields of what is equal are not looked into."""
        found = _ALWAYS
        for parent, fields in self._fields.items():
            before, after = reading.mapping(old, *parent), reading.mapping(new, *parent)
            if parent and before == after:
                continue
            for field, bit in fields:
                if before.get(field) != after.get(field) and differs(old, new, (*parent, field)):
                    found |= bit
        return found


class _Plans:
    """What one configuration makes of the rules, worked out as it is asked for."""

    def __init__(self, configuration: Configuration, rules: Sequence[Rule]) -> None:
        self.configuration = configuration
        self.rules = rules
        self._plans: dict[tuple[Kind, Operation, int], _Plan] = {}

    def plan(self, kind: Kind, operation: Operation, namespace: str) -> _Plan:
        policy = self.configuration.policy_for(namespace)
        key = (kind, operation, id(policy))
        if key not in self._plans:
            self._plans[key] = _Plan(self._steps(kind, operation, policy))
        return self._plans[key]

    def _steps(
        self, kind: Kind, operation: Operation, policy: NamespacePolicy | None
    ) -> Iterable[tuple[Rule, Action]]:
        for rule in self.rules:
            if operation in rule.operations and rule.kinds & {kind, Kind.ANY}:
                action = self.configuration.action_under(policy, rule)
                if action is not Action.OFF:
                    yield rule, action


_MAX_CONFIGURATIONS = 16
"""A process has one, and for a moment the one before it; tests and `check` with several files have more."""

_REMEMBERED: dict[tuple[int, int], _Plans] = {}


def _plans(configuration: Configuration, rules: Sequence[Rule]) -> _Plans:
    # By identity, because hashing the whole configuration would cost more than the rules do. A remembered
    # plan holds both objects, so their addresses cannot be given to others meanwhile.
    key = (id(configuration), id(rules))
    found = _REMEMBERED.get(key)
    if found is None:
        if len(_REMEMBERED) >= _MAX_CONFIGURATIONS:
            _REMEMBERED.clear()
        found = _REMEMBERED[key] = _Plans(configuration, rules)
    return found
