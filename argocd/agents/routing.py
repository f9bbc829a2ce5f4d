"""Which agent gets what: projects by their patterns, applications by their place, repositories by their project.

`AgentIndex` answers for all agents at once, without asking each agent about each pattern: a literal name is looked up, a
prefix (`prod-*`, `{eu,us}-*`) is a slice of the sorted names, and what any other pattern matches is remembered and kept
up to date as agents come and go.
"""

import re
from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from argocd import globs, names
from argocd.agents import ignore_sync
from argocd.agents.identity import has_source
from argocd.agents.vocabulary import Mode
from argocd.globs import Verdict, batch
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


# Projects share their patterns: a thousand different ones that are neither a name nor a prefix is a lot.
REMEMBERED_PATTERNS = 1024

# Of these it is known what gobwas matches (tests ask it): nothing need be tried. A star between two texts lets
# them overlap, as gobwas does.
_PLAIN = "[A-Za-z0-9.-]"
_LISTED = re.compile(rf"({_PLAIN}*)(?:\{{({_PLAIN}+(?:,{_PLAIN}+)+)\}})?({_PLAIN}*)(\*?)")
_ENDING = re.compile(rf"({_PLAIN}*)\*({_PLAIN}+)")
_WITHIN = re.compile(rf"\*({_PLAIN}+)\*")

_AFTER_EVERY_NAME = "\U0010ffff"

Matching = Callable[[str, Sequence[str]], Iterable[str]]
"""Of a pattern and names: those that it matches."""


@dataclass(frozen=True, slots=True)
class ProjectChange:
    """Agents that no longer get a project, those that get it now, and those that got it before too; each sorted."""

    lost: tuple[str, ...] = ()
    gained: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    @property
    def reached(self) -> list[str]:
        return sorted((*self.gained, *self.kept))


class AgentIndex:
    """The agents that a principal knows, by name and mode."""

    def __init__(self, *, mapped_by: AgentMapping) -> None:
        self.mapped_by = mapped_by
        self._modes: dict[str, Mode] = {}
        self._managed: list[str] = []
        self._matches: OrderedDict[tuple[Matching, str], set[str]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._modes)

    def mode_of(self, agent: str) -> Mode | None:
        return self._modes.get(agent)

    def names(self, mode: Mode) -> Iterable[str]:
        return [name for name, its_mode in self._modes.items() if its_mode is mode]

    def put(self, agent: str, mode: Mode) -> None:
        """An agent is there, or has come back in another mode."""
        if self._modes.get(agent) is mode:
            return
        self.drop(agent)
        self._modes[agent] = mode
        if mode is Mode.MANAGED:
            insort(self._managed, agent)
            for (matching, pattern), matched in self._matches.items():
                matched.update(matching(pattern, (agent,)))

    def drop(self, agent: str) -> None:
        if self._modes.pop(agent, None) is Mode.MANAGED:
            del self._managed[bisect_left(self._managed, agent)]
            for matched in self._matches.values():
                matched.discard(agent)

    def for_project(self, project: Mapping[str, Any] | None) -> list[str]:
        """The managed agents that get a project, sorted; nobody gets one that is ignored, a mirror, or None."""
        return sorted(self._for_project(project))

    def for_change(self, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> ProjectChange:
        """Who is concerned by a change; `old` is None for a new project, `new` for a deleted one."""
        before, after = self._for_project(old), self._for_project(new)
        return ProjectChange(
            lost=tuple(sorted(before - after)),
            gained=tuple(sorted(after - before)),
            kept=tuple(sorted(after & before)),
        )

    def _for_project(self, project: Mapping[str, Any] | None) -> set[str]:
        if (
            project is None
            or ignore_sync.is_ignored(project)
            or is_autonomous_mirror(project, mode_of=self.mode_of)
        ):
            return set()
        allowed: set[str] = set()
        denied: set[str] = set()
        for pattern in destination_patterns(project):
            (denied if pattern.denies else allowed).update(self._matching(pattern.text, batch.matching))
        reached = allowed - denied
        if reached and self.mapped_by is AgentMapping.NAMESPACE:
            placed: set[str] = set()
            for pattern in namespace_patterns(project):
                placed.update(self._matching(pattern.text, pattern_lists.matching))
            reached &= placed
        return reached

    def about(self, destination: Any) -> frozenset[str]:
        """The managed agents whose cluster a project's destination is about, denials apart."""
        pattern = destination_pattern(destination)
        return frozenset(self._matching(pattern, batch.matching)) if pattern else frozenset()

    def _matching(self, pattern: str, matching: Matching) -> Iterable[str]:
        if listed := _LISTED.fullmatch(pattern):
            before, choices, after, star = listed.groups()
            texts = [f"{before}{choice}{after}" for choice in (choices or "").split(",")]
            if star:
                return [agent for text in texts for agent in self._beginning_with(text)]
            return [text for text in texts if self._modes.get(text) is Mode.MANAGED]
        if ending := _ENDING.fullmatch(pattern):
            return [agent for agent in self._beginning_with(ending[1]) if agent.endswith(ending[2])]
        if within := _WITHIN.fullmatch(pattern):
            return [agent for agent in self._managed if within[1] in agent]
        return self._tried(pattern, matching)

    def _beginning_with(self, text: str) -> list[str]:
        start = bisect_left(self._managed, text)
        return self._managed[start : bisect_left(self._managed, text + _AFTER_EVERY_NAME, start)]

    def _tried(self, pattern: str, matching: Matching) -> set[str]:
        key = (matching, pattern)
        matched = self._matches.get(key)
        if matched is None:
            matched = self._matches[key] = set(matching(pattern, self._managed))
            if len(self._matches) > REMEMBERED_PATTERNS:
                self._matches.popitem(last=False)
        else:
            self._matches.move_to_end(key)
        return matched
