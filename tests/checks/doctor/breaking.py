"""Ways to break what the doctor looks at, and to mend it again."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from argocd import names
from checks.doctor.diagnosis import CheckHealth
from checks.doctor.examined import DoctorOptions
from scripts.cluster.api import MERGE_PATCH
from tests.checks.doctor.well_installation import ARGOCD, HOME, WellInstallation

SECRETS = "/api/v1/namespaces/{}/secrets"
CONFIG_MAPS = "/api/v1/namespaces/{}/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/{}/deployments"
PROJECTS = "/apis/argoproj.io/v1alpha1/namespaces/{}/appprojects"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations"
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/applicationsets.argoproj.io"
ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles"
JSON_PATCH = "application/json-patch+json"

Break = Callable[[WellInstallation], AbstractContextManager[None]]


@dataclass(frozen=True)
class Broken:
    """How one line is made to be not green: by the cluster, by what the command is told, or by the time."""

    id: str
    health: CheckHealth
    message: str
    """Part of what is told."""
    breaks: Break = lambda _: contextlib.nullcontext()
    later: timedelta = timedelta()
    spoke: bool = False
    options: Callable[[DoctorOptions], DoctorOptions] = lambda options: options
    user: str = ""
    """Who asks, without any right; empty: an administrator."""


def patched(path: str, patch: dict[str, Any], *, back: dict[str, Any]) -> Break:
    @contextmanager
    def breaks(well: WellInstallation) -> Iterator[None]:
        well.cluster.request("PATCH", path, patch, content_type=MERGE_PATCH)
        try:
            yield
        finally:
            well.cluster.request("PATCH", path, back, content_type=MERGE_PATCH)

    return breaks


def added(path: str, body: dict[str, Any]) -> Break:
    @contextmanager
    def breaks(well: WellInstallation) -> Iterator[None]:
        well.cluster.request("POST", path, body)
        try:
            yield
        finally:
            well.cluster.request("DELETE", f"{path}/{body['metadata']['name']}")

    return breaks


def removed(path: str, name: str) -> Break:
    @contextmanager
    def breaks(well: WellInstallation) -> Iterator[None]:
        held = well.cluster.request("GET", f"{path}/{name}")
        for key in ("resourceVersion", "uid", "creationTimestamp", "managedFields"):
            held["metadata"].pop(key, None)
        well.cluster.request("DELETE", f"{path}/{name}")
        try:
            yield
        finally:
            well.cluster.request("POST", path, held)

    return breaks


def settings(key: str, value: str, *, namespace: str = ARGOCD, back: str | None = None) -> Break:
    path = f"{CONFIG_MAPS.format(namespace)}/{names.ARGOCD_CM}"
    return patched(path, {"data": {key: value}}, back={"data": {key: back}})


@contextmanager
def entry_gone(well: WellInstallation) -> Iterator[None]:
    well.guard.unregister()
    try:
        yield
    finally:
        well.guard.register()


@contextmanager
def bundle_gone(well: WellInstallation) -> Iterator[None]:
    """While the leader is told to leave it alone, as `unregister` tells it."""
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases/tiphys-webhook"
    mark = {"metadata": {"annotations": {"tiphys.dev/unregistered": "now"}}}
    well.cluster.request("PATCH", lease, mark, content_type=MERGE_PATCH)
    path = f"{WEBHOOKS.format('validating')}/tiphys"
    held = well.cluster.request("GET", path)
    for entry in held["webhooks"]:
        entry["clientConfig"].pop("caBundle", None)
    well.cluster.request("PATCH", path, {"webhooks": held["webhooks"]}, content_type=MERGE_PATCH)
    try:
        yield
    finally:
        well.guard.register()


@contextmanager
def proxy_switched_off(well: WellInstallation) -> Iterator[None]:
    """While argocd-server asks it."""
    path = f"{DEPLOYMENTS.format(ARGOCD)}/tiphys-principal"
    args = "/spec/template/spec/containers/0/args"
    off = [{"op": "add", "path": f"{args}/0", "value": "--disable-redis-proxy"}]
    words = ("--redis", f"{names.REDIS_PROXY_SERVICE}:6379")
    well.cluster.request("PATCH", path, off, content_type=JSON_PATCH)
    try:
        server = deployment("argocd-server", image="argocd", args=words)
        with added(DEPLOYMENTS.format(ARGOCD), server)(well):
            yield
    finally:
        on = [{"op": "remove", "path": f"{args}/0"}]
        well.cluster.request("PATCH", path, on, content_type=JSON_PATCH)


def deployment(name: str, *, image: str, args: Sequence[str] = ()) -> dict[str, Any]:
    labels = {"app": name}
    containers = [{"name": "program", "image": image, "args": list(args)}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": template}}


def another_webhook(name: str, *, kind: str, groups: str, resources: str) -> dict[str, Any]:
    """Of Kyverno's kind; nobody is there to answer, so it is asked about nothing that exists: see the operations."""
    return {
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": f"{kind}.kyverno.svc",
                "clientConfig": {"url": "https://127.0.0.1:1/"},
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "timeoutSeconds": 1,
                "objectSelector": {"matchLabels": {"nothing-has": "this-label"}},
                "namespaceSelector": {
                    "matchExpressions": [
                        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kyverno"]}
                    ]
                },
                "rules": [
                    {
                        "apiGroups": [groups],
                        "apiVersions": ["*"],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": [resources],
                    }
                ],
            }
        ],
    }


def deserted_webhook(name: str, *, groups: str, resources: str) -> dict[str, Any]:
    """It fails closed on all that is created of these, and its Service has no endpoints."""
    made = another_webhook(name, kind="policies", groups=groups, resources=resources)
    (entry,) = made["webhooks"]
    del entry["objectSelector"]
    entry["clientConfig"] = {"service": {"namespace": "kyverno", "name": "kyverno-svc"}}
    entry["rules"][0]["operations"] = ["CREATE"]
    return made
