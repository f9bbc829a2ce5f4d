"""What the proxies and an agent's counters say in argocd-agent's protocol. `payloads` reads and writes these structs.

Fields that argocd-agent does not know stand last: its ends ignore them, and send none.
"""

from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCacheInfo:
    OMITTED: ClassVar = ("server_version",)

    applications_count: int = 0
    apis_count: int = 0
    resources_count: int = 0
    server_version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRequest:
    OMITTED: ClassVar = (
        "namespace",
        "subresource",
        "method",
        "body",
        "params",
        "path",
        "accept",
        "content_type",
        "impersonate_user",
    )

    uuid: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    method: str = ""
    body: bytes | None = field(default=None, repr=False)
    params: dict[str, str] | None = None
    group: str = ""
    version: str = ""
    resource: str = ""
    path: str = ""
    accept: str = ""
    content_type: str = ""
    impersonate_user: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceResponse:
    OMITTED: ClassVar = ("resource", "content_type", "body")

    uuid: str = ""
    status: int = 0
    resource: str = field(default="", repr=False)
    content_type: str = ""
    body: bytes | None = field(default=None, repr=False)
    """What is no JSON text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerLogRequest:
    OMITTED: ClassVar = (
        "container",
        "follow",
        "tail_lines",
        "since_seconds",
        "since_time",
        "timestamps",
        "previous",
        "insecure_skip_tls_verify_backend",
        "limit_bytes",
        "impersonate_user",
    )

    uuid: str = ""
    namespace: str = ""
    pod_name: str = ""
    container: str = ""
    follow: bool = False
    tail_lines: int | None = None
    since_seconds: int | None = None
    since_time: str = ""
    timestamps: bool = False
    previous: bool = False
    insecure_skip_tls_verify_backend: bool = False
    limit_bytes: int | None = None
    impersonate_user: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerTerminalRequest:
    OMITTED: ClassVar = ("command", "impersonate_user")

    uuid: str = ""
    namespace: str = ""
    pod_name: str = ""
    container_name: str = ""
    command: list[str] | None = None
    tty: bool = False
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    impersonate_user: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisKey:
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisChannel:
    channel: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisNothing:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisRequestBody:
    """`unsubscribe` is ours: argocd-agent's agents forget a subscription that nobody pings for."""

    OMITTED: ClassVar = (
        "get",
        "subscribe",
        "ping",
        "unsubscribe",
    )

    get: RedisKey | None = None
    subscribe: RedisChannel | None = None
    ping: RedisNothing | None = None
    unsubscribe: RedisNothing | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisRequest:
    uuid: str = ""
    connection_uuid: str = ""
    body: RedisRequestBody = RedisRequestBody()


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisValue:
    value: bytes | None = field(default=None, repr=False)
    cache_hit: bool = False
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisSubscribed:
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisPush:
    channel_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisResponseBody:
    OMITTED: ClassVar = (
        "get",
        "subscribe_response",
        "push_from_subscribe",
        "pong",
    )

    get: RedisValue | None = None
    subscribe_response: RedisSubscribed | None = None
    push_from_subscribe: RedisPush | None = None
    pong: RedisNothing | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisResponse:
    uuid: str = ""
    connection_uuid: str = ""
    body: RedisResponseBody = RedisResponseBody()
