"""Which rules have something to say about a case: worked out once for each configuration, then looked up.

What depends on the configuration alone (which rules speak about a kind in a namespace, and how loudly) is one
plan; which of its rules an object asks for by the fields that it has or changes is one agenda of that plan.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from argocd import reading
from argocd.judging.case import Action, Case, Check, Finding, Kind, Operation, Path, Rule, SharedLook, path_of
from argocd.judging.configuration import Configuration, NamespacePolicy
from argocd.judging.memo import Remembered
from argocd.judging.ratchet import KEYED, differs

Notice = Callable[[Case], Any]
Step = tuple[Check, Rule, Action]
Ask = Callable[..., Iterable[Finding]]
Group = tuple[Notice | None, tuple[tuple[Ask, Rule, Action], ...]]
"""Neighbours that share one look at the case: most objects need none of them asked.

A rule is asked with the case, and with what was noticed where there is such a look.
"""

_ALWAYS = 1
"""The bit of rules that name no fields: they are always asked."""
_MAX_AGENDAS = 512
"""Of one plan; a cluster's objects have few different sets of marks, and updates change few sets of fields."""


class Agenda:
    """The rules to ask, in their order, with and without those whose look at a project is remembered."""

    __slots__ = ("fresh", "groups", "looks")

    def __init__(self, steps: Sequence[Step]) -> None:
        self.groups = tuple(_grouped(steps))
        self.fresh = tuple(_grouped(step for step in steps if not isinstance(_notice_of(step), Remembered)))
        self.looks = frozenset(notice for notice, _ in self.groups if isinstance(notice, Remembered))


def _grouped(steps: Iterable[Step]) -> Iterator[Group]:
    for notice, group in groupby(steps, _notice_of):
        yield notice, tuple((_ask_of(check), rule, action) for check, rule, action in group)


def _ask_of(check: Check) -> Ask:
    return check.tell if isinstance(check, SharedLook) else check


def _notice_of(step: Step) -> Notice | None:
    check = step[0]
    return check.notice if isinstance(check, SharedLook) else None


class _Fields:
    """The fields that decide which rules are asked, as bits, and the rules with the bits that they wait for."""

    def __init__(self, steps: Iterable[tuple[Step, tuple[str, ...]]]) -> None:
        bits: dict[Path, int] = {}
        self._steps: list[tuple[int, Step]] = []
        for step, fields in steps:
            mask = 0 if fields else _ALWAYS
            for field in fields:
                mask |= bits.setdefault(path_of(field), 2 << len(bits))
            self._steps.append((mask, step))
        parents: dict[Path, list[tuple[str, int]]] = {}
        for path, bit in bits.items():
            parents.setdefault(path[:-1], []).append((path[-1], bit))
        self.parents = [(parent, tuple(fields)) for parent, fields in parents.items()]
        self._agendas: dict[int, Agenda] = {}

    def agenda(self, asked: int) -> Agenda:
        found = self._agendas.get(asked)
        if found is None:
            if len(self._agendas) >= _MAX_AGENDAS:
                self._agendas.clear()
            found = Agenda([step for mask, step in self._steps if mask & asked])
            self._agendas[asked] = found
        return found


class Plan:
    """The rules for one kind, operation and namespace policy, in a file or in a cluster."""

    def __init__(self, rules: Iterable[tuple[Rule, Action]]) -> None:
        steps = [(rule.check, rule, action) for rule, action in rules]
        self._whole = _Fields((step, _needed(step[1])) for step in steps)
        self._changes = _Fields((step, step[1].reads) for step in steps)

    def for_whole(self, new: Mapping[str, Any]) -> Agenda:
        """For an object without an older version: all rules but those that speak of marks that it has not."""
        asked = _ALWAYS
        for parent, fields in self._whole.parents:
            if held := reading.mapping(new, *parent):
                for field, bit in fields:
                    if field in held:
                        asked |= bit
        return self._whole.agenda(asked)

    def for_change(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> Agenda:
        """The rules whose fields differ; fields of what is equal are not looked into."""
        asked = _ALWAYS
        for parent, fields in self._changes.parents:
            before, after = reading.mapping(old, *parent), reading.mapping(new, *parent)
            if parent and before == after:
                continue
            for field, bit in fields:
                if before.get(field) != after.get(field) and differs(old, new, (*parent, field)):
                    asked |= bit
        return self._changes.agenda(asked)


def _needed(rule: Rule) -> tuple[str, ...]:
    """The fields of which an object must have one; labels and annotations are needed where nothing else is read."""
    if rule.needs:
        return rule.needs
    return rule.reads if all(path_of(read)[:-1] in KEYED for read in rule.reads) else ()


class _Plans:
    """What one configuration makes of the rules, worked out as it is asked for."""

    def __init__(self, configuration: Configuration, rules: Sequence[Rule]) -> None:
        self.configuration = configuration
        self.rules = rules
        self._plans: dict[tuple[Kind, Operation, bool, int], Plan] = {}

    def plan(self, case: Case, namespace: str) -> Plan:
        policy = self.configuration.policy_for(namespace)
        key = (case.kind, case.operation, case.written, id(policy))
        found = self._plans.get(key)
        if found is None:
            found = self._plans[key] = Plan(self._steps(case, policy))
        return found

    def _steps(self, case: Case, policy: NamespacePolicy | None) -> Iterable[tuple[Rule, Action]]:
        for rule in self.rules:
            if (
                case.operation in rule.operations
                and rule.kinds & {case.kind, Kind.ANY}
                and (case.written or not rule.files_only)
                and (not rule.roles or self.configuration.role in rule.roles)
            ):
                action = self.configuration.action_under(policy, rule)
                if action is not Action.OFF:
                    yield rule, action


_MAX_CONFIGURATIONS = 16
"""A process has one, and for a moment the one before it; tests and `check` with several files have more."""

_REMEMBERED: dict[tuple[int, int], _Plans] = {}


def plan_for(case: Case, rules: Sequence[Rule], *, namespace: str) -> Plan:
    # By identity, because hashing the whole configuration would cost more than the rules do. A remembered
    # plan holds both objects, so their addresses cannot be given to others meanwhile.
    configuration = case.surroundings.configuration
    key = (id(configuration), id(rules))
    found = _REMEMBERED.get(key)
    if found is None:
        if len(_REMEMBERED) >= _MAX_CONFIGURATIONS:
            _REMEMBERED.clear()
        found = _REMEMBERED[key] = _Plans(configuration, rules)
    return found.plan(case, namespace)
