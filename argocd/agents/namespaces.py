"""In which namespace an Application lives on the other end."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from argocd import names
from argocd.agents.routing import AgentMapping
from argocd.agents.vocabulary import Mode
from argocd.reading import text


class PeerUnknownError(ValueError):
    """An Application was moved between namespaces, and where it came from is not known yet."""


@dataclass(frozen=True, slots=True)
class Placement:
    """`remapped`: it came from the principal's own namespace, which the agent calls otherwise."""

    namespace: str
    remapped: bool = False


def at_agent(
    namespace: str,
    *,
    agent_namespace: str,
    principal_namespace: str,
    mapped_by: AgentMapping,
    mode: Mode = Mode.MANAGED,
) -> Placement:
    """Where an agent keeps an Application that its principal has in `namespace`."""
    if mapped_by is AgentMapping.NAMESPACE or mode is Mode.AUTONOMOUS or not namespace:
        return Placement(agent_namespace)
    if namespace == principal_namespace != agent_namespace:
        return Placement(agent_namespace, remapped=True)
    return Placement(namespace)


def at_principal(
    application: Mapping[str, Any],
    *,
    agent: str,
    principal_namespace: str,
    mapped_by: AgentMapping,
) -> str:
    """Where the principal keeps an Application that an agent speaks of."""
    if mapped_by is AgentMapping.NAMESPACE:
        return agent
    if is_remapped(application):
        return principal_namespace
    return text(application, "metadata", "namespace")


def as_told_to_peer(application: Mapping[str, Any], *, peer_namespace: str) -> str:
    """The namespace by which a managed agent asks its principal about one of its copies."""
    if not is_remapped(application):
        return text(application, "metadata", "namespace")
    if not peer_namespace:
        raise PeerUnknownError("peer namespace is not set")
    return peer_namespace


def is_remapped(application: Mapping[str, Any]) -> bool:
    return text(application, "metadata", "annotations", names.NAMESPACE_REMAPPED) == "true"
