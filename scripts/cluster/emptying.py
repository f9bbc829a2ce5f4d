"""What the namespace controller does elsewhere: empty a namespace that is being deleted, then let it go."""

import contextlib
import http.client
from typing import Any

from scripts.cluster.api import MERGE_PATCH, Api, RefusedError

KINDS = {
    "/api/v1": ("configmaps", "secrets", "serviceaccounts", "pods", "events", "services"),
    "/apis/apps/v1": ("deployments", "statefulsets", "daemonsets"),
    "/apis/argoproj.io/v1alpha1": ("applications", "applicationsets", "appprojects"),
    "/apis/coordination.k8s.io/v1": ("leases",),
    "/apis/rbac.authorization.k8s.io/v1": ("roles", "rolebindings"),
}
"""What tests leave behind; the rest of a namespace holds nothing."""


def drop_namespace(api: Api, name: str) -> None:
    with contextlib.suppress(RefusedError):
        api.request("DELETE", f"/api/v1/namespaces/{name}")
    for group, plurals in KINDS.items():
        for plural in plurals:
            empty(api, f"{group}/namespaces/{name}/{plural}")
    try:
        namespace = api.request("GET", f"/api/v1/namespaces/{name}")
    except RefusedError as error:
        if error.code == http.client.NOT_FOUND:
            return
        raise
    namespace["spec"]["finalizers"] = []
    api.request("PUT", f"/api/v1/namespaces/{name}/finalize", namespace)


def empty(api: Api, path: str) -> None:
    """All objects of one kind in one namespace, with finalizers or without."""
    try:
        items: list[dict[str, Any]] = api.request("GET", path)["items"]
    except RefusedError:
        return  # no such kind here
    if not items:
        return
    for item in items:
        if item["metadata"].get("finalizers"):
            with contextlib.suppress(RefusedError):
                api.request(
                    "PATCH",
                    f"{path}/{item['metadata']['name']}",
                    {"metadata": {"finalizers": None}},
                    content_type=MERGE_PATCH,
                )
    with contextlib.suppress(RefusedError):
        api.request("DELETE", f"{path}?gracePeriodSeconds=0")
