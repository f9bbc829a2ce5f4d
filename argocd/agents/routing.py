"""Which agent gets what: projects by their patterns, applications by their place, repositories by their project.

`AgentIndex` in `argocd.agents.index` answers the same for all agents at once.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from argocd import globs, names
from argocd.agents import ignore_sync
from argocd.agents.identity import has_source
from argocd.agents.vocabulary import Mode
from argocd.globs import Verdict
from argocd.go.net_url import query_parameter
from argocd.projects import pattern_lists
from argocd.reading import sequence, text, texts
from argocd.settings import secrets

EVERYBODY = "*"
"""A destination's server that means every cluster, where no name stands beside it."""

_REPOSITORY_TYPES = frozenset({names.SECRET_TYPE_REPOSITORY, names.SECRET_TYPE_REPO_CREDS})


class AgentMapping(StrEnum):
    """What says whose an Application is: the namespace that it lives in, or its destination's name."""

    NAMESPACE = "namespace"
    DESTINATION = "destination"


ModeOf = Callable[[str], Mode | None]
"""The mode of an agent; None for a name that no known agent has."""


@dataclass(frozen=True, slots=True)
class RoutingPattern:
    """One field of a project that has a say in where it goes."""

    path: str
    text: str
    denies: bool = False


@dataclass(frozen=True, slots=True)
class RoutingStep:
    """One pattern held against one agent. With a `problem` it matches nobody."""

    path: str
    pattern: str
    verdict: Verdict
    denies: bool = False
    problem: str = ""

    @property
    def matched(self) -> bool:
        return self.verdict is Verdict.YES


@dataclass(frozen=True, slots=True)
class Route:
    """Whether an agent gets an object, and every step of the way there."""

    agent: str
    goes: bool
    because: str
    steps: tuple[RoutingStep, ...] = ()


def destination_patterns(project: Mapping[str, Any]) -> Iterator[RoutingPattern]:
    """The agents that a project's destinations name. A name silences the server beside it."""
    for index, destination in enumerate(sequence(project, "spec", "destinations")):
        at = f"spec.destinations[{index}]"
        if name := text(destination, "name"):
            yield RoutingPattern(f"{at}.name", name.removeprefix("!"), denies=name.startswith("!"))
        elif pattern := _server_pattern(text(destination, "server")):
            yield RoutingPattern(f"{at}.server", pattern)


def namespace_patterns(project: Mapping[str, Any]) -> Iterator[RoutingPattern]:
    for index, pattern in enumerate(sequence(project, "spec", "sourceNamespaces")):
        if isinstance(pattern, str):
            yield RoutingPattern(f"spec.sourceNamespaces[{index}]", pattern)


def destination_pattern(destination: Any) -> str:
    """What a destination says about agents' names: its name, or what its server asks for; a denial is its text."""
    return text(destination, "name") or _server_pattern(text(destination, "server"))


def destination_verdict(destination: Any, agent: str) -> Verdict:
    """Whether a destination of a project is about the agent's cluster."""
    pattern = destination_pattern(destination)
    return globs.match(pattern, agent) if pattern else Verdict.NO


def route_project(
    project: Mapping[str, Any],
    agent: str,
    *,
    mapped_by: AgentMapping,
) -> Route:
    """Whether a managed agent gets a project, as its patterns say. A denial wins wherever it stands."""
    steps: list[RoutingStep] = []
    named = False
    for pattern in destination_patterns(project):
        step = _held_against(pattern, globs.match(pattern.text, agent))
        steps.append(step)
        if step.matched and step.denies:
            return Route(agent, goes=False, because=f"{step.path} denies it", steps=tuple(steps))
        named = named or step.matched
    if mapped_by is AgentMapping.NAMESPACE:
        placed = False
        for pattern in namespace_patterns(project):
            step = _held_against(pattern, match_namespace(pattern.text, agent))
            steps.append(step)
            placed = placed or step.matched
        if not placed:
            because = "no entry of spec.sourceNamespaces matches it"
            return Route(agent, goes=False, because=because, steps=tuple(steps))
    because = "spec.destinations name it" if named else "no entry of spec.destinations matches it"
    return Route(agent, goes=named, because=because, steps=tuple(steps))


