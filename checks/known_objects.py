"""What is known of a cluster or of a run's files: objects that rules ask for, and Argo CD's settings."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from argocd import names, reading
from argocd.engine.directory import Directory, Shelf
from argocd.judging.case import Kind, Surroundings, kind_of
from argocd.judging.configuration import Configuration
from argocd.settings.argocd_cm import read_settings
from checks.manifests import Object

_IN_ARGOCD_NAMESPACE = frozenset(Kind) - {Kind.ANY}
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
        elif reading.text(thing, "kind") == "ServiceAccount":
            directory.put_account(thing)

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


def needs_the_others(thing: Object) -> bool:
    """Whether a verdict on an object needs the rest of the run, or the rest may ask for it."""
    return (
        kind_of(thing) is not Kind.ANY
        or reading.text(thing, "kind") == "ServiceAccount"
        or not _TRACKING_ANNOTATIONS.isdisjoint(reading.mapping(thing, "metadata", "annotations"))
    )


def in_default_namespace(thing: Object, configuration: Configuration) -> Object:
    """Where no namespace is written, Argo CD's is meant: kubectl or Kustomize will fill it in."""
    metadata = reading.mapping(thing, "metadata")
    if "namespace" in metadata or kind_of(thing) not in _IN_ARGOCD_NAMESPACE:
        return thing
    return {**thing, "metadata": {**metadata, "namespace": configuration.argocd.namespace}}
