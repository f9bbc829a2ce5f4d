"""Parameters in the templates of ApplicationSets that the generators do not give, or not in the form that was meant."""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

from argocd import reading
from argocd.applications import application_sets, parameters, templates
from argocd.budget import spend
from argocd.go.text_template import Variable
from argocd.judging.case import Action, Case, Finding, Kind, Profile, Rule
from argocd.rules import examples
from argocd.shortening import shortened
from argocd.spelling import nearest

_MOST = 50
"""Findings of one rule: whoever has more has one cause for them."""
_COMPARED = 100
"""Parameters among which the one that was meant is looked for."""
_SHOWN = 60
_PATH_OF_GIT = frozenset({"git", "list", "clusters", "matrix", "merge"})
"""Generators among which only git gives a path, unless a list's elements have one."""
_PARAMETER = re.compile(r"\w[\w.-]*")

_READ = ("spec.generators", "spec.goTemplate", "spec.template", "spec.templatePatch")


def _parameter_unknown(case: Case) -> Iterator[Finding]:
    return islice(_unknown_parameters(case), _MOST)


def _unknown_parameters(case: Case) -> Iterator[Finding]:
    spec = reading.mapping(case.object, "spec")
    found = case.once(parameters.generated_of)
    if not found or not all(one.complete and one.sets and not one.own for one in found):
        return
    reader = case.once(parameters.reader_of)
    sets = [known for one in found for known in one.sets or ()]
    known = {key for one in sets for key in one}
    shown = [shortened(key, _SHOWN) for key in sorted(known)[:_COMPARED]]
    template = reading.mapping(spec, "template")
    texts = templates.texts(template, "spec.template") if reader.go else templates.identity_texts(spec)
    for path, text in sorted(texts):
        for piece in reader.parsed(text).pieces if "{{" in text else ():
            if not isinstance(piece, Variable):
                continue
            key = piece.keys[0].strip()
            if key in known:
                if held := _held_in_text(piece.keys, sets):
                    yield Finding(
                        "applicationset/parameter-unknown",
                        path,
                        f"can't evaluate field {held[1]}: {held[0]} is a text or a number in an element",
                        f"Write {{{{.{held[0]}}}}}, or make it a mapping in each element.",
                    )
                continue
            if not _PARAMETER.fullmatch(key):
                continue
            meant = nearest(key, shown)
            yield Finding(
                "applicationset/parameter-unknown",
                path,
                f"no element of the list has {key}",
                f"Did you mean {meant}?" if meant else f"The elements have {', '.join(sorted(known)[:10])}.",
            )


def _held_in_text(keys: tuple[str, ...], sets: parameters.Sets) -> tuple[str, str] | None:
    """The parameter that is a text or a number in some set, and the field that the template looks for in it."""
    if len(keys) == 1:
        return None
    spend(len(sets) * len(keys))
    for one in sets:
        value: Any = one
        for index, key in enumerate(keys):
            if isinstance(value, str | int | float):
                return ".".join(keys[:index]), key
            value = value.get(key) if isinstance(value, Mapping) else None
    return None


def _path_mapping(case: Case) -> Iterator[Finding]:
    spec = reading.mapping(case.object, "spec")
    if spec.get("goTemplate") is not True or spec.get("templatePatch") or not _gives_path(case):
        return
    reader = case.once(parameters.reader_of)
    for path, text in templates.identity_texts(spec):
        if "{{" in text and Variable(("path",)) in reader.parsed(text).pieces:
            yield Finding(
                "applicationset/path-mapping",
                path,
                "with goTemplate {{.path}} is a mapping, and becomes map[basename:…]",
                "Write {{.path.path}} for the folder, or {{.path.basename}} for its name.",
            )


def _gives_path(case: Case) -> bool:
    """Whether `path` comes from git generators alone, for the set's own template."""
    found = False
    for _, generator in case.once(application_sets.generators_of):
        kinds = application_sets.kinds_of(generator)
        if not _PATH_OF_GIT.issuperset(kinds) or any(
            reading.mapping(generator, kind, "template") for kind in kinds
        ):
            return False
        if reading.text(generator, "list", "elementsYaml") or reading.text(
            generator, "git", "pathParamPrefix"
        ):
            return False
        if any("path" in reading.mapping(each) for each in reading.sequence(generator, "list", "elements")):
            return False
        found = found or "git" in kinds
    return found


_refused = partial(
    Rule,
    kinds=frozenset({Kind.APPLICATION_SET}),
    profile=Profile.RECOMMENDED,
    action=Action.DENY,
    refused_by_argocd=True,
)

_FOLDERS = examples.application_set(
    generators="- git: {repoURL: https://git.example.com/shop.git, revision: main, directories: [{path: apps/*}]}",
    name="'shop-{{.path.basename}}'",
)

RULES: tuple[Rule, ...] = (
    _refused(
        id="applicationset/parameter-unknown",
        reads=_READ,
        title="Parameters are those of the list",
        explanation=(
            "Where all generators are lists, or matrices and merges of lists, the parameters are known. One that no "
            "element has fails the rendering, becomes <no value>, or without goTemplate stays as it is written. So does "
            "a field of a parameter that is a text."
        ),
        bad=examples.application_set().replace("path: deploy", "path: 'deploy/{{.envv}}'"),
        good=examples.application_set().replace("path: deploy", "path: 'deploy/{{.env}}'"),
        check=_parameter_unknown,
    ),
    _refused(
        id="applicationset/path-mapping",
        reads=_READ,
        title="The path of a git generator is a mapping",
        explanation=(
            "Without goTemplate {{path}} is the folder that a git generator found. With it .path is a mapping with path, "
            "basename and segments, which no name, path or address can hold."
        ),
        bad=_FOLDERS.replace("path: deploy", "path: '{{.path}}'"),
        good=_FOLDERS.replace("path: deploy", "path: '{{.path.path}}'"),
        check=_path_mapping,
    ),
)