def explain_project(
    project: Mapping[str, Any],
    agent: str,
    *,
    mapped_by: AgentMapping,
    mode_of: ModeOf,
) -> Route:
    """The same with all that is asked before the patterns."""
    refusal = ""
    if ignore_sync.is_ignored(project):
        refusal = f"it has the label {names.IGNORE_SYNC}"
    elif is_autonomous_mirror(project, mode_of=mode_of):
        refusal = "it comes from an autonomous agent"
    elif mode_of(agent) is None:
        refusal = "no such agent is known"
    elif mode_of(agent) is Mode.AUTONOMOUS:
        refusal = "the agent is autonomous"
    if refusal:
        return Route(agent, goes=False, because=refusal)
    return route_project(project, agent, mapped_by=mapped_by)


def is_autonomous_mirror(item: Mapping[str, Any], *, mode_of: ModeOf) -> bool:
    """Whether a principal's object is the mirror of what an autonomous agent has."""
    if not has_source(item):
        return False
    return any(mode_of(name) is Mode.AUTONOMOUS for name in _possible_agents(item))


def _possible_agents(item: Mapping[str, Any]) -> Iterator[str]:
    yield text(item, "metadata", "namespace")
    for agent in texts(item, "spec", "sourceNamespaces")[:1]:
        # A native project has a source too where it came by replication, but not a mirror's name.
        if text(item, "metadata", "name").startswith(f"{agent}-"):
            yield agent


def agent_of_application(
    application: Mapping[str, Any],
    *,
    mapped_by: AgentMapping,
    mode_of: ModeOf,
) -> str:
    """The agent that an Application on the principal belongs to; empty where nothing names one."""
    namespace = text(application, "metadata", "namespace")
    if mapped_by is AgentMapping.NAMESPACE or is_autonomous_mirror(application, mode_of=mode_of):
        return namespace
    return text(application, "spec", "destination", "name")


def admits_application(
    application: Mapping[str, Any],
    *,
    allowed_namespaces: list[str],
    principal_namespace: str,
    mapped_by: AgentMapping,
) -> bool:
    """Whether a principal deals with an Application at all."""
    if ignore_sync.is_ignored(application):
        return False
    patterns = allowed_namespaces
    if mapped_by is AgentMapping.DESTINATION:
        if text(application, "spec", "destination", "name") in {"", names.IN_CLUSTER_NAME}:
            return False
        if principal_namespace:
            patterns = [*allowed_namespaces, principal_namespace]
    return namespace_is_allowed(text(application, "metadata", "namespace"), patterns)


def namespace_is_allowed(namespace: str, patterns: list[str]) -> bool:
    """Whether one of a list of globs and `/regular expressions/` is about the namespace; none: nothing is."""
    return any(match_namespace(pattern, namespace) is Verdict.YES for pattern in patterns)


def project_of_repository(secret: Mapping[str, Any], *, argocd_namespace: str) -> str:
    """The project whose agents get a repository Secret; empty for one that stays where it is."""
    if (
        ignore_sync.is_ignored(secret)
        or text(secret, "metadata", "namespace") != argocd_namespace
        or secrets.secret_type(secret) not in _REPOSITORY_TYPES
    ):
        return ""
    return secrets.value(secret, "project") or ""


def match_namespace(pattern: str, text: str) -> Verdict:
    """One entry of a list of namespaces: a glob or a `/regular expression/`."""
    return pattern_lists.in_list((pattern,), text)


def _server_pattern(server: str) -> str:
    return server if server == EVERYBODY else query_parameter(server, names.AGENT_QUERY_PARAMETER)


_PROBLEMS = {
    Verdict.PANIC: "argocd-agent would crash on it",
    Verdict.HANG: "argocd-agent would not come to an end with it",
    Verdict.UNKNOWN: "it cannot be told what argocd-agent makes of it",
}


def _held_against(pattern: RoutingPattern, verdict: Verdict) -> RoutingStep:
    problem = _PROBLEMS.get(verdict, "")
    if verdict is Verdict.NO and not pattern_lists.is_expression(pattern.text):
        problem = globs.compiled(pattern.text).error
    return RoutingStep(
        path=pattern.path,
        pattern=pattern.text,
        verdict=verdict,
        denies=pattern.denies,
        problem=problem,
    )
