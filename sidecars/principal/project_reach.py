"""Which projects may be for an agent, cheaply: when a thousand agents come back, each asks about every project.

Names and beginnings of names, which nearly all patterns are, are looked at as such. What is left is judged as
ever: this only says no.
"""

import re

from argocd.agents.routing import destination_patterns
from argocd.reading import text
from kube.store import Object

_PLAIN = re.compile(r"[A-Za-z0-9.-]+")


class Reach:
    __slots__ = ("_anything", "_beginnings", "_names")

    def __init__(self, project: Object) -> None:
        self._names: set[str] = set()
        self._beginnings: tuple[str, ...] = ()
        self._anything = False
        for pattern in destination_patterns(project):
            if pattern.denies:
                continue
            if _PLAIN.fullmatch(pattern.text):
                self._names.add(pattern.text)
            elif pattern.text.endswith("*") and _PLAIN.fullmatch(pattern.text[:-1]):
                self._beginnings = (*self._beginnings, pattern.text[:-1])
            else:
                self._anything = True

    def may_include(self, agent: str) -> bool:
        return self._anything or agent in self._names or agent.startswith(self._beginnings)


class Reaches:
    """By the version of each project."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, Reach]] = {}

    def may_include(self, project: Object, agent: str) -> bool:
        name, version = project["metadata"]["name"], text(project, "metadata", "resourceVersion")
        known = self._known.get(name)
        if known is None or known[0] != version:
            known = self._known[name] = (version, Reach(project))
        return known[1].may_include(agent)

    def forget(self, name: str) -> None:
        self._known.pop(name, None)
