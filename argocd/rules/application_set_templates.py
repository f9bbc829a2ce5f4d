"""Templates of ApplicationSets that the controller cannot render, or renders into something that nobody meant."""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Any

from argocd import charged_yaml, kubernetes_names, reading
from argocd.applications import application_sets, fields, parameters, templates
from argocd.applications.template_functions import FUNCTIONS
from argocd.go.text_template import Computed, Piece, Variable
from argocd.judging.case import Action, Case, Finding, Kind, Profile, Rule
from argocd.rules import examples
from argocd.shortening import shortened
from argocd.spelling import nearest

_OPTIONS = frozenset(f"missingkey={word}" for word in ("default", "invalid", "zero", "error"))
_MOST = 50
"""Findings of one rule: whoever has more has one cause for them."""
_UNDEFINED = re.compile(r'function "(\w+)" not defined')
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9.-]")

_READ = ("spec.generators", "spec.goTemplate", "spec.template", "spec.templatePatch")
_PATCH = "spec.templatePatch"
_FILLER = "parameter"
"""Stands in a patch for what is templated."""

Texts = list[tuple[str, str]]


def _templated(case: Case) -> Texts:
    """All that the controller renders, in the order of the object."""
    spec = reading.mapping(case.object, "spec")
    found = list(templates.texts(reading.value(spec, "template"), "spec.template"))
    found.append((_PATCH, reading.text(spec, "templatePatch")))
    for path, generator in case.once(application_sets.generators_of):
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


def _switched_off(case: Case) -> Iterator[Finding]:
    reader = case.once(parameters.reader_of)
    if reader.go:
        return
    for path, text in templates.identity_texts(reading.mapping(case.object, "spec")):
        for piece in reader.parsed(text).pieces if "{{" in text else ():
            tag = piece.keys[0].strip() if isinstance(piece, Variable) else ""
            if _is_go(tag):
                yield Finding(
                    "applicationset/go-template-off",
                    path,
                    f"{{{{{shortened(tag, 60)}}}}} is a Go template, and without goTemplate it stays as it is written",
                    "Set spec.goTemplate to true, or write a parameter's name alone.",
                )
                break


def _is_go(tag: str) -> bool:
    """Whether a parameter's name cannot be meant."""
    return tag.startswith((".", "-", "/*", "$", "(")) or " " in tag


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
    go = case.once(parameters.reader_of).go
    filled = "".join(_filled(piece, go=go) for piece in parsed.pieces)
    for reason in _patch_problems(filled, version=case.surroundings.configuration.argocd.version):
        yield Finding(
            "applicationset/template-patch",
            _PATCH,
            f"{reason}, and no application is made",
            "Write the part of an Application that changes, as YAML; put what is templated in quotation marks."
            if go
            else "Write the part of an Application that changes, as YAML; Go templates in it need goTemplate.",
        )


def _filled(piece: Piece, *, go: bool) -> str:
    if isinstance(piece, Variable):
        tag = piece.keys[0]
        return f"{{{{{tag}}}}}" if not go and _is_go(tag.strip()) else _FILLER
    return piece if isinstance(piece, str) else ""


def _patch_problems(text: str, *, version: fields.Version) -> Iterator[str]:
    try:
        patch = charged_yaml.load(text)
    except charged_yaml.YamlError as error:
        yield f"the patch is not YAML: {error}"
        return
    if patch is not None and not isinstance(patch, Mapping):
        yield "the patch is no mapping"
        return
    for found in fields.problems(_literal(patch), kind=Kind.APPLICATION.value, version=version):
        if found.fault is fields.FieldFault.TYPE:
            yield f"{found.path} {found.message}"


def _literal(value: Any) -> Any:
    """Without texts that a parameter is part of: what comes of them may be of any type."""
    if isinstance(value, Mapping):
        return {key: _literal(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_literal(inner) for inner in value]
    return None if isinstance(value, str) and _FILLER in value else value


def _name_invalid(case: Case) -> Iterator[Finding]:
    told: set[str] = set()
    for path, name in case.once(parameters.generated_names):
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
        return (
            f"{shortened(written, 60)!r} is part of every name, and Kubernetes takes no such name"
            if written
            else ""
        )
    if not name:
        return "the application's name would be empty"
    if kubernetes_names.is_dns_subdomain(name):
        return ""
    return f"the application would be called {shortened(name, 253)!r}, and Kubernetes takes no such name"


_refused = partial(
    Rule,
    kinds=frozenset({Kind.APPLICATION_SET}),
    profile=Profile.RECOMMENDED,
    action=Action.DENY,
    refused_by_argocd=True,
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
            "where the text is neither, or a value has another type than its field. Without goTemplate {{.name}} stays "
            "in it, braces and all. Patches with blocks are not judged, only those with plain parameters."
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
)
