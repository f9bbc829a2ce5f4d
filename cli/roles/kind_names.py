"""What a kind is called in a role: its plural, and whether it has namespaces. Known, defined beside it, or guessed.

And the other way round: the kind that somebody means by a word of kubectl's.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from argocd import reading
from argocd.tracking.ids import group_of
from checks.manifests import Object
from tiphys.errors import CallError

if TYPE_CHECKING:
    from kube.live import LiveStore
    from kube.store import Resource

_VERSIONS = ("v1", "v1beta1", "v1alpha1", "v2", "v1beta2")
"""Tried in this order for a kind of a group; the first that has it is asked."""

DEFINITION = ("apiextensions.k8s.io", "CustomResourceDefinition")

_CLUSTER_SCOPED: Mapping[str, frozenset[str]] = {
    "": frozenset({"Namespace", "Node", "PersistentVolume"}),
    "admissionregistration.k8s.io": frozenset(
        {
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
            "MutatingWebhookConfiguration",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "ValidatingWebhookConfiguration",
        }
    ),
    "apiextensions.k8s.io": frozenset({"CustomResourceDefinition"}),
    "apiregistration.k8s.io": frozenset({"APIService"}),
    "apps": frozenset(),
    "autoscaling": frozenset(),
    "batch": frozenset(),
    "certificates.k8s.io": frozenset({"CertificateSigningRequest", "ClusterTrustBundle"}),
    "coordination.k8s.io": frozenset(),
    "discovery.k8s.io": frozenset(),
    "events.k8s.io": frozenset(),
    "flowcontrol.apiserver.k8s.io": frozenset({"FlowSchema", "PriorityLevelConfiguration"}),
    "networking.k8s.io": frozenset({"IPAddress", "IngressClass", "ServiceCIDR"}),
    "node.k8s.io": frozenset({"RuntimeClass"}),
    "policy": frozenset(),
    "rbac.authorization.k8s.io": frozenset({"ClusterRole", "ClusterRoleBinding"}),
    "resource.k8s.io": frozenset({"DeviceClass", "DeviceTaintRule", "ResourceSlice"}),
    "scheduling.k8s.io": frozenset({"PriorityClass"}),
    "storage.k8s.io": frozenset(
        {"CSIDriver", "CSINode", "StorageClass", "VolumeAttachment", "VolumeAttributesClass"}
    ),
}
"""Groups of Kubernetes itself, and those of their kinds that have no namespace."""


@dataclass(frozen=True, slots=True)
class Named:
    plural: str
    namespaced: bool
    guessed: bool = False


Kinds = Mapping[tuple[str, str], Named]


def named(group: str, kind: str, known: Kinds) -> Named:
    """`known` goes first: a cluster knows its own kinds better."""
    if (found := known.get((group, kind))) is not None:
        return found
    without = _CLUSTER_SCOPED.get(group)
    return Named(plural_of(kind), kind not in (without or ()), guessed=without is None)


def plural_of(kind: str) -> str:
    """As Kubernetes forms it for its own kinds."""
    word = kind.lower()
    if word.endswith(("s", "x", "ch", "sh")):
        return word if word == "endpoints" else f"{word}es"
    return f"{word[:-1]}ies" if word.endswith("y") and word[-2:-1] not in "aeiou" else f"{word}s"


def defined(things: Iterable[Object]) -> dict[tuple[str, str], Named]:
    """The kinds whose CustomResourceDefinitions are among the manifests."""
    return dict(_definitions(things))


def _definitions(things: Iterable[Object]) -> Iterator[tuple[tuple[str, str], Named]]:
    for thing in things:
        if (group_of(thing), reading.text(thing, "kind")) == DEFINITION:
            spec = reading.mapping(thing, "spec")
            kind, plural = reading.text(spec, "names", "kind"), reading.text(spec, "names", "plural")
            if kind and plural:
                namespaced = reading.text(spec, "scope") != "Cluster"
                yield (reading.text(spec, "group"), kind), Named(plural, namespaced)


async def discovered(store: "LiveStore", things: Iterable[Object]) -> dict[tuple[str, str], Named]:
    """The kinds of the manifests that the API server has; one question for each version of a group."""
    found: dict[tuple[str, str], Named] = {}
    for version in sorted({reading.text(thing, "apiVersion") for thing in things} - {""}):
        group, _, bare = version.rpartition("/")
        for kind, resource in (await store.discover(group=group, version=bare)).items():
            found[group, kind] = Named(resource.plural, resource.namespaced)
    return found


async def find_kind(store: "LiveStore", *, group: str, kind: str) -> "Resource":
    """By its kind or plural, in any case."""
    for version in _VERSIONS if group else ("v1",):
        for found in (await store.discover(group=group, version=version)).values():
            if kind.lower() in {found.kind.lower(), found.plural}:
                return found
    raise CallError(f"the API server has no kind {kind} in group {group or 'core'}: write KIND.GROUP")
