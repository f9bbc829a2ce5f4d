"""What an agent is told about its place in the world."""

from dataclasses import dataclass
from enum import StrEnum

from argocd import names
from argocd.agents.identity import Adoption, Mismatch
from argocd.agents.routing import AgentMapping, namespace_is_allowed
from argocd.agents.vocabulary import Mode

COMPARE_SECONDS = 600.0


class OnRecreate(StrEnum):
    """What an Application that somebody deleted here gets when it is made again."""

    IGNORE = "ignore"
    CLEAR_STATUS = "clear-status"
    RESYNC = "resync"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    mode: Mode = Mode.AUTONOMOUS
    namespace: str = names.DEFAULT_NAMESPACE
    mapped_by: AgentMapping = AgentMapping.NAMESPACE
    allowed_namespaces: tuple[str, ...] = ()
    create_namespaces: bool = False
    ignore_unmanaged: bool = False
    mismatch: Mismatch = Mismatch.RECREATE
    adoption: Adoption = Adoption.ALWAYS
    on_recreate: OnRecreate = OnRecreate.IGNORE
    label_selector: str = ""
    status_seconds: float = 0.0
    """At most one status of an Application within this time; 0: as they come, the newest replacing those that wait."""
    heartbeat_seconds: float = 0.0
    cache_refresh_seconds: float = 10.0
    """Between two times that the principal is told what Argo CD counted of this cluster."""
    compare_seconds: float = COMPARE_SECONDS
    resource_proxy: bool = True
    """Whether the principal may ask for live objects of our Applications; and of which namespaces, all where empty."""
    resource_proxy_namespaces: tuple[str, ...] = ()
    logs: bool = True
    """Whether the principal may read logs of our Applications' pods, in the same namespaces; and open terminals."""
    terminals: bool = False
    terminal_seconds: float = 1800.0
    terminal_idle_seconds: float = 600.0

    def allows(self, namespace: str) -> bool:
        if namespace == self.namespace:
            return True
        return self.mapped_by is AgentMapping.DESTINATION and namespace_is_allowed(
            namespace, list(self.allowed_namespaces)
        )
