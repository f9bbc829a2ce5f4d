"""A sidecar put into a pod, or the reason why not. Pure: the template and the pod in, JSON-patch operations out.

The template comes from the admin alone. What a pod's annotations may change is listed in `OVERRIDES`, and no
value of theirs becomes an image, a command, a volume or a part of a security context.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from jsonpointer import escape

from argocd import names, reading
from webhook.injection.quantities import amount, exceeds
from webhook.injection.templates import ROLES, Template

Object = dict[str, Any]

INJECTED = "tiphys.dev/injected"
"""Annotation that the webhook leaves: which role was injected."""

_LEVELS = frozenset({"debug", "info", "warning", "error"})

OVERRIDES: Mapping[str, tuple[str, str]] = {
    "tiphys.dev/inject-cpu-limit": ("limits", "cpu"),
    "tiphys.dev/inject-memory-limit": ("limits", "memory"),
    "tiphys.dev/inject-cpu-request": ("requests", "cpu"),
    "tiphys.dev/inject-memory-request": ("requests", "memory"),
}
"""Annotations of a pod that replace the template's resources, limits first; values are Kubernetes quantities."""

LOG_LEVEL = "tiphys.dev/inject-log-level"
"""One of debug, info, warning, error: becomes the variable TIPHYS_<ROLE>_LOG_LEVEL of the sidecar."""


class InjectionReason(StrEnum):
    """Why a pod is what it is: the same word in the audit annotation, the metric and the CLI."""

    INJECTED = "injected"
    NOT_ASKED = "not-asked"
    UNKNOWN_ROLE = "unknown-role"
    NO_TEMPLATE = "no-template"
    ALREADY_INJECTED = "already-injected"
    HOST_NETWORK = "host-network"
    MIRROR_POD = "mirror-pod"
    OTHER_ORDINAL = "other-ordinal"
    VOLUME_CLASH = "volume-clash"
    PORT_CLASH = "port-clash"


OPT_OUTS = ("", "false", "none", "disabled")


@dataclass(frozen=True, slots=True)
class Injection:
    reason: InjectionReason
    role: str = ""
    patch: Sequence[Object] = ()
    warnings: Sequence[str] = field(default_factory=tuple)


def inject(pod: Mapping[str, Any], templates: Mapping[str, Template]) -> Injection:
    """`templates` by role. A second pass over the patched pod changes nothing."""
    role = reading.text(pod, "metadata", "annotations", names.TIPHYS_INJECT)
    if role in OPT_OUTS:
        return Injection(InjectionReason.NOT_ASKED)
    if role not in ROLES:
        known = ", ".join(ROLES)
        return Injection(
            InjectionReason.UNKNOWN_ROLE,
            warnings=[f"{names.TIPHYS_INJECT}: no role {role[:64]!r}; known: {known}"],
        )
    template = templates.get(role)
    if template is None:
        return Injection(InjectionReason.NO_TEMPLATE, role)
    reason = _reason_against(pod, template)
    if reason is not None:
        return Injection(reason, role)
    container, warnings = _container(pod, template)
    patch = [
        *_append(pod, "initContainers" if template.native else "containers", [container]),
        *_append(pod, "volumes", list(template.volumes)),
        {"op": "add", "path": f"/metadata/annotations/{escape(INJECTED)}", "value": role},
    ]
    return Injection(InjectionReason.INJECTED, role, patch, warnings)


def _reason_against(pod: Mapping[str, Any], template: Template) -> InjectionReason | None:
    spec, metadata = reading.mapping(pod, "spec"), reading.mapping(pod, "metadata")
    if names.MIRROR_POD in reading.mapping(metadata, "annotations"):
        return InjectionReason.MIRROR_POD
    if any(reading.text(held, "name") == template.name for held in _containers(spec)):
        return InjectionReason.ALREADY_INJECTED
    if spec.get("hostNetwork") is True:
        return InjectionReason.HOST_NETWORK
    if _ordinal(metadata) not in {None, "0"}:
        return InjectionReason.OTHER_ORDINAL
    ours = {volume["name"] for volume in template.volumes}
    if any(reading.text(volume, "name") in ours for volume in reading.sequence(spec, "volumes")):
        return InjectionReason.VOLUME_CLASH
    taken = (
        (port.get("containerPort"), port.get("protocol") or "TCP")
        for held in _containers(spec)
        for port in reading.sequence(held, "ports")
        if isinstance(port, Mapping)
    )
    wanted = [(port["containerPort"], port.get("protocol") or "TCP") for port in template.ports]
    return InjectionReason.PORT_CLASH if any(port in wanted for port in taken) else None


def _containers(spec: Mapping[str, Any]) -> Iterator[Any]:
    for key in ("initContainers", "containers", "ephemeralContainers"):
        yield from reading.sequence(spec, key)


def _ordinal(metadata: Mapping[str, Any]) -> str | None:
    """Which of a StatefulSet's pods this is; None for any other pod."""
    owners = reading.sequence(metadata, "ownerReferences")
    if not any(reading.text(owner, "kind") == "StatefulSet" for owner in owners):
        return None
    label = reading.text(metadata, "labels", "apps.kubernetes.io/pod-index")
    return label or reading.text(metadata, "name").rpartition("-")[2]


def _container(pod: Mapping[str, Any], template: Template) -> tuple[Object, list[str]]:
    annotations = reading.mapping(pod, "metadata", "annotations")
    container = template.container()
    container["resources"], warnings = _resources(container["resources"], annotations)
    level = reading.text(annotations, LOG_LEVEL)
    if level in _LEVELS:
        name = f"TIPHYS_{template.role.upper()}_LOG_LEVEL"
        others = [variable for variable in container.get("env", ()) if variable["name"] != name]
        container["env"] = [*others, {"name": name, "value": level}]
    elif level:
        warnings.append(f"{LOG_LEVEL}: {level[:32]!r} is none of {', '.join(sorted(_LEVELS))}; ignored")
    return container, warnings


def _resources(resources: Object, annotations: Mapping[str, Any]) -> tuple[Object, list[str]]:
    """An override is used if an API server will accept what it leads to: a bad one must not cost the pod."""
    warnings = []
    for annotation, (section, resource) in OVERRIDES.items():
        value = reading.text(annotations, annotation)
        if not value:
            continue
        if amount(value) is None:
            warnings.append(f"{annotation}: {value[:32]!r} is not a quantity; the template's value is used")
            continue
        changed = {**resources, section: {**resources.get(section, {}), resource: value}}
        request, limit = (reading.value(changed, side, resource) for side in ("requests", "limits"))
        if not exceeds(request, limit):
            resources = changed
        elif section == "limits":
            # As Kubernetes does where only a limit is given.
            resources = {**changed, "requests": {**changed["requests"], resource: value}}
        else:
            warnings.append(
                f"{annotation}: {value} is more than the limit {limit}; the template's value is used"
            )
    return resources, warnings


def _append(pod: Mapping[str, Any], key: str, items: list[Object]) -> list[Object]:
    """Operations that leave what is there as it is; the list is made where there is none."""
    if not items:
        return []
    if reading.sequence(pod, "spec", key):
        return [{"op": "add", "path": f"/spec/{key}/-", "value": item} for item in items]
    return [{"op": "add", "path": f"/spec/{key}", "value": items}]
