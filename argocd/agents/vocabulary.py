"""The words that principal and agents share, from the objects' rules to the bytes on the wire, each once."""

from collections.abc import Mapping
from enum import StrEnum

PREFIX = "io.argoproj.argocd-agent.event."


class Mode(StrEnum):
    """Who decides what an agent's cluster shall look like."""

    MANAGED = "managed"
    AUTONOMOUS = "autonomous"


class Target(StrEnum):
    """What sort of thing a message is about; on the wire it is the data schema."""

    APPLICATION = "application"
    PROJECT = "appproject"
    APPLICATION_SET = "applicationset"
    REPOSITORY = "repository"
    GPG_KEYS = "gpgkey"
    EVENT_PROCESSED = "eventProcessed"
    RESOURCE_RESYNC = "resourceResync"
    RESOURCE = "resource"
    CONTAINER_LOG = "containerlog"
    TERMINAL = "terminal"
    REDIS = "redis"
    CLUSTER_CACHE_INFO_UPDATE = "clusterCacheInfoUpdate"
    HEARTBEAT = "heartbeat"


OBJECT_TARGETS = frozenset(
    {Target.APPLICATION, Target.PROJECT, Target.APPLICATION_SET, Target.REPOSITORY, Target.GPG_KEYS}
)

INTERACTIVE_TARGETS = frozenset({Target.RESOURCE, Target.REDIS, Target.CONTAINER_LOG, Target.TERMINAL})
"""Requests of somebody who waits at the control plane, and their answers."""

TRACKED_AS: Mapping[Target, str] = {
    Target.APPLICATION: "Application",
    Target.PROJECT: "AppProject",
    Target.REPOSITORY: "Repository",
    Target.GPG_KEYS: "GPGKey",
}
"""How the resync messages call what two ends keep in step."""


class Message(StrEnum):
    """What a message says. Requests for live resources carry the bare HTTP verb instead of one of these."""

    CREATE = PREFIX + "create"
    DELETE = PREFIX + "delete"
    SPEC_UPDATE = PREFIX + "spec-update"
    STATUS_UPDATE = PREFIX + "status-update"
    SET_OPERATION = PREFIX + "set-operation"
    TERMINATE_OPERATION = PREFIX + "terminate-operation"
    PROCESSED = PREFIX + "processed"
    REQUEST_SYNCED_RESOURCE_LIST = PREFIX + "request-synced-resource-list"
    """From the peer: this is the checksum of what I track; tell me what you have if yours differs."""
    RESPONSE_SYNCED_RESOURCE = PREFIX + "response-synced-resource"
    """From the source: this I have."""
    REQUEST_UPDATE = PREFIX + "request-update"
    """From the peer: this is the checksum of my copy; send yours if it differs."""
    REQUEST_RESOURCE_RESYNC = PREFIX + "request-resource-resync"
    """From the source: ask me about everything that you track."""
    CLUSTER_CACHE_INFO_UPDATE = PREFIX + "cluster-cache-info-update"
    REDIS_REQUEST = PREFIX + "redis-request"
    REDIS_RESPONSE = PREFIX + "redis-response"
    TERMINAL_REQUEST = PREFIX + "terminal-request"
    RESPONSE = PREFIX + "response"
    GET = PREFIX + "get"
    PING = PREFIX + "ping"
    PONG = PREFIX + "pong"
    ERROR = PREFIX + "error"

    @property
    def word(self) -> str:
        """For people."""
        return self.value.removeprefix(PREFIX)


def _as_spelt(*messages: Message) -> dict[str, Message]:
    """By what stands on the wire: a peer may leave the prefix out."""
    return {spelling: message for message in messages for spelling in (message.value, message.word)}


OBJECT_MESSAGES = _as_spelt(
    Message.CREATE,
    Message.DELETE,
    Message.SPEC_UPDATE,
    Message.STATUS_UPDATE,
    Message.SET_OPERATION,
    Message.TERMINATE_OPERATION,
)
"""What can happen to an object."""

RESYNC_MESSAGES = _as_spelt(
    Message.REQUEST_SYNCED_RESOURCE_LIST,
    Message.RESPONSE_SYNCED_RESOURCE,
    Message.REQUEST_UPDATE,
    Message.REQUEST_RESOURCE_RESYNC,
)
"""How two ends that lost sight of each other compare what they have."""
