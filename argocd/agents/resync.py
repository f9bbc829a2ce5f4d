"""How two ends that lost sight of each other compare what they have: the four resync messages.

The *source* owns an object, its *peer* mirrors it. Checksums are taken of what the peer should have, not of
what the source has: a project or an autonomous agent's Application looks different there, and comparing the
two would send everything again every time.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from argocd import names
from argocd.agents.checksums import ResourceKey, inventory_checksum, spec_checksum
from argocd.agents.identity import has_source
from argocd.agents.namespaces import as_told_to_peer
from argocd.agents.routing import AgentMapping
from argocd.agents.vocabulary import RESYNC_MESSAGES, TRACKED_AS, Message, Mode, Target
from argocd.reading import mapping, text

Object = Mapping[str, Any]


class Side(StrEnum):
    PRINCIPAL = "principal"
    AGENT = "agent"


class ResyncError(ValueError):
    """The question cannot be answered; it is acknowledged all the same."""


@dataclass(frozen=True, slots=True)
class UpdateRequest:
    """A peer's question about one object; without a checksum it has none."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    checksum: bytes | None = None


_APPLICATION = TRACKED_AS[Target.APPLICATION]
_HASHED_AS = {TRACKED_AS[Target.REPOSITORY]: "Secret", TRACKED_AS[Target.GPG_KEYS]: "ConfigMap"}
_TO_SOURCE = frozenset({Message.REQUEST_SYNCED_RESOURCE_LIST, Message.REQUEST_UPDATE})
_TO_PEER = frozenset(RESYNC_MESSAGES.values()) - _TO_SOURCE


def accepts(side: Side, message: Message, *, mode: Mode) -> bool:
    """Whether this side is the one to ask: the source is the principal of a managed agent, else the agent."""
    is_source = (side is Side.PRINCIPAL) == (mode is Mode.MANAGED)
    return message in (_TO_SOURCE if is_source else _TO_PEER)


def resources_to_tell(tracked: Collection[ResourceKey], *, checksum: bytes | None) -> list[ResourceKey]:
    """The source's answer to a list request: everything, unless both have the same."""
    if not tracked or (checksum or None) == inventory_checksum(tracked):
        return []
    return sorted(tracked)


def request_about(
    resource: ResourceKey,
    local: Object | None,
    *,
    peer_namespace: str = "",
    ignore_unmanaged: bool = False,
) -> UpdateRequest | None:
    """The peer's answer to one resource that its source has: a question about it, with what is here.

    None: it is somebody else's here, and that is fine. Raises ResyncError where it is not fine,
    PeerUnknownError where the source's namespace must be known and is not.
    """
    if local is None:
        return UpdateRequest(resource.kind, resource.name, resource.namespace)
    if not has_source(local):
        if ignore_unmanaged:
            return None
        raise ResyncError(f"{resource.kind} {resource.name}: source uid not found")
    return request_for(resource.kind, local, peer_namespace=peer_namespace)


def request_for(kind: str, local: Object, *, peer_namespace: str = "") -> UpdateRequest:
    """The question about an object that is here and tracked."""
    if kind == _APPLICATION:
        namespace = as_told_to_peer(local, peer_namespace=peer_namespace)
    else:
        namespace = text(local, "metadata", "namespace")
    return UpdateRequest(
        kind=kind,
        name=text(local, "metadata", "name"),
        namespace=namespace,
        uid=text(_annotations(local), names.SOURCE_UID),
        checksum=spec_checksum(_with_kind(kind, local)),
    )


def answer_to(request: UpdateRequest, expected: Object | None) -> Message | None:
    """The source's answer to a question about one object.

    `expected` is what the peer should have: None where it should have nothing, because the object is
    gone here or no longer meant for it.
    """
    if expected is None:
        return Message.DELETE
    if request.checksum and request.checksum == spec_checksum(_with_kind(request.kind, expected)):
        return None
    return Message.SPEC_UPDATE


def what_is_gone(request: UpdateRequest) -> dict[str, Any]:
    """The object of a delete message about something of which only the request is known."""
    metadata = {"name": request.name, "namespace": request.namespace, "uid": request.uid}
    return {"metadata": {key: part for key, part in metadata.items() if part}}


def namespace_to_look_in(
    kind: str,
    reported: str,
    *,
    side: Side,
    own_namespace: str,
    agent: str,
    mode: Mode,
    mapped_by: AgentMapping,
    peer_namespace: str = "",
) -> str:
    """Where this side keeps an object that the other side reports in its own `reported` namespace."""
    if kind != _APPLICATION:
        return own_namespace
    if mapped_by is AgentMapping.NAMESPACE or mode is Mode.AUTONOMOUS:
        return agent if side is Side.PRINCIPAL else own_namespace
    return own_namespace if reported == peer_namespace or not reported else reported


def _annotations(item: Object) -> Object:
    return mapping(item, "metadata", "annotations")


def _with_kind(kind: str, item: Object) -> Object:
    """What a typed client leaves out of an object decides what of it is hashed."""
    return {**item, "kind": _HASHED_AS.get(kind, kind)} if kind in TRACKED_AS.values() else item
