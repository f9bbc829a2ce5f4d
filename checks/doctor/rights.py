"""What the manifests grant to each account, asked of the API server right by right."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from typing import Any

import yaml

from argocd import names, reading
from argocd.agents.vocabulary import Mode
from checks.doctor.diagnosis import Diagnosis, DoctorCheck, error, ok, some
from checks.doctor.examined import DoctorOptions, Examined, InstalledPart, flag, is_paired
from kube.resources import SELF_SUBJECT_ACCESS_REVIEWS, SUBJECT_ACCESS_REVIEWS
from kube.store import Object, Resource, Store


@dataclass(frozen=True, slots=True, order=True)
class AccessRight:
    """`namespace` is empty for one of the whole cluster, `name` where any will do."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        name = f" {self.name}" if self.name else ""
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {kind}{name}" + (f" in {self.namespace}" if self.namespace else "")

    def attributes(self) -> Object:
        resource, _, subresource = self.resource.partition("/")
        return {
            "verb": self.verb,
            "group": self.group,
            "resource": resource,
            "subresource": subresource,
            "namespace": self.namespace,
            "name": self.name,
        }


@cache
def _manifests() -> dict[str, dict[str, list[Any]]]:
    text = resources.files("checks.doctor").joinpath("rights.yaml").read_text()
    found: dict[str, dict[str, list[Any]]] = yaml.safe_load(text)
    return found


def granted(variant: str, options: DoctorOptions) -> list[AccessRight]:
    """By the manifests, in the namespaces of this installation."""
    namespaces = {
        "cluster": ("",),
        "tiphys": (options.namespace,),
        "argocd": (options.argocd_namespace,),
        "applications": options.application_namespaces,
    }
    return sorted(
        {
            right
            for scope, rules in _manifests()[variant].items()
            for rule in rules
            for namespace in namespaces[scope]
            for right in _rights(rule, namespace)
        }
    )


def _rights(rule: Any, namespace: str) -> Iterator[AccessRight]:
    for group in reading.texts(rule, "apiGroups"):
        for resource in reading.texts(rule, "resources"):
            for verb in reading.texts(rule, "verbs"):
                for name in reading.texts(rule, "resourceNames") or [""]:
                    yield AccessRight(verb, group, resource, namespace, name)


async def missing(store: Store, rights: list[AccessRight], *, user: str = "") -> list[AccessRight]:
    """Those that the user does not have; without one, whoever asks."""
    if user:
        review, whose = SUBJECT_ACCESS_REVIEWS, {"user": user, "groups": _groups(user)}
    else:
        review, whose = SELF_SUBJECT_ACCESS_REVIEWS, {}
    asked = [_allowed(store, review, right, whose) for right in rights]
    allowed = await asyncio.gather(*asked)  # the store bounds how many are under way
    return [right for right, may in zip(rights, allowed, strict=True) if not may]


def _groups(user: str) -> list[str]:
    """As the API server adds them to an account's name."""
    namespace = user.removeprefix(names.SERVICE_ACCOUNT_PREFIX).partition(":")[0]
    return ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]


async def _allowed(store: Store, review: Resource, right: AccessRight, whose: Object) -> bool:
    answer = await store.create(review, {"spec": {**whose, "resourceAttributes": right.attributes()}})
    return reading.value(answer, "status", "allowed") is True


async def _look(examined: Examined, part: InstalledPart) -> Diagnosis:
    deployment = await examined.deployment(part)
    account = reading.text(deployment, "spec", "template", "spec", "serviceAccountName") or part.object_name
    namespace = examined.namespace_of(part)
    rights = granted(_variant(part, deployment), examined.options)
    user = f"{names.SERVICE_ACCOUNT_PREFIX}{namespace}:{account}"
    lacking = await missing(examined.store, rights, user=user)
    if lacking:
        return error(
            f"ServiceAccount {namespace}/{account} lacks {len(lacking)} of {len(rights)}:"
            f" {some([str(right) for right in lacking])}",
            remedy="apply the manifests again, and look for what took the roles or their bindings away",
        )
    return ok(f"ServiceAccount {namespace}/{account} has all {len(rights)}")


def _variant(part: InstalledPart, deployment: Object | None) -> str:
    """Whose role is another, by its flags."""
    if part is InstalledPart.AGENT and flag(deployment, "--agent-mode") == Mode.AUTONOMOUS:
        return "agent-autonomous"
    if part is InstalledPart.PRINCIPAL and is_paired(deployment):
        return "principal-of-a-pair"
    return part.value


def rights_check(part: InstalledPart) -> DoctorCheck:
    return DoctorCheck(
        id=f"{part.value}/rights",
        title="its account may do all that the manifests grant",
        look=partial(_look, part=part),
    )


# What `kubectl apply -k` makes, by kind. Roles can only be given by somebody who has what they grant, or `escalate`.
_MADE_IN_CLUSTER = {
    "": ("namespaces",),
    "admissionregistration.k8s.io": (
        "validatingwebhookconfigurations",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
    ),
    "rbac.authorization.k8s.io": ("clusterroles", "clusterrolebindings"),
    "scheduling.k8s.io": ("priorityclasses",),
}
_MADE_IN_NAMESPACES = {
    "": ("configmaps", "serviceaccounts", "services"),
    "apps": ("deployments",),
    "networking.k8s.io": ("networkpolicies",),
    "policy": ("poddisruptionbudgets",),
    "rbac.authorization.k8s.io": ("roles", "rolebindings"),
}


def needed_to_install(options: DoctorOptions) -> list[AccessRight]:
    return [
        AccessRight("create", group, resource, namespace)
        for made, namespaces in (
            (_MADE_IN_CLUSTER, [""]),
            (_MADE_IN_NAMESPACES, [options.namespace, options.argocd_namespace]),
        )
        for group, kinds in made.items()
        for resource in kinds
        for namespace in namespaces
    ]
