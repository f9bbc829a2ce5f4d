"""An ApplicationSet as its controller reads it: generators, the names they give, the rollout's steps."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from argocd import names, reading
from argocd.applications.sources import SourceProblem
from argocd.budget import spend
from argocd.judging.case import Case
from argocd.judging.entries import Entry

GENERATORS = (
    "list",
    "clusters",
    "git",
    "scmProvider",
    "clusterDecisionResource",
    "pullRequest",
    "matrix",
    "merge",
    "plugin",
)
_COMBINING = frozenset({"matrix", "merge"})

_PAIR = 2
_DEEPEST = 2
"""A matrix in a matrix is the most that the CRD's types can hold."""

TEMPLATE_MARK = "{{"

_LOOKING = 5
"""Steps to see which generators an entry holds."""

Located = tuple[str, Mapping[str, Any]]


def is_templated(text: str) -> bool:
    return TEMPLATE_MARK in text


def generators(spec: Mapping[str, Any]) -> Iterator[Located]:
    return _located(reading.sequence(spec, "generators"), "spec.generators")


def children(path: str, generator: Mapping[str, Any], combination: str) -> Iterator[Located]:
    """The generators inside a matrix or merge."""
    inner = reading.sequence(generator, combination, "generators")
    return _located(inner, f"{path}.{combination}.generators")


def _located(found: Sequence[Any], path: str) -> Iterator[Located]:
    return _at(list(enumerate(found)), path)


def _at(entries: Sequence[Entry], path: str) -> Iterator[Located]:
    spend(_LOOKING * len(entries))
    for index, item in entries:
        yield f"{path}[{index}]", item if isinstance(item, Mapping) else {}


def all_generators(spec: Mapping[str, Any]) -> Iterator[Located]:
    """Those at the top and those inside a matrix or merge, two levels down as Argo CD allows."""
    return _with_those_inside(generators(spec))


def generators_of(case: Case) -> list[Located]:
    """For `Case.once`: all of them."""
    return list(all_generators(reading.mapping(case.object, "spec")))


def changed_at_top(case: Case) -> list[Located]:
    """For `Case.once`: what an update brings; all where goTemplate changes, which says what elements may be."""
    if reading.value(case.old, "spec", "goTemplate") != reading.value(case.object, "spec", "goTemplate"):
        return list(generators(reading.mapping(case.object, "spec")))
    return list(_at(case.changed_entries("spec", "generators"), "spec.generators"))


def changed_generators(case: Case) -> list[Located]:
    """For `Case.once`: each of these with those inside."""
    return list(_with_those_inside(case.once(changed_at_top)))


def _with_those_inside(top: Iterable[Located]) -> Iterator[Located]:
    levels = list(top)
    for _ in range(3):
        below: list[Located] = []
        for path, generator in levels:
            yield path, generator
            for combination in kinds_of(generator):
                if combination in _COMBINING:
                    below.extend(children(path, generator, combination))
        levels = below


def kinds_of(generator: Mapping[str, Any]) -> list[str]:
    """Which generators an entry holds; an empty block counts, null does not."""
    return [kind for kind in GENERATORS if generator.get(kind) is not None]


def unrecognized(spec: Mapping[str, Any]) -> list[int]:
    """Entries without any generator that Argo CD knows; a selector alone passes, as it does there."""
    return [
        index
        for index, (_, generator) in enumerate(generators(spec))
        if not kinds_of(generator) and generator.get("selector") is None
    ]


def unrecognized_names(application_set: Mapping[str, Any]) -> list[str]:
    """What those entries were called before the CRD's schema dropped the unknown key."""
    indexes = unrecognized(reading.mapping(application_set, "spec"))
    applied = reading.text(application_set, "metadata", "annotations", names.LAST_APPLIED)
    if not (indexes and applied):
        return []
    try:
        written = reading.sequence(json.loads(applied), "spec", "generators")
    except (ValueError, RecursionError):
        return []
    found = {
        next(iter(written[index]))
        for index in indexes
        if index < len(written) and isinstance(written[index], Mapping) and written[index]
    }
    return sorted(found)


def combination_problems(top: Iterable[Located]) -> Iterator[SourceProblem]:
    """Matrices and merges that the controller refuses, with its words."""
    for path, generator in top:
        yield from _combination_problems(path, generator, depth=1)


def _combination_problems(path: str, generator: Mapping[str, Any], *, depth: int) -> Iterator[SourceProblem]:
    for combination in kinds_of(generator):
        if combination not in _COMBINING:
            continue
        if depth > _DEEPEST:
            yield SourceProblem(f"{path}.{combination}", "a matrix or merge can be nested once only")
            continue
        inner = list(children(path, generator, combination))
        at = f"{path}.{combination}"
        yield from (
            _matrix_size(at, len(inner))
            if combination == "matrix"
            else _merge_size(at, len(inner), keys=reading.sequence(generator, "merge", "mergeKeys"))
        )
        for child_path, child in inner:
            found = kinds_of(child)
            if len(found) > 1:
                yield SourceProblem(child_path, f"found more than one generator in {combination}.Generators")
            elif not found:
                yield SourceProblem(child_path, f"an entry of a {combination} needs one generator")
            yield from _combination_problems(child_path, child, depth=depth + 1)


def _matrix_size(at: str, size: int) -> Iterator[SourceProblem]:
    if size != _PAIR:
        amount = "less" if size < _PAIR else "more"
        yield SourceProblem(
            f"{at}.generators", f"found {amount} than two generators, Matrix support only two"
        )


def _merge_size(at: str, size: int, *, keys: Sequence[Any]) -> Iterator[SourceProblem]:
    if size < _PAIR:
        yield SourceProblem(f"{at}.generators", "found less than two generators, Merge requires two or more")
    if not keys:
        yield SourceProblem(f"{at}.mergeKeys", "no merge keys were specified, Merge requires at least one")


def name_template(spec: Mapping[str, Any]) -> str:
    return reading.text(spec, "template", "metadata", "name")


def may_give_several(spec: Mapping[str, Any]) -> bool:
    """Whether the generators can give more than one application."""
    found = list(generators(spec))
    if len(found) != 1:
        return bool(found)
    generator = found[0][1]
    if kinds_of(generator) == ["list"]:
        several = len(reading.sequence(generator, "list", "elements")) > 1
        return several or bool(reading.text(generator, "list", "elementsYaml"))
    return bool(kinds_of(generator))


def gives_several(spec: Mapping[str, Any]) -> bool:
    """Whether it is written down: how many a cluster or a repository gives is known there alone."""
    return sum(len(reading.sequence(generator, "list", "elements")) for _, generator in generators(spec)) > 1


def rolling_steps(spec: Mapping[str, Any]) -> Iterator[Located]:
    steps = reading.sequence(spec, "strategy", "rollingSync", "steps")
    return _located(steps, "spec.strategy.rollingSync.steps")


def expressions(path: str, step: Mapping[str, Any]) -> Iterator[Located]:
    return _located(reading.sequence(step, "matchExpressions"), f"{path}.matchExpressions")
