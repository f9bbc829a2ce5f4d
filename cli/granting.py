"""Roles for syncing as an account: who may impersonate it, and what it must be able to do itself."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from argocd import names, reading
from argocd.sync_accounts import Grant
from argocd.tracking_ids import group_of
from cli.judging import Object

RBAC = "rbac.authorization.k8s.io"
VERBS = ("get", "create", "patch", "update")
PRUNING = "delete"

_CLUSTER_SCOPED = frozenset(
    {
        ("", "Namespace"),
        ("", "PersistentVolume"),
        (RBAC, "ClusterRole"),
        (RBAC, "ClusterRoleBinding"),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("apiregistration.k8s.io", "APIService"),
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"),
        ("networking.k8s.io", "IngressClass"),
        ("scheduling.k8s.io", "PriorityClass"),
        ("storage.k8s.io", "StorageClass"),
    }
)
_BUILT_IN = frozenset({"", "apps", "batch", "autoscaling", "policy"})


@dataclass(slots=True)
class Needs:
    """What an account needs: namespace (empty: the whole cluster) -> (group, plural) -> names."""

    places: dict[str, dict[tuple[str, str], set[str]]] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)

    def add(self, thing: Object, *, destination_namespace: str) -> None:
        group, kind = group_of(thing), reading.text(thing, "kind")
        plural = plural_of(kind)
        if not is_built_in(group):
            self.notes[f"the plural of {kind}.{group} is guessed: {plural}"] = None
        if group == RBAC:
            self.notes[
                f"the manifests hold a {kind}: the account needs every right in it, or the verb escalate or bind"
            ] = None
        namespace = reading.text(thing, "metadata", "namespace") or destination_namespace
        place = "" if (group, kind) in _CLUSTER_SCOPED else namespace
        called = self.places.setdefault(place, {}).setdefault((group, plural), set())
        called.add(reading.text(thing, "metadata", "name"))


def is_built_in(group: str) -> bool:
    return group in _BUILT_IN or group.endswith(".k8s.io")


def plural_of(kind: str) -> str:
    """As Kubernetes forms it for its own kinds."""
    word = kind.lower()
    if word.endswith(("s", "x", "ch", "sh")):
        return word if word == "endpoints" else f"{word}es"
    return f"{word[:-1]}ies" if word.endswith("y") and word[-2:-1] not in "aeiou" else f"{word}s"


def impersonation(project: str, grants: Iterable[Grant], *, user: str) -> Iterator[Object]:
    """Role or ClusterRole and its binding, for each namespace whose accounts may be impersonated."""
    for grant in grants:
        name = f"{project}-impersonate"
        rules = [grant.rule]
        yield _role(name, grant.namespace, rules)
        yield _binding(name, grant.namespace, _subject(user))


def rights(
    project: str, account: tuple[str, str], needs: Needs, *, pruning: bool, by_name: bool
) -> Iterator[Object]:
    """What the account itself must be allowed, where the manifests go."""
    namespace, name = account
    for place, kinds in sorted(needs.places.items()):
        called = f"{project}-{name}-sync"
        yield _role(called, place, list(_rules(kinds, pruning=pruning, by_name=by_name)))
        yield _binding(called, place, {"kind": "ServiceAccount", "name": name, "namespace": namespace})


def _rules(
    kinds: Mapping[tuple[str, str], set[str]], *, pruning: bool, by_name: bool
) -> Iterator[dict[str, Any]]:
    verbs = [*VERBS, PRUNING] if pruning else [*VERBS]
    if by_name:
        for (group, plural), called in sorted(kinds.items()):
            # Nobody knows the name of an object that is created, so that verb cannot be bound to names.
            yield {"apiGroups": [group], "resources": [plural], "verbs": ["create"]}
            yield {
                "apiGroups": [group],
                "resources": [plural],
                "verbs": [verb for verb in verbs if verb != "create"],
                "resourceNames": sorted(called),
            }
        return
    groups: dict[str, list[str]] = {}
    for group, plural in sorted(kinds):
        groups.setdefault(group, []).append(plural)
    for group, plurals in groups.items():
        yield {"apiGroups": [group], "resources": plurals, "verbs": verbs}


def _role(name: str, namespace: str, rules: list[dict[str, Any]]) -> Object:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    kind = "Role" if namespace else "ClusterRole"
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata, "rules": rules}


def _binding(name: str, namespace: str, subject: dict[str, str]) -> Object:
    kind = "Role" if namespace else "ClusterRole"
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": {"name": name, "namespace": namespace} if namespace else {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
        "subjects": [subject],
    }


def _subject(user: str) -> dict[str, str]:
    if user.startswith(names.SERVICE_ACCOUNT_PREFIX):
        namespace, _, name = user.removeprefix(names.SERVICE_ACCOUNT_PREFIX).partition(":")
        return {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    return {"apiGroup": RBAC, "kind": "User", "name": user}
