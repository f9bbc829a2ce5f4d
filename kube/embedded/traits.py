"""What an API server does differently for some kinds."""

import base64
from dataclasses import dataclass

from kube.resources import APPLICATION_SETS, NAMESPACES, PODS, SECRETS
from kube.store import Object, Resource

# Kinds of these groups count no generations, and take a replacement without a resource version.
_PLAIN_GROUPS = frozenset({""})
_WITHOUT_GENERATION = frozenset({"", "coordination.k8s.io", "events.k8s.io", "rbac.authorization.k8s.io"})
WITH_STATUS = frozenset({APPLICATION_SETS, PODS, NAMESPACES})


@dataclass(frozen=True, slots=True)
class Traits:
    generation: bool
    """metadata.generation rises with each change outside metadata."""
    unconditional: bool
    """A replacement may come without a resource version."""
    status: bool
    """The status is a subresource: other writes leave it alone, and writes to it leave the rest."""


def traits_of(resource: Resource, *, with_status: frozenset[Resource]) -> Traits:
    return Traits(
        generation=resource.group not in _WITHOUT_GENERATION,
        unconditional=resource.group in _PLAIN_GROUPS,
        status=resource in with_status,
    )


def complete(resource: Resource, body: Object) -> None:
    """The defaults that the house relies on; there are no schemas here, so no others."""
    if resource == SECRETS:
        plain = body.pop("stringData", None) or {}
        if plain:
            encoded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
            body["data"] = {**(body.get("data") or {}), **encoded}
        body.setdefault("type", "Opaque")
    elif resource == NAMESPACES:
        metadata = body["metadata"]
        labels = metadata.get("labels") or {}
        metadata["labels"] = {**labels, "kubernetes.io/metadata.name": metadata["name"]}
        body.setdefault("spec", {"finalizers": ["kubernetes"]})
        body.setdefault("status", {"phase": "Active"})
