"""All agents at once: who gets a project, without asking each agent about each pattern.

A literal name is looked up, a prefix (`prod-*`, `{eu,us}-*`) is a slice of the sorted names, and what any other
pattern matches is remembered and kept up to date as agents come and go.
"""

import re
from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from argocd.agents import ignore_sync
from argocd.agents.routing import (
    AgentMapping,
    destination_pattern,
    destination_patterns,
    is_autonomous_mirror,
    namespace_patterns,
)
from argocd.agents.vocabulary import Mode
from argocd.globs import batch
from argocd.projects import pattern_lists

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
