"""Does a project get to the other side, why (not), and what arrives there."""

from collections.abc import Iterable, Iterator
from typing import Any

from argocd import globs, names, reading
from argocd.agents import ignore_sync
from argocd.agents.autonomous_projects import owner_of
from argocd.agents.project_copies import (
    NameTooLongError,
    prefixed_name,
    project_at_principal,
    project_for_agent,
)
from argocd.agents.routing import AgentMapping, Route, RoutingStep, destination_pattern, explain_project
from argocd.agents.vocabulary import Mode
from argocd.explanations.explanation import (
    Explanation,
    ExplanationSection,
    ExplanationStep,
    Known,
    Mark,
    UnexplainedError,
    plain,
)
from argocd.explanations.link import LinkExplanation
from argocd.globs import Verdict
from argocd.globs.surprises import surprises
from argocd.judging.case import Object

AGENT, PRINCIPAL = "agent", "principal"
_ONLY_AUTONOMOUS = "only an autonomous agent tells the principal of its projects"


def mode_of(agent: str, known: Known, given: str | None, link: LinkExplanation | None = None) -> Mode:
    """As told, as the principal has it, or as the configuration says."""
    if given:
        return Mode(given)
    if link and link.mode:
        return link.mode
    autonomous = known.configuration.agents.is_autonomous(agent)
    return Mode.AUTONOMOUS if autonomous else Mode.MANAGED


def explain(
    known: Known,
    name: str,
    *,
    agent: str,
    mode: Mode,
    to: str | None,
    link: LinkExplanation | None = None,
    mappings: Iterable[AgentMapping] = AgentMapping,
) -> Explanation:
    """To the agent, or, from an autonomous agent, to the principal. `link` is what a cluster tells of the agent,
    `mappings` how its principal may map agents.
    """
    to = to or (PRINCIPAL if mode is Mode.AUTONOMOUS else AGENT)
    project = known.project(name)
    if to == PRINCIPAL:
        at_principal = link is not None and bool(link.secret)
        if (project is None or at_principal) and known.project(f"{agent}-{name}") is not None:
            return _is_there(name, agent, link)
        if link is not None and at_principal:
            return _is_not_there(name, agent, mode, link)
    if project is None:
        hint = f"; the principal calls an agent's project {agent}-{name}" if to == PRINCIPAL else ""
        raise UnexplainedError(f"there is no project {name} {known.where}{hint}")
    return (
        _to_principal(known, project, agent, mode)
        if to == PRINCIPAL
        else _to_agent(known, project, agent, mode, link, mappings=tuple(mappings))
    )


def _is_there(name: str, agent: str, link: LinkExplanation | None) -> Explanation:
    called = f"{agent}-{name}"
    answer = f"The project {name} of agent {agent} is on the principal: there it is called {called}."
    data: dict[str, Any] = {"project": name, "agent": agent, "to": PRINCIPAL, "goes": True, "name": called}
    return Explanation(answer, good=True, data=data, sections=_linked(link, data))


def _is_not_there(name: str, agent: str, mode: Mode, link: LinkExplanation) -> Explanation:
    """Asked of the principal's cluster, which sees everything but the agent's own."""
    cause = "" if mode is Mode.AUTONOMOUS else f"the agent is {mode.value}, and {_ONLY_AUTONOMOUS}"
    cause = cause or link.cause or "the agent has not told of it"
    answer = f"The project {name} of agent {agent} is not on the principal as {agent}-{name}: {cause}."
    data: dict[str, Any] = {
        "project": name,
        "agent": agent,
        "mode": mode.value,
        "to": PRINCIPAL,
        "goes": False,
    }
    sections = _linked(link, data)
    next_question = f"tiphys explain project {name} --agent {agent} --mode autonomous --context CONTEXT"
    sections.append(
        ExplanationSection(
            "the agent's own cluster tells whether it was created there, and may leave",
            [ExplanationStep(Mark.NOTE, next_question)],
        )
    )
    return Explanation(answer, good=False, data=data, sections=sections)


def _linked(link: LinkExplanation | None, data: dict[str, Any]) -> list[ExplanationSection]:
    if link is None:
        return []
    data["connection"] = link.data
    return [ExplanationSection("what the principal's cluster knows of the agent", list(link.steps()))]


