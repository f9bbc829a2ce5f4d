"""The parameters of an ApplicationSet: those that lists give, alone or in a matrix or merge, and what becomes of them."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from argocd import reading
from argocd.applications import application_sets
from argocd.applications.templates import UNKNOWN, TemplateReader, Unknown, rendered
from argocd.budget import spend
from argocd.go.text_template import Variable
from argocd.judging.case import Case

MOST = 256
"""Sets of a matrix that are looked at: more are seldom written, and a matrix multiplies."""
_LONGEST_NAME = 1024
"""Four times the longest name: nobody's template of one is longer, and each element pays for its length."""
_AT_ONCE = 24
"""Characters of a name that are put together in a step."""
_WRITING = 4
"""Steps for the keys of a set, besides one for each: they are written out to be compared."""
NAME = "spec.template.metadata.name"

_OPEN = frozenset({"git", "scmProvider", "pullRequest", "plugin"})
"""Generators whose data a project's users write."""
_OF_CLUSTERS = frozenset({"name", "nameNormalized", "server", "project", "metadata"})
"""What the administrator's cluster secrets say."""
_PAIR = 2
_DEEPEST = 2
"""A matrix in a matrix is the most that the CRD's types can hold."""

Sets = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class GeneratedParameters:
    """What one generator of the top gives; `sets` is None where only a cluster, a forge or a repository knows.

    `complete` says that there are no others. `elements` are the places of a plain list's elements.
    """

    path: str
    own: Mapping[str, Any]
    kind: str = ""
    sets: Sets | None = None
    complete: bool = False
    elements: bool = False

    def place(self, index: int) -> str:
        return f"{self.path}.list.elements[{index}]" if self.elements else self.path


def reader_of(case: Case) -> TemplateReader:
    """For `Case.once`: a text that several rules look at is read once."""
    return TemplateReader(go=reading.value(case.object, "spec", "goTemplate") is True)


def generated_of(case: Case) -> list[GeneratedParameters]:
    """For `Case.once`."""
    return list(generated(reading.mapping(case.object, "spec")))


def generated(spec: Mapping[str, Any]) -> Iterator[GeneratedParameters]:
    go = spec.get("goTemplate") is True
    for path, generator in application_sets.generators(spec):
        kinds = application_sets.kinds_of(generator)
        kind = kinds[0] if len(kinds) == 1 else ""
        own = reading.mapping(generator, kind, "template") if kind else {}
        found = _sets(generator, go=go, depth=0)
        sets, complete = found or (None, False)
        yield GeneratedParameters(path, own, kind, sets, complete, elements=kind == "list")


def _sets(generator: Mapping[str, Any], *, go: bool, depth: int) -> tuple[Sets, bool] | None:
    """The sets and whether these are all; None where they are not known. A selector may hide any of them."""
    kinds = application_sets.kinds_of(generator)
    if len(kinds) != 1 or generator.get("selector") is not None or depth > _DEEPEST:
        return None
    if kinds[0] == "list":
        return _list(generator, go=go)
    if kinds[0] in {"matrix", "merge"}:
        inner = [
            _sets(child, go=go, depth=depth + 1)
            for _, child in application_sets.children("", generator, kinds[0])
        ]
        known = [found for found in inner if found is not None]
        if len(known) < max(len(inner), _PAIR):
            return None
        complete = all(whole for _, whole in known)
        sets = [found for found, _ in known]
        if kinds[0] == "matrix":
            whole = complete and len(sets[0]) * len(sets[1]) <= MOST
            return (_product(sets[0], sets[1], go=go), whole) if len(sets) == _PAIR else None
        merged = _merged(sets, keys=reading.texts(generator, "merge", "mergeKeys"), go=go)
        return (merged, complete) if merged is not None else None
    return None


def repeated_merge_keys(case: Case) -> Iterator[tuple[str, str]]:
    """Generators of merges in which two sets have the same keys, with the first such."""
    go = reading.value(case.object, "spec", "goTemplate") is True
    for path, generator in case.once(application_sets.changed_generators):
        keys = reading.texts(generator, "merge", "mergeKeys")
        for at, child in application_sets.children(path, generator, "merge") if keys else ():
            sets, _ = _sets(child, go=go, depth=1) or ([], False)
            spend(len(sets) * (_WRITING + len(keys)))
            seen: set[str] = set()
            for one in sets:
                values = {key: one.get(key) for key in keys}
                if any(isinstance(value, Unknown) for value in values.values()):
                    continue
                told = json.dumps(values, default=repr)
                if told in seen:
                    yield at, told
                    break
                seen.add(told)


