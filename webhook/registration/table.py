"""What the API server is told to ask us, as one table: `register`, `manifests/` and the docs are made from it.

Two decisions stand behind the rows. Only Argo CD's own kinds where Argo CD reads them fail closed; nothing
that is needed to recover a cluster (pods, nodes, leases, kube-system, our own namespace) is matched by an
entry that does. And what a controller writes all day (status, operation, refresh) is kept away from us by
the API server itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

from argocd import names
from argocd.judging.ratchet import PASSING_ANNOTATIONS
from argocd.tracking.completion import DEFAULT_KINDS

Object = dict[str, Any]

NAME = "tiphys"
"""Of both webhook configurations."""

LABELS = {"app.kubernetes.io/name": "tiphys", "app.kubernetes.io/component": "webhook"}

NAMESPACE_NAME = "kubernetes.io/metadata.name"
SYSTEM_NAMESPACES = ("kube-system", "kube-public", "kube-node-lease")

VALIDATE_SECONDS = 5
MUTATE_SECONDS = 2
"""Mutating calls add up, validating ones run side by side: so the former get less."""

ARGOCD_RESOURCES = ("applications", "applicationsets", "appprojects")

SETTINGS = (
    names.ARGOCD_CM,
    names.ARGOCD_CMD_PARAMS_CM,
    names.ARGOCD_GPG_KEYS_CM,
    names.ARGOCD_RBAC_CM,
)
"""The ConfigMaps that Argo CD reads its settings and keys from."""


def _tracked() -> dict[str, tuple[str, ...]]:
    by_group: dict[str, list[str]] = {}
    for group, kind in sorted(DEFAULT_KINDS):
        by_group.setdefault(group, []).append(f"{kind.lower()}{'es' if kind.endswith('s') else 's'}")
    return {group: tuple(plurals) for group, plurals in by_group.items()}


TRACKED = _tracked()
"""The kinds whose tracking metadata is completed by default, as the API server calls them; never `*`."""


class Failing(StrEnum):
    CLOSED = "Fail"
    OPEN = "Ignore"


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """Where we live and what we guard; everything in the configurations follows from it.

    `tracked` adds resources by group to the default list. `url` replaces the Service, for a server outside
    the cluster.
    """

    argocd_namespace: str = names.DEFAULT_NAMESPACE
    application_namespaces: Sequence[str] = ()
    home: str = names.TIPHYS_NAMESPACE
    service: str = "tiphys-webhook"
    port: int = 443
    url: str = ""
    tracked: dict[str, Sequence[str]] | None = None


def validating(registration: Registration) -> Object:
    guarded = sorted({registration.argocd_namespace, *registration.application_namespaces})
    away = sorted({*guarded, *SYSTEM_NAMESPACES, registration.home})
    entry = partial(_entry, registration, path="/validate", seconds=VALIDATE_SECONDS)
    return _configuration(
        "ValidatingWebhookConfiguration",
        [
            entry(
                "argocd",
                failing=Failing.CLOSED,
                rules=[_rule("argoproj.io", "v1alpha1", ARGOCD_RESOURCES, ("CREATE", "UPDATE", "DELETE"))],
                namespaces=_in(guarded),
                conditions=[_not_ourselves(registration), _NOT_CLEANING_UP, _CHANGES],
            ),
            entry(
                "agents",
                failing=Failing.CLOSED,
                rules=[_rule("argoproj.io", "v1alpha1", ARGOCD_RESOURCES, ("CREATE", "UPDATE", "DELETE"))],
                namespaces=_not_in(away, {"key": names.TIPHYS_AGENT, "operator": "Exists"}),
                conditions=[_not_ourselves(registration), _NOT_CLEANING_UP, _CHANGES],
            ),
            entry(
                "elsewhere",
                failing=Failing.OPEN,
                rules=[_rule("argoproj.io", "v1alpha1", ARGOCD_RESOURCES, ("CREATE", "UPDATE", "DELETE"))],
                namespaces=_not_in(away, {"key": names.TIPHYS_AGENT, "operator": "DoesNotExist"}),
                conditions=[_not_ourselves(registration), _NOT_CLEANING_UP, _CHANGES],
            ),
            entry(
                "secrets",
                failing=Failing.OPEN,
                rules=[_rule("", "v1", ("secrets",), ("CREATE", "UPDATE", "DELETE"))],
                namespaces=_in([registration.argocd_namespace]),
                # Matches when the old or the new object has the label: dropping it is judged too.
                objects={"matchExpressions": [{"key": names.SECRET_TYPE, "operator": "Exists"}]},
                conditions=[_not_ourselves(registration), _NOT_CLEANING_UP],
            ),
            entry(
                "settings",
                failing=Failing.OPEN,
                rules=[_rule("", "v1", ("configmaps",), ("CREATE", "UPDATE"))],
                namespaces=_in([registration.argocd_namespace]),
                conditions=[
                    _not_ourselves(registration),
                    {
                        "name": "argo-cd-reads-it",
                        "expression": f"request.name in {[*SETTINGS]}",
                    },
                ],
            ),
            entry(
                "tracking",
                failing=Failing.OPEN,
                rules=_tracked_rules(registration, ("CREATE", "UPDATE")),
                namespaces=_tracking_namespaces(registration),
                conditions=[
                    _not_ourselves(registration),
                    _NOT_CLEANING_UP,
                    _NOT_OWNED_BEFORE,
                    _METADATA_CHANGES,
                ],
            ),
        ],
    )


def mutating(registration: Registration) -> Object:
    entry = partial(_entry, registration, seconds=MUTATE_SECONDS, failing=Failing.OPEN, reinvoked=True)
    return _configuration(
        "MutatingWebhookConfiguration",
        [
            entry(
                "projects",
                path="/mutate",
                rules=[_rule("argoproj.io", "v1alpha1", ("appprojects",), ("CREATE", "UPDATE"))],
                namespaces=_in([registration.argocd_namespace]),
                conditions=[_not_ourselves(registration), _CHANGES],
            ),
            entry(
                "tracking",
                path="/mutate",
                rules=_tracked_rules(registration, ("CREATE", "UPDATE")),
                namespaces=_tracking_namespaces(registration),
                conditions=[_not_ourselves(registration), _NOT_CLEANING_UP, _NOT_OWNED, _METADATA_CHANGES],
            ),
            entry(
                "injection",
                path="/inject",
                rules=[_rule("", "v1", ("pods",), ("CREATE",))],
                namespaces={
                    "matchExpressions": [
                        _expression(names.TIPHYS_INJECTION, "In", [names.ENABLED]),
                        _expression(NAMESPACE_NAME, "NotIn", sorted({*SYSTEM_NAMESPACES, registration.home})),
                    ]
                },
                conditions=[
                    {
                        "name": "asks-for-a-sidecar",
                        "expression": "has(object.metadata.annotations) && "
                        f"'{names.TIPHYS_INJECT}' in object.metadata.annotations",
                    }
                ],
            ),
        ],
    )


def _configuration(kind: str, webhooks: list[Object]) -> Object:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": NAME, "labels": LABELS},
        "webhooks": webhooks,
    }


def _entry(
    registration: Registration,
    name: str,
    *,
    path: str,
    seconds: int,
    failing: Failing,
    rules: list[Object],
    namespaces: Object,
    conditions: list[Object],
    objects: Object | None = None,
    reinvoked: bool = False,
) -> Object:
    entry = {
        "name": f"{name}.{path.removeprefix('/')}.tiphys.dev",
        "admissionReviewVersions": ["v1"],
        "clientConfig": _client(registration, path),
        "failurePolicy": failing.value,
        "matchConditions": conditions,
        "matchPolicy": "Equivalent",
        "namespaceSelector": namespaces,
        "objectSelector": objects or {},
        "rules": rules,
        "sideEffects": "None",
        "timeoutSeconds": seconds,
    }
    if reinvoked:
        entry["reinvocationPolicy"] = "IfNeeded"
    return entry


def _client(registration: Registration, path: str) -> Object:
    if registration.url:
        return {"url": registration.url.rstrip("/") + path}
    service = {
        "name": registration.service,
        "namespace": registration.home,
        "path": path,
        "port": registration.port,
    }
    return {"service": service}


def _rule(group: str, version: str, resources: Sequence[str], operations: Sequence[str]) -> Object:
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": list(operations),
        "resources": list(resources),
        "scope": "Namespaced",
    }


def _tracked_rules(registration: Registration, operations: Sequence[str]) -> list[Object]:
    added = registration.tracked or {}
    return [
        _rule(group, "v1", sorted({*TRACKED.get(group, ()), *added.get(group, ())}), operations)
        for group in sorted({*TRACKED, *added})
    ]


def _tracking_namespaces(registration: Registration) -> Object:
    return {
        "matchExpressions": [
            _expression(names.TIPHYS_TRACKING, "In", [names.ENABLED]),
            _expression(NAMESPACE_NAME, "NotIn", sorted({*SYSTEM_NAMESPACES, registration.home})),
        ]
    }


def _expression(key: str, operator: str, values: Sequence[str]) -> Object:
    return {"key": key, "operator": operator, "values": list(values)}


def _in(namespaces: Sequence[str]) -> Object:
    return {"matchExpressions": [_expression(NAMESPACE_NAME, "In", namespaces)]}


def _not_in(namespaces: Sequence[str], *others: Object) -> Object:
    return {"matchExpressions": [_expression(NAMESPACE_NAME, "NotIn", namespaces), *others]}


def _not_ourselves(registration: Registration) -> Object:
    account = f"{names.SERVICE_ACCOUNT_PREFIX}{registration.home}:{names.TIPHYS_WEBHOOK_ACCOUNT}"
    return {"name": "not-tiphys-itself", "expression": f"request.userInfo.username != '{account}'"}


_NOT_CLEANING_UP: Object = {
    "name": "not-kubernetes-cleaning-up",
    "expression": "!(request.userInfo.username in "
    f"['{names.GARBAGE_COLLECTOR}', '{names.NAMESPACE_CONTROLLER}'])",
}

_NOT_OWNED: Object = {
    "name": "has-no-owner",
    "expression": "!has(object.metadata.ownerReferences) || object.metadata.ownerReferences.size() == 0",
}

_NOT_OWNED_BEFORE: Object = {
    # What gets an owner and loses its marks at once was a root of Argo CD's until now.
    "name": "has-or-had-no-owner",
    "expression": "object.metadata.?ownerReferences.orValue([]).size() == 0 || (request.operation == 'UPDATE' && "
    "oldObject.metadata.?ownerReferences.orValue([]).size() == 0)",
}


def _annotations_differ(ignored: Sequence[str]) -> str:
    new, old = "object.metadata.?annotations.orValue({})", "oldObject.metadata.?annotations.orValue({})"
    skipped = f"!(k in {list(ignored)}) && " if ignored else ""
    return (
        f"{new}.exists(k, {skipped}(!(k in {old}) || {old}[k] != {new}[k])) || "
        f"{old}.exists(k, {skipped}!(k in {new}))"
    )


_METADATA_CHANGES: Object = {
    "name": "metadata-changes",
    "expression": "request.operation != 'UPDATE' || "
    "object.metadata.?labels != oldObject.metadata.?labels || " + _annotations_differ(()),
}

_CHANGES: Object = {
    "name": "more-than-status-changes",
    "expression": "request.operation != 'UPDATE' || object.?spec != oldObject.?spec || "
    "object.metadata.?labels != oldObject.metadata.?labels || "
    # An owner that does not exist has the garbage collector delete the object.
    "object.metadata.?ownerReferences != oldObject.metadata.?ownerReferences || "
    + _annotations_differ(PASSING_ANNOTATIONS),
}