def _to_agent(
    known: Known,
    project: Object,
    agent: str,
    mode: Mode,
    link: LinkExplanation | None,
    *,
    mappings: tuple[AgentMapping, ...],
) -> Explanation:
    name = reading.text(project, "metadata", "name")
    data: dict[str, Any] = {"project": name, "agent": agent, "mode": mode.value, "to": AGENT, "mappings": {}}
    sections = []
    going = []
    for mapped_by in mappings:
        route = explain_project(
            project, agent, mapped_by=mapped_by, mode_of=lambda asked: _asked(asked, agent, mode, known)
        )
        copy = plain(project_for_agent(project, agent=agent, mapped_by=mapped_by)) if route.goes else None
        if route.goes:
            going.append(mapped_by.value)
        sections.append(_route_section(route, project, mapped_by))
        data["mappings"][mapped_by.value] = {
            "goes": route.goes,
            "because": route.because,
            "steps": [_step_data(step, agent) for step in route.steps],
            "copy": copy,
        }
        if copy is not None:
            sections.append(ExplanationSection("the copy that arrives", manifest=lean(copy)))
    sections += _linked(link, data)
    notes = list(_notes(known, project, live=link is not None))
    data["notes"] = [note.what for note in notes]
    if notes:
        sections.append(ExplanationSection("besides", notes))
    stuck = link.cause if link else ""
    causes = dict.fromkeys(mapping["because"] for mapping in data["mappings"].values())
    return Explanation(
        _answer(name, agent, going, everywhere=len(going) == len(mappings), causes=list(causes), stuck=stuck),
        good=bool(going) and not stuck,
        data=data,
        sections=sections,
    )


def _answer(
    name: str, agent: str, going: list[str], *, everywhere: bool, causes: list[str], stuck: str
) -> str:
    if not going:
        return f"The project {name} does not go to agent {agent}: {'; '.join(causes)}."
    only = "" if everywhere else f" only where agents are mapped by {going[0]}"
    but = f", but {stuck}" if stuck else ""
    return f"The project {name} goes to agent {agent}{only}{but}."


def _asked(asked: str, agent: str, mode: Mode, known: Known) -> Mode | None:
    if asked == agent:
        return mode
    return Mode.AUTONOMOUS if known.configuration.agents.is_autonomous(asked) else None


def _route_section(route: Route, project: Object, mapped_by: AgentMapping) -> ExplanationSection:
    said = "it goes" if route.goes else "it does not go"
    section = ExplanationSection(f"agents mapped by {mapped_by.value}: {said}, {route.because}")
    for step in route.steps:
        mark = Mark.NO if step.denies and step.matched else Mark.of(step.matched or step.denies)
        denial = "!" if step.denies else ""
        section.steps.append(
            ExplanationStep(mark, f"{step.path}: {denial}{step.pattern}", _remark(step, route.agent))
        )
    if route.steps or not route.goes:
        section.steps += _silent_destinations(project)
    return section


def _remark(step: RoutingStep, agent: str) -> str:
    """Why a pattern does not do what its writer may have meant."""
    if step.problem:
        return step.problem
    if step.denies:
        return "denies this agent" if step.matched else ""
    if step.matched:
        return ""
    if globs.match(step.pattern.lower(), agent.lower()) is Verdict.YES:
        return f"differs from {agent} in upper and lower case alone, and that counts"
    if step.pattern.startswith("/"):
        return "a regular expression that does not match"
    found = surprises(step.pattern)
    return found[0].message if found else "does not match"


def _step_data(step: RoutingStep, agent: str) -> dict[str, Any]:
    return {
        "path": step.path,
        "pattern": step.pattern,
        "denies": step.denies,
        "verdict": step.verdict.value,
        "remark": _remark(step, agent),
    }


def _silent_destinations(project: Object) -> Iterator[ExplanationStep]:
    for index, destination in enumerate(reading.sequence(project, "spec", "destinations")):
        if not destination_pattern(destination):
            server = reading.text(destination, "server")
            what = f"spec.destinations[{index}].server: {server}" if server else f"spec.destinations[{index}]"
            remark = f"names no agent: a name, the server * or one with ?{names.AGENT_QUERY_PARAMETER}= does"
            yield ExplanationStep(Mark.NO, what, remark)


