"""Templates of ApplicationSets that the controller cannot render, or renders into something that nobody meant."""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Any

from argocd import kubernetes_names, reading, safe_yaml
from argocd.applications import application_sets, parameters, templates
from argocd.applications.template_functions import FUNCTIONS
from argocd.go.text_template import Computed, Variable
from argocd.judging.case import Action, Case, Finding, Kind, Profile, Rule
from argocd.rules import examples
from argocd.spelling import nearest

_OPTIONS = frozenset(f"missingkey={word}" for word in ("default", "invalid", "zero", "error"))
_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})
_WITH_VALUES = frozenset({"In", "NotIn"})
_MOST = 50
"""Findings of one rule: whoever has more has one cause for them."""
_COMPARED = 100
"""Parameters among which the one that was meant is looked for."""
_SHOWN = 60
_UNDEFINED = re.compile(r'function "(\w+)" not defined')
_PARAMETER = re.compile(r"\w[\w.-]*")
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9.-]")

_READ = ("spec.generators", "spec.goTemplate", "spec.template", "spec.templatePatch")
_PATCH = "spec.templatePatch"

_IDENTITY = (
    ("metadata", "name"),
    ("spec", "project"),
    ("spec", "destination", "name"),
    ("spec", "destination", "namespace"),
    ("spec", "destination", "server"),
    ("spec", "source", "chart"),
    ("spec", "source", "path"),
    ("spec", "source", "repoURL"),
    ("spec", "source", "targetRevision"),
)
"""Fields in which braces have no other meaning; values for Helm or Kustomize may be templates of their own."""

Texts = list[tuple[str, str]]


def _templated(case: Case) -> Texts:
    """All that the controller renders, in the order of the object."""
    spec = reading.mapping(case.object, "spec")
    found = list(templates.texts(reading.value(spec, "template"), "spec.template"))
    found.append((_PATCH, reading.text(spec, "templatePatch")))
    for path, generator in application_sets.all_generators(spec):
        for kind in application_sets.kinds_of(generator):
            for part in ("template", "values"):
                inner = reading.value(generator, kind, part)
                found.extend(templates.texts(inner, f"{path}.{kind}.{part}"))
            if kind == "matrix":
                second = reading.sequence(generator, kind, "generators")[1:2]
                for inner in second:
                    found.extend(templates.texts(inner, f"{path}.{kind}.generators[1]"))
    return sorted({one: None for one in found if "{{" in one[1]})


def _syntax(case: Case) -> Iterator[Finding]:
    reader = case.once(parameters.reader_of)
    problems = ((path, reader.parsed(text).problem) for path, text in case.once(_templated))
    for path, problem in islice(filter(itemgetter(1), problems), _MOST):
        yield Finding("applicationset/template-syntax", path, problem, _syntax_hint(problem, go=reader.go))


def _syntax_hint(problem: str, *, go: bool) -> str:
    if not go:
        return "Close every {{ with }}."
    undefined = _UNDEFINED.fullmatch(problem)
    if not undefined:
        return "Every text of the template is a Go template; braces that are meant for others go in {{`…`}}."
    meant = nearest(undefined[1], FUNCTIONS, close=0.8)
    if meant:
        return f"Did you mean {meant}? A parameter begins with a dot: {{{{.{undefined[1]}}}}}."
    return f"With goTemplate a parameter begins with a dot: {{{{.{undefined[1]}}}}}."


