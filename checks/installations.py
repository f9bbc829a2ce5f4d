"""Which Argo CDs the files of a run belong to."""

from collections import Counter
from collections.abc import Callable, MutableMapping
from dataclasses import replace
from typing import Any

from argocd import names, reading
from argocd.engine.directory import Directory
from argocd.judging.case import Kind, Surroundings, kind_of
from argocd.judging.configuration import Configuration
from checks.known_objects import KnownObjects, in_default_namespace
from checks.manifests import Object

OPENSHIFT_GITOPS = "openshift-gitops"
"""Where Red Hat's operator puts Argo CD."""

_SETTINGS = frozenset({names.ARGOCD_CM, names.ARGOCD_RBAC_CM, names.ARGOCD_CMD_PARAMS_CM})


class Installations:
    """The Argo CDs of a run, told by their namespaces, each with the objects that it knows.

    A repository may hold the objects of several, and nobody need say where they are: the namespaces of `argocd-cm`
    and of projects tell. First everything is seen, then everything put, then judged.
    """

    def __init__(
        self,
        configuration: Configuration,
        *,
        namespace_given: bool,
        around: KnownObjects | None,
        mapping: Callable[[], MutableMapping[Any, Object]] = dict,
    ) -> None:
        """`around` is what a cluster holds already; there, or where it is given, the namespace is the configuration's."""
        self._configuration = configuration
        self._mapping = mapping
        self._fixed = namespace_given or around is not None
        self._settings: Counter[str] = Counter()
        self._projects: Counter[str] = Counter()
        self._applications: Counter[str] = Counter()
        self._known: dict[str, KnownObjects] = {configuration.argocd.namespace: around} if around else {}
        self._configurations: dict[str, Configuration] = {}
        self._surroundings: dict[str, Surroundings] = {}
        self._home = ""

    def see(self, thing: Object) -> None:
        """What a namespace that is written tells."""
        namespace = reading.text(thing, "metadata", "namespace")
        if not namespace or self._fixed:
            return
        kind = kind_of(thing)
        if kind is Kind.PROJECT:
            self._projects[namespace] += 1
        elif kind in {Kind.APPLICATION, Kind.APPLICATION_SET}:
            self._applications[namespace] += 1
        elif (
            reading.text(thing, "kind") == "ConfigMap"
            and reading.text(thing, "metadata", "name") in _SETTINGS
        ):
            self._settings[namespace] += 1

    def put(self, thing: Object) -> None:
        home = self._home_of(thing)
        self._known_in(home).put(in_default_namespace(thing, self._in(home)))

    def surroundings(self, thing: Object) -> tuple[Object, Surroundings]:
        """The object in its namespace, and what is around it."""
        home = self._home_of(thing)
        if home not in self._surroundings:
            self._surroundings[home] = self._known_in(home).surroundings(self._in(home))
        return in_default_namespace(thing, self._in(home)), self._surroundings[home]

    def _home_of(self, thing: Object) -> str:
        if not self._home:
            homes = self._homes()
            self._home = homes[0]
            for home in homes:
                self._known_in(home)
        namespace = reading.text(thing, "metadata", "namespace")
        return namespace if namespace in self._known else self._home

    def _homes(self) -> list[str]:
        usual = self._configuration.argocd.namespace
        if self._fixed:
            return [usual]
        if self._settings:
            return [namespace for namespace, _ in self._settings.most_common()]
        if self._projects and usual not in self._projects:
            return [namespace for namespace, _ in self._projects.most_common()]
        if not self._projects and usual not in self._applications and OPENSHIFT_GITOPS in self._applications:
            return [OPENSHIFT_GITOPS]
        return [usual]

    def _known_in(self, home: str) -> KnownObjects:
        if home not in self._known:
            self._known[home] = KnownObjects(Directory(argocd_namespace=home, mapping=self._mapping))
        return self._known[home]

    def _in(self, home: str) -> Configuration:
        if home not in self._configurations:
            argocd = replace(self._configuration.argocd, namespace=home)
            self._configurations[home] = replace(self._configuration, argocd=argocd)
        return self._configurations[home]
