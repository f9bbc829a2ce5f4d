"""What a principal is told about its place in the world."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import re2

from argocd import names
from argocd.agents.routing import AgentMapping

COMPARE_SECONDS = 600.0
"""Now and then, whatever happened: what no event told is found by this."""

QUEUE_BYTES = 128 << 20
"""Of all agents together: an eighth of the memory that the manifests grant. More is found by comparing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrincipalSettings:
    namespace: str = names.DEFAULT_NAMESPACE
    allowed_namespaces: tuple[str, ...] = ()
    mapped_by: AgentMapping = AgentMapping.NAMESPACE
    create_namespaces: bool = False
    namespace_pattern: str = ""
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    label_selector: str = ""
    register_agents: bool = False
    """Agents that show a good certificate need no cluster Secret made by hand."""
    shared_client_secret: str = ""
    """The Secret with the client certificate that their Argo CD shows to the resource proxy, beside its token."""
    resource_proxy_address: str = "argocd-agent-resource-proxy:9090"
    trust_agent_mode: bool = False
    """As argocd-agent: an agent is what its login says."""
    compare_seconds: float = COMPARE_SECONDS
    app_info_limit: int = 0
    """Applications with an `argocd_app_info`; 0: none."""

    def may_create(self, namespace: str) -> bool:
        return self.create_namespaces and (
            not self.namespace_pattern or re2.fullmatch(self.namespace_pattern, namespace) is not None
        )
