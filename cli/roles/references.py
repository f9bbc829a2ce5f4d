"""What writing an object needs besides, because the API server asks whether its writer may use what it refers to."""

from collections.abc import Iterator, Sequence
from typing import Any

from argocd import reading
from argocd.tracking.ids import group_of
from checks.manifests import Object
from cli.roles.kind_names import Kinds, named

ADMISSION = "admissionregistration.k8s.io"
CERTIFICATES = "certificates.k8s.io"
POLICIES = frozenset({"ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"})
BINDINGS = {f"{kind}Binding": kind for kind in POLICIES}


def refers(thing: Object) -> bool:
    kind, group = reading.text(thing, "kind"), group_of(thing)
    return (group == ADMISSION and kind in {*POLICIES, *BINDINGS}) or (
        group == CERTIFICATES and kind == "ClusterTrustBundle"
    )


def reference_rules(referring: Sequence[Object], *, kinds: Kinds) -> Iterator[tuple[str, dict[str, Any]]]:
    """With the place in which each is needed; empty is the whole cluster."""
    parameters = dict(_parameters(referring, kinds))
    for group, plural in sorted(set(parameters.values())):
        yield "", {"apiGroups": [group], "resources": [plural], "verbs": ["get"]}
    for thing in referring:
        if signer := reading.text(thing, "spec", "signerName"):
            rule = {"apiGroups": [CERTIFICATES], "resources": ["signers"], "verbs": ["attest"]}
            yield "", {**rule, "resourceNames": [signer]}
        reference = reading.mapping(thing, "spec", "paramRef")
        found = parameters.get(_policy_of(thing))
        # One that is named may be read by who may write the policy.
        if reference and found and not reading.text(reference, "name"):
            group, plural = found
            rule = {"apiGroups": [group], "resources": [plural], "verbs": ["list"]}
            yield reading.text(reference, "namespace"), rule


def unknown_policies(referring: Sequence[Object], *, kinds: Kinds) -> Iterator[str]:
    """Bindings with parameters whose policy, which says of what kind these are, is elsewhere."""
    parameters = dict(_parameters(referring, kinds))
    for thing in referring:
        if reading.mapping(thing, "spec", "paramRef") and _policy_of(thing) not in parameters:
            yield reading.text(thing, "metadata", "name")


def _parameters(
    referring: Sequence[Object], kinds: Kinds
) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    for thing in referring:
        wanted = reading.mapping(thing, "spec", "paramKind")
        if wanted:
            group, kind = group_of(wanted), reading.text(wanted, "kind")
            called = named(group, kind, kinds)
            yield (
                (reading.text(thing, "kind"), reading.text(thing, "metadata", "name")),
                (group, called.plural),
            )


def _policy_of(binding: Object) -> tuple[str, str]:
    return BINDINGS.get(reading.text(binding, "kind"), ""), reading.text(binding, "spec", "policyName")
