"""Under which keys Argo CD's controllers keep what they know of an Application, and whose a key is.

    app|resources-tree|<instance>[|<shard>]|<version>[.gz]
    app|managed-resources|<instance>|<version>[.gz]

An instance is `<application>` in Argo CD's own namespace and `<namespace>_<application>` elsewhere. The channel
that tells of changes has the form of the latter, without `.gz`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from argocd.agents.routing import AgentMapping
from tiphys.errors import ObjectError

TREE = "resources-tree"
MANAGED_RESOURCES = "managed-resources"
# Two names of 253 characters, a shard and a version fit twice.
MAX_KEY_BYTES = 1024

_GIT = ("git-refs|", "gitdirs|", "gitfiles|")
_KINDS = frozenset({TREE, MANAGED_RESOURCES})
_PREFIXES = tuple(f"app|{kind}|" for kind in sorted(_KINDS))


class KeyRefusedError(ObjectError):
    """The key is none of an Application."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationKey:
    kind: str
    instance: str
    shard: str = ""
    version: str

    @property
    def namespace(self) -> str:
        """Empty for Argo CD's own."""
        before, underscore, _ = self.instance.partition("_")
        return before if underscore else ""

    @property
    def application(self) -> str:
        before, underscore, after = self.instance.partition("_")
        return after if underscore else before

    @property
    def is_compressed(self) -> bool:
        return self.version.endswith(".gz")

    def __str__(self) -> str:
        return "|".join(filter(None, ("app", self.kind, self.instance, self.shard, self.version)))


def parse(key: bytes | str) -> ApplicationKey | None:
    """None for a key of anything else; raises KeyRefusedError where it only begins like one."""
    text = key[:MAX_KEY_BYTES].decode("ascii", "replace") if isinstance(key, bytes) else key[:MAX_KEY_BYTES]
    if not text.startswith(_PREFIXES):
        return None
    match text.split("|") if text.isascii() and len(key) <= MAX_KEY_BYTES else ():
        case ["app", kind, instance, version] if kind in _KINDS and instance and version:
            return ApplicationKey(kind=kind, instance=instance, version=version)
        case ["app", kind, instance, shard, version] if kind == TREE and instance and shard.isdecimal():
            return ApplicationKey(kind=kind, instance=instance, shard=shard, version=version)
    raise KeyRefusedError(f"{text[:200]!r} is no key of an Application's tree or managed resources")


def at_agent(key: str, *, mapped_by: AgentMapping) -> str:
    """The key in the agent's own Redis for one that its principal names; raises KeyRefusedError.

    Mapped by namespace, what the principal has in the agent's namespace the agent has in Argo CD's own.
    """
    if key.startswith(_GIT):
        return key
    parsed = parse(key)
    if parsed is None:
        raise KeyRefusedError("only trees and managed resources of Applications are shown")
    if mapped_by is AgentMapping.DESTINATION:
        return key
    if not parsed.namespace:
        raise KeyRefusedError(f"{key!r} does not say in which namespace the Application is")
    return str(replace(parsed, instance=parsed.application))


AgentOf = Callable[[str, str], str]
"""Of the namespace and name of an Application on the control plane; empty where it is no agent's."""


def agent_of(
    parsed: ApplicationKey, *, own_namespace: str, mapped_by: AgentMapping, agent_of_application: AgentOf
) -> str:
    """Who has what the key stands for; empty for the control plane itself."""
    if mapped_by is AgentMapping.NAMESPACE:
        return parsed.namespace
    return agent_of_application(parsed.namespace or own_namespace, parsed.application)