def _notes(known: Known, project: Object, *, live: bool) -> Iterator[ExplanationStep]:
    label = ignore_sync.label_of(project)
    if label is not None and label not in ignore_sync.UNDERSTOOD:
        yield ExplanationStep(
            Mark.NOTE, f"the label {names.IGNORE_SYNC} is {label!r}: only the exact text true keeps it here"
        )
    namespace = reading.text(project, "metadata", "namespace")
    if namespace and namespace != known.configuration.argocd.namespace:
        yield ExplanationStep(
            Mark.NOTE,
            f"it is in the namespace {namespace}, and projects count only in {known.configuration.argocd.namespace}",
        )
    if not live:
        yield ExplanationStep(
            Mark.NOTE,
            "files do not tell whether the agent is connected: --context asks the principal's cluster",
        )


def _to_principal(known: Known, project: Object, agent: str, mode: Mode) -> Explanation:
    name = reading.text(project, "metadata", "name")
    home = known.configuration.argocd.namespace
    checks = list(_principal_checks(known, project, agent, mode))
    goes = all(mark is not Mark.NO for mark, _, _ in checks)
    data: dict[str, Any] = {
        "project": name,
        "agent": agent,
        "mode": mode.value,
        "to": PRINCIPAL,
        "goes": goes,
        "steps": [
            {"what": what, "holds": mark is not Mark.NO, "remark": remark} for mark, what, remark in checks
        ],
        "copy": None,
    }
    sections = [ExplanationSection("what is asked", [ExplanationStep(*check) for check in checks])]
    if goes:
        copy = plain(project_at_principal(project, agent=agent, namespace=home))
        data["copy"] = copy
        called = reading.text(copy, "metadata", "name")
        answer = f"The project {name} of agent {agent} goes to the principal; there it is called {called}."
        sections.append(ExplanationSection("the copy that the principal stores", manifest=lean(copy)))
    else:
        cause = next(remark for mark, _, remark in checks if mark is Mark.NO)
        answer = f"The project {name} of agent {agent} does not go to the principal: {cause}."
    return Explanation(answer, good=goes, data=data, sections=sections)


def _principal_checks(
    known: Known, project: Object, agent: str, mode: Mode
) -> Iterator[tuple[Mark, str, str]]:
    home = known.configuration.argocd.namespace
    autonomous = mode is Mode.AUTONOMOUS
    yield (
        Mark.of(autonomous),
        f"the agent is {mode.value}",
        "" if autonomous else _ONLY_AUTONOMOUS,
    )
    ignored = ignore_sync.is_ignored(project)
    yield (
        Mark.of(not ignored),
        f"the label {names.IGNORE_SYNC} is {ignore_sync.label_of(project) or 'absent'}",
        f"it has the label {names.IGNORE_SYNC}" if ignored else "",
    )
    namespace = reading.text(project, "metadata", "namespace") or home
    yield (
        Mark.of(namespace == home),
        f"its namespace is {namespace}",
        "" if namespace == home else f"the agent looks into {home} alone",
    )
    name = reading.text(project, "metadata", "name")
    try:
        called = prefixed_name(agent, name)
    except NameTooLongError as error:
        yield Mark.NO, "with the agent's name before it, its name fits", str(error)
        return
    yield Mark.YES, f"its name there is {called}", ""
    other = known.project(called)
    owner = owner_of(other, known.configuration) if other is not None else agent
    if other is not None and owner != agent:
        yield (
            Mark.NO,
            f"the name {called} is free there",
            f"the name {called} belongs to {owner or 'a native project'}",
        )


def lean(copy: Any) -> Any:
    """Without what only an API server writes, and without the uid that a file does not have."""
    metadata = {
        key: value
        for key, value in copy["metadata"].items()
        if key not in {"managedFields", "resourceVersion", "generation", "creationTimestamp", "uid"}
    }
    annotations = {key: value for key, value in reading.mapping(metadata, "annotations").items() if value}
    if not annotations:
        metadata.pop("annotations", None)
    else:
        metadata["annotations"] = annotations
    kept = {key: value for key, value in copy.items() if key not in {"metadata", "status"}}
    return {
        "apiVersion": kept.pop("apiVersion", ""),
        "kind": kept.pop("kind", ""),
        "metadata": metadata,
        **kept,
    }
