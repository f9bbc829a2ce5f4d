"""Roles and bindings for tests, with the wait that every such test would have to write."""

import time
import uuid
from typing import Any

from scripts.cluster.api import Api
from tiphys.errors import SurroundingsError

RBAC = "/apis/rbac.authorization.k8s.io/v1"
KNOWN_SECONDS = 60.0  # usually a few milliseconds: the authorizer reads from a watch cache


def grant(
    api: Api, *, rules: list[dict[str, Any]], user: str, group: str, account: str, namespace: str
) -> None:
    name = f"test-{uuid.uuid4().hex[:8]}"
    where, prefix = (f"{RBAC}/namespaces/{namespace}", "") if namespace else (RBAC, "cluster")
    kind = "Role" if namespace else "ClusterRole"
    api.request("POST", f"{where}/{prefix}roles", {"metadata": {"name": name}, "rules": rules})
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
        "subjects": [_subject(user=user, group=group, account=account)],
    }
    api.request("POST", f"{where}/{prefix}rolebindings", binding)
    _wait_until_known(api, rule=rules[-1], caller=_caller(user, group, account), namespace=namespace)


def _subject(*, user: str, group: str, account: str) -> dict[str, str]:
    if account:
        namespace, name = account.split("/")
        return {"kind": "ServiceAccount", "namespace": namespace, "name": name}
    kind = "User" if user else "Group"
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": user or group}


def _caller(user: str, group: str, account: str) -> dict[str, Any]:
    if account:
        return {"user": f"system:serviceaccount:{account.replace('/', ':')}"}
    return {"user": user} if user else {"user": "somebody", "groups": [group]}


def _wait_until_known(api: Api, *, rule: dict[str, Any], caller: dict[str, Any], namespace: str) -> None:
    resource, _, subresource = rule["resources"][-1].partition("/")
    attributes = {
        "group": rule["apiGroups"][-1],
        "resource": resource,
        "subresource": subresource,
        "verb": rule["verbs"][-1],
        "name": (rule.get("resourceNames") or [""])[-1],
        "namespace": namespace,
    }
    review = {"spec": {**caller, "resourceAttributes": attributes}}
    deadline = time.monotonic() + KNOWN_SECONDS
    while not api.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)["status"][
        "allowed"
    ]:
        if time.monotonic() > deadline:
            raise SurroundingsError(f"the API server does not know the grant of {rule} to {caller}")
        time.sleep(0.01)
