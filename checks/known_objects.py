"""What is known of a cluster or of a run's files: objects that rules ask for, and Argo CD's settings."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from argocd import names, reading
from argocd.engine.directory import Directory, Shelf
from argocd.judging.case import Kind, Surroundings, kind_of
from argocd.judging.configuration import Configuration
from argocd.settings.argocd_cm import read_settings
from checks.manifests import Object

_IN_ARGOCD_NAMESPACE = frozenset(Kind) - {Kind.ANY}
_KNOWN_BY_NAME = frozenset({"ConfigMap", "Secret"})
_OF_PLUGINS = frozenset({"token", "baseUrl"})
_TRACKING_ANNOTATIONS = frozenset({names.TRACKING_ID, names.PROPOSED_TRACKING_ID, names.INSTALLATION_ID})
"""Annotations of any object that Argo CD's settings give their meaning."""


@dataclass(slots=True)
class KnownObjects:
    """Neighbours, and the two ConfigMaps that hold Argo CD's settings. A kind of which there is none is not known."""

    directory: Directory
    settings: Object | None = None
    parameters: Object | None = None
    notes: list[str] = field(default_factory=list)

    def put(self, thing: Object) -> None:
        """One more object that others may ask for."""
        directory = self.directory
        kind = kind_of(thing)
        if kind is Kind.PROJECT:
            directory.put_project(thing)
            directory.know(Shelf.PROJECTS)
        elif kind is Kind.APPLICATION:
            directory.put_application(thing)
            directory.know(Shelf.APPLICATIONS)
        elif kind in {Kind.REPOSITORY, Kind.CLUSTER}:
            directory.put_secret(thing)
            directory.know(Shelf.SECRETS)
        elif kind is Kind.ARGOCD_CM:
            self.settings = thing
        elif kind is Kind.PARAMETERS_CM:
            self.parameters = thing
        self._put_name(thing)

    def _put_name(self, thing: Object) -> None:
        """That of a core kind. In files a Secret that is missing says nothing: tokens are not kept there."""
        match reading.text(thing, "kind"):
            case "Secret":
                self.directory.put_secret_name(thing)
            case "ConfigMap":
                self.directory.put_config_map_name(thing)
                if _is_for_generators(thing):
                    self.directory.know(Shelf.CONFIG_MAP_NAMES)
            case "ServiceAccount":
                self.directory.put_account(thing)

    def surroundings(self, configuration: Configuration) -> Surroundings:
        return Surroundings(
            settings=read_settings(
                self.settings, configuration=configuration, command_parameters=self.parameters
            ),
            configuration=configuration,
            neighbours=self.directory,
        )


def known_from(objects: Iterable[Object], configuration: Configuration) -> KnownObjects:
    """What these objects know of each other."""
    known = KnownObjects(Directory(argocd_namespace=configuration.argocd.namespace))
    for thing in objects:
        known.put(thing)
    return known


def _is_for_generators(config_map: Object) -> bool:
    """Has what a plugin's needs: who keeps one plugin's ConfigMap in files keeps them all there."""
    return reading.mapping(config_map, "data").keys() >= _OF_PLUGINS


def needs_the_others(thing: Object) -> bool:
    """Whether a verdict on an object needs the rest of the run, or the rest may ask for it."""
    return (
        kind_of(thing) is not Kind.ANY
        or reading.text(thing, "kind") == "ServiceAccount"
        or not _TRACKING_ANNOTATIONS.isdisjoint(reading.mapping(thing, "metadata", "annotations"))
    )


def stand_ins(thing: Object) -> Iterator[Object]:
    """Of a ConfigMap or a Secret what others may ask for: its name, and whose it is."""
    kind = reading.text(thing, "kind")
    if kind in _KNOWN_BY_NAME:
        metadata = reading.mapping(thing, "metadata")
        named = {key: reading.text(metadata, key) for key in ("name", "namespace") if key in metadata}
        data = dict.fromkeys(_OF_PLUGINS, "") if _is_for_generators(thing) else {}
        yield {"kind": kind, "metadata": named, "data": data}


def in_default_namespace(thing: Object, configuration: Configuration) -> Object:
    """Where no namespace is written, Argo CD's is meant: kubectl or Kustomize will fill it in."""
    metadata = reading.mapping(thing, "metadata")
    if "namespace" in metadata or kind_of(thing) not in _IN_ARGOCD_NAMESPACE:
        return thing
    return {**thing, "metadata": {**metadata, "namespace": configuration.argocd.namespace}}
