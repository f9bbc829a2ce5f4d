"""What an account may do by its roles, and what it did by the API server's audit log, in the same words."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from scripts.cluster.controlplane import Cluster
from tests.cluster.installation import MANIFESTS


@dataclass(frozen=True, order=True)
class Right:
    """`namespace` is empty for one of a ClusterRole, `name` where any will do."""

    verb: str
    resource: str
    """plural.group, or plural.group/subresource"""
    namespace: str = ""
    name: str = ""

    def covers(self, call: "Right") -> bool:
        return (
            (self.verb, self.resource) == (call.verb, call.resource)
            and self.namespace in {"", call.namespace}
            and self.name in {"", call.name}
        )

    def wider_than(self, calls: "set[Right]", namespaces: set[str]) -> bool:
        """Of a ClusterRole, though a Role in one of these namespaces would have done."""
        used = {call.namespace for call in calls if self.covers(call)}
        return not self.namespace and bool(used) and used <= namespaces

    def __str__(self) -> str:
        name = f" {self.name}" if self.name else ""
        return f"{self.verb} {self.resource}{name}" + (f" in {self.namespace}" if self.namespace else "")


def given(cluster: Cluster, overlay: str, account: str) -> set[Right]:
    """All that the overlay's roles of this name give; a role and its binding have the account's name."""
    rendered = cluster.kubectl("kustomize", str(MANIFESTS / overlay)).stdout
    return {
        right
        for thing in yaml.safe_load_all(rendered)
        if thing["kind"] in {"Role", "ClusterRole"} and thing["metadata"]["name"] == account
        for rule in thing["rules"]
        for right in _rights(rule, thing["metadata"].get("namespace", ""))
    }


def _rights(rule: dict[str, Any], namespace: str) -> Iterator[Right]:
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                for name in rule.get("resourceNames") or [""]:
                    plural, slash, part = resource.partition("/")
                    yield Right(verb, f"{plural}.{group}".rstrip(".") + slash + part, namespace, name)


@dataclass(frozen=True)
class Calls:
    made: set[Right]
    refused: set[Right]


def called(cluster: Cluster, user: str, *, since: int) -> Calls:
    """`since` is how many lines the log had before."""
    made: set[Right] = set()
    refused: set[Right] = set()
    for event in cluster.audited(since=since):
        if event["user"]["username"] != user or "objectRef" not in event:
            continue  # discovery and health need no role
        about = event["objectRef"]
        resource = f"{about['resource']}.{about.get('apiGroup', '')}".rstrip(".")
        if "subresource" in about:
            resource += f"/{about['subresource']}"
        call = Right(event["verb"], resource, about.get("namespace", ""), about.get("name", ""))
        allowed = event["annotations"]["authorization.k8s.io/decision"] == "allow"
        (made if allowed else refused).add(call)
    return Calls(made, refused)


def unused(rights: set[Right], calls: Calls) -> set[Right]:
    return {right for right in rights if not any(right.covers(call) for call in calls.made)}
