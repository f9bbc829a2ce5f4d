"""The sorts of objects that a standby has copies of."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from argocd import names
from argocd.agents.replication import admits_replica
from argocd.agents.routing import AgentMapping
from argocd.reading import mapping
from kube.resources import APP_PROJECTS, APPLICATION_SETS, APPLICATIONS, CONFIG_MAPS, SECRETS
from kube.store import Resource
from tiphys.errors import CallError


@dataclass(frozen=True, slots=True)
class ReplicatedKind:
    """`name` is what operators and both ends call it."""

    name: str
    resource: Resource
    status: bool = False
    """Its status is a subresource and needs a write of its own."""

    def __str__(self) -> str:
        return self.name


PROJECT = ReplicatedKind("appprojects", APP_PROJECTS)
APPLICATION_SET = ReplicatedKind("applicationsets", APPLICATION_SETS, status=True)
REPOSITORY = ReplicatedKind("repositories", SECRETS)
CLUSTER = ReplicatedKind("clusters", SECRETS)
GPG_KEYS = ReplicatedKind("gpg-keys", CONFIG_MAPS)
MODES = ReplicatedKind("agent-modes", CONFIG_MAPS)
BLOCKLIST = ReplicatedKind("blocklist", CONFIG_MAPS)
APPLICATION = ReplicatedKind("applications", APPLICATIONS)

KINDS = (PROJECT, APPLICATION_SET, REPOSITORY, CLUSTER, GPG_KEYS, MODES, BLOCKLIST, APPLICATION)
"""In the order in which a first sync sends them: owners and projects before Applications."""
BY_NAME: Mapping[str, ReplicatedKind] = {kind.name: kind for kind in KINDS}

_SECRET_TYPES: Mapping[ReplicatedKind, frozenset[str]] = {
    REPOSITORY: frozenset({names.SECRET_TYPE_REPOSITORY, names.SECRET_TYPE_REPO_CREDS}),
    CLUSTER: frozenset({names.SECRET_TYPE_CLUSTER}),
}
_ONLY_NAMES: Mapping[ReplicatedKind, str] = {
    GPG_KEYS: names.ARGOCD_GPG_KEYS_CM,
    MODES: names.AGENT_MODES,
    BLOCKLIST: names.TLS_BLOCKLIST,
}


def is_of(kind: ReplicatedKind, item: Mapping[str, Any]) -> bool:
    """Whether an object is one of the kind: not every Secret is replicated, read or deleted."""
    types = _SECRET_TYPES.get(kind)
    if types is None:
        return True
    labels = mapping(item, "metadata", "labels")
    return labels.get(names.SECRET_TYPE) in types and (
        kind is not CLUSTER or bool(labels.get(names.AGENT_NAME))
    )


class ObjectKey(NamedTuple):
    """An object of the replicated ones, on both ends."""

    kind: str
    namespace: str
    name: str

    @property
    def text(self) -> str:
        """As inventories of one kind call it."""
        return f"{self.namespace}/{self.name}"

    @classmethod
    def of(cls, kind: ReplicatedKind, text: str) -> "ObjectKey":
        namespace, _, name = text.partition("/")
        return cls(kind.name, namespace, name)


def kind_called(name: str) -> ReplicatedKind:
    kind = BY_NAME.get(name)
    if kind is None:
        raise CallError(f"{name[:64]!r} is no replicated kind: choose one of {', '.join(BY_NAME)}")
    return kind


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationScope:
    """Which Applications are those of a principal's agents: the same on both ends, or nothing is replicated."""

    namespace: str
    allowed_namespaces: tuple[str, ...] = ()
    mapped_by: AgentMapping = AgentMapping.NAMESPACE

    def problem(self, key: ObjectKey, item: Mapping[str, Any] | None) -> str:
        """Why an object that a primary sends is none that it may send; empty where it may."""
        kind = BY_NAME[key.kind]
        if kind is not APPLICATION and key.namespace != self.namespace:
            return f"{kind} live in namespace {self.namespace}, not in {key.namespace[:64]!r}"
        if key.name != _ONLY_NAMES.get(kind, key.name):
            return f"{kind} are in ConfigMap {_ONLY_NAMES[kind]} only"
        if item is None:
            return ""
        metadata = mapping(item, "metadata")
        if (metadata.get("name"), metadata.get("namespace")) != (key.name, key.namespace):
            return "the object has another name than it was sent under"
        if not is_of(kind, item):
            return f"the Secret has not the labels of {kind}"
        return "" if self.admits(kind, item) else "the Application is none of the principal's agents"

    def home(self, kind: ReplicatedKind, *, agent: str, namespace: str) -> str:
        """Where the principal keeps what an agent has in a namespace of its own."""
        if kind is not APPLICATION:
            return self.namespace
        return agent if self.mapped_by is AgentMapping.NAMESPACE else namespace

    def admits(self, kind: ReplicatedKind, item: Mapping[str, Any]) -> bool:
        return kind is not APPLICATION or admits_replica(
            item,
            namespace=self.namespace,
            allowed_namespaces=list(self.allowed_namespaces),
            mapped_by=self.mapped_by,
        )