def _list(generator: Mapping[str, Any], *, go: bool) -> tuple[Sets, bool]:
    elements = reading.sequence(generator, "list", "elements")
    complete = not reading.text(generator, "list", "elementsYaml")
    return [_parameters(reading.mapping(element), go=go) for element in elements], complete


def _parameters(element: Mapping[str, Any], *, go: bool) -> dict[str, Any]:
    """What is templated itself, in the second half of a matrix, is not known."""
    if go:
        return {str(key): _settled(value) for key, value in element.items()}
    flat: dict[str, Any] = {}
    for key, value in element.items():
        if key == "values":
            flat.update({f"values.{inner}": _settled(text) for inner, text in reading.mapping(value).items()})
        else:
            flat[str(key)] = _settled(value)
    return flat


def _settled(value: Any) -> Any:
    if isinstance(value, str):
        return UNKNOWN if "{{" in value else value
    if isinstance(value, Mapping):
        return {str(key): _settled(inner) for key, inner in value.items()}
    return value


def _product(first: Sets, second: Sets, *, go: bool) -> Sets:
    """Of a key that both have, the first generator's value stays."""
    pairs = ((one, other) for one in first for other in second)
    return [_overridden(other, one, deep=go) for one, other in islice(pairs, MOST)]


def _merged(sets: list[Sets], *, keys: list[str], go: bool) -> Sets | None:
    """The first generator's sets, each with what the others say of the same keys; None where keys repeat."""
    if not keys:
        return None
    base: dict[str, dict[str, Any]] = {}
    for index, found in enumerate(sets):
        spend(len(found) * (_WRITING + len(keys)))
        by_key = {_key(one, keys): one for one in found}
        if len(by_key) != len(found):
            return None
        if not index:
            base = by_key
            continue
        for key, one in by_key.items():
            if key in base:
                base[key] = _overridden(base[key], one, deep=go)
    return list(base.values())


def _key(parameters: Mapping[str, Any], keys: list[str]) -> str:
    return json.dumps([parameters.get(key) for key in keys], default=repr)


def _overridden(base: Mapping[str, Any], by: Mapping[str, Any], *, deep: bool) -> dict[str, Any]:
    """With goTemplate mappings are merged key by key, and what is empty overrides nothing."""
    spend(len(base) + len(by))
    result = dict(base)
    for key, value in by.items():
        before = result.get(key)
        if deep and isinstance(before, Mapping) and isinstance(value, Mapping):
            result[key] = _overridden(before, value, deep=True)
        elif value or not deep or key not in result:
            result[key] = value
    return result


def template_of(spec: Mapping[str, Any], own: Mapping[str, Any]) -> Mapping[str, Any]:
    """The set's template under a generator's own, whose values win."""
    template = reading.mapping(spec, "template")
    return _overridden(template, own, deep=True) if own else template


def generated_names(case: Case) -> list[tuple[str, str | Unknown]]:
    """For `Case.once`: the names of the applications, each with the element that gives it, or the template's place.

    A patch may give others, and a name that the template does not have is not looked for.
    """
    return list(_generated_names(case))


def _generated_names(case: Case) -> Iterator[tuple[str, str | Unknown]]:
    spec = reading.mapping(case.object, "spec")
    if spec.get("templatePatch"):
        return
    reader = case.once(reader_of)
    for generator in case.once(generated_of):
        pattern = reading.text(template_of(spec, generator.own), "metadata", "name")
        if not pattern or len(pattern) > _LONGEST_NAME:
            continue
        if "{{" not in pattern or generator.sets is None:
            yield NAME, rendered(pattern, None, reader)
            continue
        for index, known in enumerate(generator.sets):
            spend(1 + len(pattern) // _AT_ONCE)
            yield generator.place(index), rendered(pattern, known, reader)


def is_written_by_users(case: Case, text: str) -> bool:
    """Whether what the text's variables become may stand in a repository, a branch, a pull request or a plugin."""
    safe: set[str] = set()
    open_data = False
    for _, generator in case.once(application_sets.generators_of):
        kinds = application_sets.kinds_of(generator)
        open_data = open_data or not _OPEN.isdisjoint(kinds)
        if "clusters" in kinds:
            safe |= _OF_CLUSTERS
        for element in reading.sequence(generator, "list", "elements"):
            safe.update(key for key in reading.mapping(element) if isinstance(key, str))
    return open_data and not all(
        isinstance(piece, str) or (isinstance(piece, Variable) and _root(piece) in safe)
        for piece in case.once(reader_of).parsed(text).pieces
    )


def _root(variable: Variable) -> str:
    return variable.keys[0].strip().partition(".")[0]
