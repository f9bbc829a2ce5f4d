"""How two ends call the same object when they compare: without what differs between them."""

from dataclasses import dataclass

from argocd.agents.routing import AgentMapping
from argocd.agents.vocabulary import Mode
from sidecars.mirroring.kinds import APPLICATION, BY_TARGET, SyncedKind
from sidecars.wire.errors import MalformedError


@dataclass(frozen=True, slots=True)
class Naming:
    """`namespace` is that at the principal; it counts for Applications only, where one agent's may have several."""

    mode: Mode
    mapped_by: AgentMapping

    @property
    def _with_namespace(self) -> bool:
        return self.mapped_by is AgentMapping.DESTINATION and self.mode is Mode.MANAGED

    def key(self, kind: SyncedKind, name: str, *, namespace: str = "") -> str:
        if kind is APPLICATION and self._with_namespace:
            return f"{kind.target}/{namespace}/{name}"
        return f"{kind.target}/{name}"

    def parsed(self, key: str) -> tuple[SyncedKind, str, str]:
        """Kind, name, and namespace or nothing."""
        target, _, rest = key.partition("/")
        kind = BY_TARGET.get(target)
        namespace, _, name = rest.rpartition("/")
        if kind is None or not name:
            raise MalformedError(f"{key[:80]!r} names nothing that is compared")
        return kind, name, namespace