def _identity_texts(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    template = reading.mapping(spec, "template")
    for path in _IDENTITY:
        yield f"spec.template.{'.'.join(path)}", reading.text(template, *path)
    for index, source in enumerate(reading.sequence(template, "spec", "sources")):
        for key in ("chart", "path", "repoURL", "targetRevision"):
            yield f"spec.template.spec.sources[{index}].{key}", reading.text(source, key)


def _switched_off(case: Case) -> Iterator[Finding]:
    reader = case.once(parameters.reader_of)
    if reader.go:
        return
    for path, text in _identity_texts(reading.mapping(case.object, "spec")):
        for piece in reader.parsed(text).pieces if "{{" in text else ():
            tag = piece.keys[0].strip() if isinstance(piece, Variable) else ""
            if tag.startswith((".", "-", "/*", "$", "(")) or " " in tag:
                yield Finding(
                    "applicationset/go-template-off",
                    path,
                    f"{{{{{tag[:60]}}}}} is a Go template, and without goTemplate it stays as it is written",
                    "Set spec.goTemplate to true, or write a parameter's name alone.",
                )
                break


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
    shown = [key[:_SHOWN] for key in sorted(known)[:_COMPARED]]
    template = reading.mapping(spec, "template")
    texts = templates.texts(template, "spec.template") if reader.go else _identity_texts(spec)
    for path, text in sorted(texts):
        for piece in reader.parsed(text).pieces if "{{" in text else ():
            if not isinstance(piece, Variable):
                continue
            key = piece.keys[0].strip()
            if key in known or not _PARAMETER.fullmatch(key):
                continue
            meant = nearest(key, shown)
            yield Finding(
                "applicationset/parameter-unknown",
                path,
                f"no element of the list has {key}",
                f"Did you mean {meant[0]}?"
                if meant
                else f"The elements have {', '.join(sorted(known)[:10])}.",
            )


def _options(case: Case) -> Iterator[Finding]:
    spec = reading.mapping(case.object, "spec")
    if spec.get("goTemplate") is not True:
        return
    for index, option in enumerate(reading.sequence(spec, "goTemplateOptions")):
        if not isinstance(option, str) or option not in _OPTIONS:
            shown = f"unrecognized option: {option}" if option else "empty option string"
            yield Finding(
                "applicationset/template-option",
                f"spec.goTemplateOptions[{index}]",
                f"{shown}: the controller panics and makes no application",
                "Use missingkey=error, or missingkey=zero or default.",
            )


def _patch(case: Case) -> Iterator[Finding]:
    text = reading.text(case.object, "spec", "templatePatch")
    if not text or len(text) > templates.BUDGET:
        return
    parsed = case.once(parameters.reader_of).parsed(text)
    if parsed.problem or any(isinstance(piece, Computed) for piece in parsed.pieces):
        return  # the first is another rule's, and what blocks become is known to nobody
    filled = "".join(piece if isinstance(piece, str) else "a" for piece in parsed.pieces)
    try:
        patch = safe_yaml.load(filled)
    except safe_yaml.YamlError as error:
        reason = f"the patch is not YAML: {error}"
    else:
        if patch is None or isinstance(patch, Mapping):
            return
        reason = "the patch is no mapping"
    yield Finding(
        "applicationset/template-patch",
        _PATCH,
        f"{reason}, and no application is made",
        "Write the part of an Application that changes, as YAML; put what is templated in quotation marks.",
    )


def _name_invalid(case: Case) -> Iterator[Finding]:
    told: set[str] = set()
    for path, name in parameters.generated_names(case):
        reason = _name_problem(name)
        if reason and path not in told:
            told.add(path)
            if len(told) > _MOST:
                return
            yield Finding(
                "applicationset/name-invalid",
                path,
                reason,
                "A name has lower-case letters, digits, - and . and begins and ends with a letter or digit.",
            )


def _name_problem(name: Any) -> str:
    if isinstance(name, templates.Unknown):
        written = next((part for part in name.parts if part and _NOT_IN_A_NAME.search(part)), "")
        return f"{written[:60]!r} is part of every name, and Kubernetes takes no such name" if written else ""
    if not name:
        return "the application's name would be empty"
    if kubernetes_names.is_dns_subdomain(name):
        return ""
    return f"the application would be called {name[:253]!r}, and Kubernetes takes no such name"


def _selectors(case: Case) -> Iterator[tuple[str, Any]]:
    for path, generator in application_sets.all_generators(reading.mapping(case.object, "spec")):
        yield f"{path}.selector", generator.get("selector")
        yield f"{path}.clusters.selector", reading.value(generator, "clusters", "selector")
        yield (
            f"{path}.clusterDecisionResource.labelSelector",
            reading.value(generator, "clusterDecisionResource", "labelSelector"),
        )


def _selector(case: Case) -> Iterator[Finding]:
    for path, selector in _selectors(case):
        for index, expression in enumerate(reading.sequence(selector, "matchExpressions")):
            operator = reading.text(expression, "operator")
            at = f"{path}.matchExpressions[{index}]"
            filled = bool(reading.sequence(expression, "values"))
            if operator not in _OPERATORS:
                if application_sets.is_templated(operator):
                    continue
                message = f'"{operator}" is not a valid label selector operator'
                where = f"{at}.operator"
            elif filled is not (operator in _WITH_VALUES):
                needed = "non-empty" if operator in _WITH_VALUES else "empty"
                message = f"for {operator} the values set must be {needed}"
                where = f"{at}.values"
            else:
                continue
            yield Finding(
                "applicationset/selector",
                where,
                f"{message}: the generator fails",
                "Use In or NotIn with values, Exists or DoesNotExist without.",
            )


_refused = partial(
    Rule,
    kinds=frozenset({Kind.APPLICATION_SET}),
    profile=Profile.RECOMMENDED,
    action=Action.DENY,
    good=examples.application_set(),
)


def _plain(**parts: str) -> str:
    return examples.application_set(options="", **parts)


RULES: tuple[Rule, ...] = (
    _refused(
        id="applicationset/template-syntax",
        reads=_READ,
        title="Every template can be parsed",
        explanation=(
            "With goTemplate every text and key of the template is a Go template, of which one that does not parse "
            "(an action that is not closed, a function or variable that does not exist) fails all applications. "
            "Without goTemplate only {{ and }} count."
        ),
        bad=examples.application_set(name="'shop-{{env}}'"),
        check=_syntax,
    ),
    _refused(
        id="applicationset/go-template-off",
        reads=_READ,
        title="Go templates need goTemplate",
        explanation=(
            "Without goTemplate a parameter is written {{name}}; {{.name}} and functions stay in names, addresses and "
            "paths as they are, braces and all."
        ),
        bad=_plain(name="'shop-{{env}}'", template="info: [{name: env, value: test}]").replace(
            "path: deploy", "path: 'deploy/{{.env}}'"
        ),
        good=_plain(name="'shop-{{env}}'").replace("path: deploy", "path: 'deploy/{{env}}'"),
        check=_switched_off,
    ),
    _refused(
        id="applicationset/parameter-unknown",
        reads=_READ,
        title="Parameters are those of the list",
        explanation=(
            "Where all generators are lists, or matrices and merges of lists, the parameters are known. One that no "
            "element has fails the rendering, becomes <no value>, or without goTemplate stays as it is written."
        ),
        bad=examples.application_set().replace("path: deploy", "path: 'deploy/{{.envv}}'"),
        good=examples.application_set().replace("path: deploy", "path: 'deploy/{{.env}}'"),
        check=_parameter_unknown,
    ),
    _refused(
        id="applicationset/template-option",
        reads=("spec.goTemplate", "spec.goTemplateOptions"),
        title="Options of Go templates are those that exist",
        explanation="Go knows one option, missingkey; with any other text the ApplicationSet controller panics.",
        bad=examples.application_set(
            options="goTemplate: true\ngoTemplateOptions: [missingkey=error, missingkey=fail]"
        ),
        check=_options,
    ),
    _refused(
        id="applicationset/template-patch",
        reads=("spec.goTemplate", _PATCH),
        title="A templatePatch is part of an Application",
        explanation=(
            "The controller renders the patch, reads it as YAML or JSON and merges it into each application; it fails "
            "where the text is neither. Patches with blocks are not judged, only those with plain parameters."
        ),
        bad=examples.application_set(spec="templatePatch: 'spec: {revisionHistoryLimit: {{.limit}}'"),
        good=examples.application_set(spec="templatePatch: '{spec: {revisionHistoryLimit: 3}}'"),
        check=_patch,
    ),
    _refused(
        id="applicationset/name-invalid",
        reads=_READ,
        title="Generated names are names",
        explanation="The API server takes no application whose name is empty or no DNS subdomain.",
        bad=examples.application_set(generators="- list: {elements: [{env: test}, {env: Live_EU}]}"),
        check=_name_invalid,
    ),
    _refused(
        id="applicationset/selector",
        reads=("spec.generators",),
        title="A selector's operators are those of Kubernetes",
        explanation="In and NotIn need values, Exists and DoesNotExist have none; the controller refuses all else.",
        bad=examples.application_set(
            generators="- clusters: {selector: {matchExpressions: [{key: env, operator: Equals, values: [test]}]}}",
            name="'shop-{{.name}}'",
        ),
        good=examples.application_set(
            generators="- clusters: {selector: {matchExpressions: [{key: env, operator: In, values: [test]}]}}",
            name="'shop-{{.name}}'",
        ),
        check=_selector,
    ),
)
