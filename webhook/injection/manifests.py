"""Injection into manifests: the pods in them, and the pods that their controllers would make."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from argocd import reading
from kube.patches import apply_json_patch
from webhook.injection.inject import Injection, InjectionReason, inject
from webhook.injection.templates import CONFIG_MAP, Template, TemplateError, parse_template

Object = dict[str, Any]

TEMPLATE_PATHS: Mapping[str, tuple[str, ...]] = {
    "Pod": (),
    "PodTemplate": ("template",),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    **dict.fromkeys(
        ("DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", "Rollout", "StatefulSet"),
        ("spec", "template"),
    ),
}
"""Where each kind has its pod."""


@dataclass(frozen=True, slots=True)
class ManifestInjection:
    """`injection` is None for an object without a pod."""

    body: Mapping[str, Any]
    injection: Injection | None = None


def inject_manifest(body: Mapping[str, Any], templates: Mapping[str, Template]) -> ManifestInjection:
    """The manifest as it should be applied; the one that was given stays as it is."""
    path = TEMPLATE_PATHS.get(reading.text(body, "kind"))
    if path is None:
        return ManifestInjection(body)
    injection = inject(reading.mapping(body, *path), templates)
    if _has_several_ordinals(body) and injection.reason is InjectionReason.INJECTED:
        # One template makes all of a StatefulSet's pods alike; only the webhook can tell the first.
        injection = replace(injection, reason=InjectionReason.OTHER_ORDINAL, patch=())
    if not injection.patch:
        return ManifestInjection(body, injection)
    prefix = "".join(f"/{step}" for step in path)
    patch = [{**operation, "path": prefix + operation["path"]} for operation in injection.patch]
    return ManifestInjection(apply_json_patch(copy.deepcopy(dict(body)), patch), injection)


def _has_several_ordinals(body: Mapping[str, Any]) -> bool:
    replicas = reading.value(body, "spec", "replicas")
    return reading.text(body, "kind") == "StatefulSet" and replicas not in (None, 0, 1)


def templates_of(config_map: Mapping[str, Any], *, origin: str) -> dict[str, Template]:
    """All roles of the ConfigMap; the first bad one is an error that names it."""
    if reading.text(config_map, "kind") != "ConfigMap":
        raise TemplateError(f"{origin}: not a ConfigMap such as {CONFIG_MAP}")
    texts = reading.mapping(config_map, "data")
    return {role: parse_template(role, text, origin=f"{origin}, key {role}") for role, text in texts.items()}
