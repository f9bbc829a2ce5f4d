"""The template of an ApplicationSet judged as the Applications that it will become.

List generators' parameters are known; all else that is templated is not. A finding counts where it is there whatever
the unknown values are: it is looked for with several, and what depends on them differs or goes away.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from argocd import names, reading
from argocd.applications import parameters, templates
from argocd.budget import spend
from argocd.engine.plan import plan_for
from argocd.judging.case import Action, Case, Finding, Kind, Operation, Rule
from argocd.judging.configuration import group_of

TEMPLATE = "spec.template"

_GROUPS = frozenset({"application/*", "object/*", "impersonation/*"})
_SAID_OTHERWISE = frozenset(
    {
        "application/name",  # applicationset/name-missing
        "application/destination-twice",  # applicationset/destination
        "application/destination-missing",
        "application/project-unknown",  # applicationset/project-unknown
        "application/namespace-ignored",  # the set itself is not read there
        "application/twin",  # would be its own
        "application/child-without-finalizer",  # the controller adds it
        "object/too-large",  # of the set itself
    }
)
"""Rules that have nothing to add about a template, and why."""

_READ = (
    "template",
    "templatePatch",
    "generators",
    "goTemplate",
    "goTemplateOptions",
    "preservedFields",
    "syncPolicy",
)
"""Fields of the spec that decide: an update of others changes no Application."""

_SAMPLES = ("a", "", "b1")
"""In place of what is unknown: two texts and nothing at all."""

_JUDGED = 100
"""Steps for all rules about a plain Application; what some of them count comes on top."""

_AT_ONCE = 12
"""Characters of a template that are rendered, filled and looked at in a step."""

MOST = 64
"""Applications of one set that are judged: as many as differ in ways that somebody wrote by hand."""

Steps = tuple[str, ...]


class RenderedApplication(NamedTuple):
    """An Application with what is unknown in it, and where its template stands."""

    body: dict[str, Any]
    place: str
    own: Mapping[str, Any]


def template_findings(case: Case, rules: Sequence[Rule]) -> Iterator[tuple[Finding, Rule, Action]]:
    """What Application rules say of the template; on an update only what they did not say before."""
    if case.kind is not Kind.APPLICATION_SET or case.operation is Operation.DELETE:
        return
    spec = reading.mapping(case.object, "spec")
    before = reading.mapping(case.old, "spec") if case.old is not None else {}
    if case.old is not None and all(spec.get(key) == before.get(key) for key in _READ):
        return
    earlier = replace(case, object=case.old, old=None) if before and case.old is not None else None
    told = {_identity(found[0]) for found in _found(earlier, rules)} if earlier else set()
    for found in _found(case, rules):
        identity = _identity(found[0])
        if identity not in told:
            told.add(identity)
            yield found


def _identity(finding: Finding) -> tuple[str, str]:
    """One finding for one cause: another element of a list finds the same place wrong again."""
    return finding.rule, finding.path


def _found(case: Case, rules: Sequence[Rule]) -> Iterator[tuple[Finding, Rule, Action]]:
    spec = reading.mapping(case.object, "spec")
    if spec.get("templatePatch"):  # may change all but the project
        return
    namespace = reading.text(case.object, "metadata", "namespace")
    for rendered in _rendered(case, spec, namespace=namespace):
        hidden = frozenset(templates.unknowns(rendered.body))
        found: dict[tuple[str, str, str], tuple[Finding, Rule, Action]] = {}
        for index, sample in enumerate(_SAMPLES if hidden else _SAMPLES[:1]):
            again = {
                (one[0].rule, one[0].path, one[0].message): one
                for one in _judged(case, templates.filled(rendered.body, sample), rules, namespace=namespace)
            }
            found = {key: one for key, one in found.items() if key in again} if index else again
            if not found:
                break
        for finding, rule, action in found.values():
            steps = tuple(map(str, reading.steps_of(finding.path)))
            if not any(steps[:depth] in hidden for depth in range(1, len(steps) + 1)):
                at = rendered.place if rendered.own and _holds(rendered.own, steps) else TEMPLATE
                place = Finding(finding.rule, f"{at}.{finding.path}", finding.message, finding.hint)
                yield place, rule, action


def _rendered(case: Case, spec: Mapping[str, Any], *, namespace: str) -> Iterator[RenderedApplication]:
    reader = case.once(parameters.reader_of)
    left = MOST
    for generator in case.once(parameters.generated_of):
        template = parameters.template_of(spec, generator.own)
        place = f"{generator.path}.{generator.kind}.template"
        sets: Sequence[Any] = [None] if generator.sets is None else generator.sets
        size = len(repr(template))
        # A template without actions gives the same each time; of a very long one few are tried.
        most = max(1, templates.BUDGET // size) if "{{" in repr(template) else 1
        for known in sets[:most]:
            if not left:
                return
            left -= 1
            spend(3 * size // _AT_ONCE)
            body = templates.rendered(template, known, reader)
            yield RenderedApplication(_application(body, namespace=namespace), place, generator.own)


def _application(template: Any, *, namespace: str) -> dict[str, Any]:
    metadata = dict(reading.mapping(template, "metadata"))
    spec = dict(reading.mapping(template, "spec"))
    if not spec.get("project"):  # means default in an Application, and nothing in a set
        spec["project"] = templates.UNKNOWN
    if namespace:
        metadata["namespace"] = namespace
    return {
        "apiVersion": names.API_VERSION,
        "kind": Kind.APPLICATION.value,
        "metadata": metadata,
        "spec": spec,
    }


def _judged(
    case: Case, application: dict[str, Any], rules: Sequence[Rule], *, namespace: str
) -> Iterator[tuple[Finding, Rule, Action]]:
    spend(_JUDGED)
    judged = Case(
        kind=Kind.APPLICATION, object=application, surroundings=case.surroundings, writer=case.writer
    )
    for _, steps in plan_for(judged, rules, namespace=namespace).for_whole(application).groups:
        for _, rule, action in steps:
            if group_of(rule.id) in _GROUPS and rule.id not in _SAID_OTHERWISE:
                for finding in rule.check(judged):
                    yield finding, rule, action


def _holds(template: Any, steps: Steps) -> bool:
    for step in steps:
        if isinstance(template, list) and step.isdigit() and int(step) < len(template):
            template = template[int(step)]
        elif isinstance(template, Mapping) and step in template:
            template = template[step]
        else:
            return False
    return True
