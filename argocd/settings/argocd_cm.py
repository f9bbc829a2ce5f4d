"""`argocd-cm` as a typed value, whatever the ConfigMap holds.

Argo CD reads most keys leniently and so does this: what it would ignore is ignored here too, and rules
about argocd-cm say so. `Settings()` is an empty ConfigMap on the default version.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from argocd import charged_yaml, names, reading
from argocd.judging.configuration import Behaviour, Configuration, Version

IMPERSONATION_SINCE: Version = (2, 13)
ENFORCED_KEY_SINCE: Version = (3, 5)
"""Before it, an application without a matching account always failed to sync."""
ANNOTATION_BY_DEFAULT_SINCE: Version = (3, 0)


class TrackingMethod(StrEnum):
    """`UNKNOWN` is any other text: Argo CD then writes annotations, and trusts every one it reads."""

    LABEL = "label"
    ANNOTATION = "annotation"
    ANNOTATION_AND_LABEL = "annotation+label"
    UNKNOWN = "unknown"

    @classmethod
    def of(cls, text: str) -> "TrackingMethod":
        return next((method for method in cls if method == text), cls.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImpersonationSwitch:
    enabled: bool = False
    enforced: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceFilter:
    """One entry of the exclusions or inclusions; an empty list means all."""

    groups: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalProject:
    """A project whose permissions are added to those that the selector selects."""

    project: str
    selector: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`installation_id` has three states: None (no key), empty (the admin opted out), an id.

    `application_namespaces` is None where nobody knows which namespaces Argo CD was started with, and so
    is `allowed_scm_providers` for the addresses of code forges (an empty list allows all). `known` is False where
    no argocd-cm was seen: rules that would complain about a default then keep silent.
    """

    known: bool = False
    tracking_method: TrackingMethod = TrackingMethod.ANNOTATION
    instance_label: str = names.INSTANCE_LABEL
    installation_id: str | None = None
    former_installation_ids: tuple[str, ...] = ()
    impersonation: ImpersonationSwitch = field(default_factory=ImpersonationSwitch)
    exclusions: tuple[ResourceFilter, ...] = ()
    inclusions: tuple[ResourceFilter, ...] = ()
    global_projects: tuple[GlobalProject, ...] = ()
    in_cluster: bool = True
    application_namespaces: tuple[str, ...] | None = None
    allowed_scm_providers: tuple[str, ...] | None = None


def read_settings(
    argocd_cm: Mapping[str, Any] | None,
    *,
    configuration: Configuration,
    command_parameters: Mapping[str, Any] | None = None,
) -> Settings:
    """The settings in `argocd-cm` and, for the two that Argo CD is started with, `argocd-cmd-params-cm`."""
    data = reading.mapping(argocd_cm, "data")
    return Settings(
        known=argocd_cm is not None,
        tracking_method=_tracking_method(data, configuration.argocd.version),
        instance_label=reading.text(data, names.INSTANCE_LABEL_KEY) or names.INSTANCE_LABEL,
        installation_id=_installation_id(data),
        former_installation_ids=former_installation_ids(argocd_cm),
        impersonation=_impersonation(data, configuration),
        exclusions=_filters(data, names.RESOURCE_EXCLUSIONS_KEY),
        inclusions=_filters(data, names.RESOURCE_INCLUSIONS_KEY),
        global_projects=_global_projects(data),
        in_cluster=reading.text(data, names.IN_CLUSTER_ENABLED_KEY) != "false",
        application_namespaces=_started_with(command_parameters, names.APPLICATION_NAMESPACES_KEY),
        allowed_scm_providers=_started_with(command_parameters, names.ALLOWED_SCM_PROVIDERS_KEY),
    )


def _tracking_method(data: Mapping[str, Any], version: Version) -> TrackingMethod:
    for key in (names.TRACKING_METHOD_KEY, names.PROPOSED_TRACKING_METHOD_KEY):
        if text := reading.text(data, key):
            return TrackingMethod.of(text)
    if version < ANNOTATION_BY_DEFAULT_SINCE:
        return TrackingMethod.LABEL
    return TrackingMethod.ANNOTATION


def _installation_id(data: Mapping[str, Any]) -> str | None:
    return reading.text(data, names.INSTALLATION_ID_KEY) if names.INSTALLATION_ID_KEY in data else None


def former_installation_ids(argocd_cm: Mapping[str, Any] | None) -> tuple[str, ...]:
    """What this installation was called before, as whoever changed that wrote down."""
    text = reading.text(argocd_cm, "metadata", "annotations", names.TIPHYS_FORMER_INSTALLATION_IDS)
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _impersonation(data: Mapping[str, Any], configuration: Configuration) -> ImpersonationSwitch:
    version = configuration.argocd.version
    released = reading.text(data, names.IMPERSONATION_ENABLED_KEY) == "true"
    proposed = reading.text(data, names.PROPOSED_IMPERSONATION_KEY) == "true"
    counts = proposed if configuration.impersonation.behaviour is Behaviour.PROPOSAL else False
    return ImpersonationSwitch(
        enabled=(released and version >= IMPERSONATION_SINCE) or counts,
        enforced=(
            version < ENFORCED_KEY_SINCE or reading.text(data, names.IMPERSONATION_ENFORCED_KEY) != "false"
        ),
    )


def _yaml_list(data: Mapping[str, Any], key: str) -> list[Any]:
    text = reading.text(data, key)
    try:
        loaded = charged_yaml.load(text)
    except charged_yaml.YamlError:
        return []
    return loaded if isinstance(loaded, list) else []


def _filters(data: Mapping[str, Any], key: str) -> tuple[ResourceFilter, ...]:
    return tuple(
        ResourceFilter(
            groups=tuple(reading.texts(entry, "apiGroups")),
            kinds=tuple(reading.texts(entry, "kinds")),
            clusters=tuple(reading.texts(entry, "clusters")),
        )
        for entry in _yaml_list(data, key)
        if isinstance(entry, Mapping)
    )


def _global_projects(data: Mapping[str, Any]) -> tuple[GlobalProject, ...]:
    return tuple(
        GlobalProject(
            project=reading.text(entry, "projectName"),
            selector=reading.mapping(entry, "labelSelector"),
        )
        for entry in _yaml_list(data, names.GLOBAL_PROJECTS_KEY)
        if isinstance(entry, Mapping)
    )


def _started_with(command_parameters: Mapping[str, Any] | None, key: str) -> tuple[str, ...] | None:
    """A comma list among the parameters that Argo CD was started with."""
    if command_parameters is None:
        return None
    text = reading.text(command_parameters, "data", key)
    return tuple(part.strip() for part in text.split(",") if part.strip())
