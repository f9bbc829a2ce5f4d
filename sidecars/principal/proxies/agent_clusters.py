"""What the control plane's Argo CD is told of agents' clusters: how it reaches them, and how they are doing."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from kube.store import Store
from sidecars.principal.principal import Principal
from sidecars.principal.proxies.cluster_info import ClusterInfo
from sidecars.principal.proxies.cluster_tokens import ClusterTokens
from sidecars.principal.proxies.known_tokens import KnownTokens
from sidecars.principal.proxies.resource_port import ResourcePort
from sidecars.principal.state import HubState
from sidecars.process.serving_gate import ServingGate
from sidecars.proxies.redis.listener import RedisProxyOptions
from sidecars.proxies.requests import Requests
from sidecars.wire.auth.tokens import Tokens


class AgentClusters:
    """`run` until cancelled. Without a resource proxy there is nothing to reach, without a Redis nobody to tell."""

    def __init__(
        self,
        store: Store,
        hub_state: HubState,
        *,
        tokens: Tokens,
        gate: ServingGate,
        requests: Requests,
        principal: Callable[[], Principal | None],
        resources: ResourcePort | None,
        roots: bytes,
        redis: RedisProxyOptions | None,
    ) -> None:
        self.config: Callable[[str], Awaitable[str]] | None = None
        self._tokens: ClusterTokens | None = None
        self._info: ClusterInfo | None = None
        if resources is not None:
            self._tokens = ClusterTokens(
                store,
                hub_state,
                tokens=tokens,
                authorities=lambda: resources.authorities or roots,
                gate=gate,
            )
            self.config = self._tokens.config
            resources.callers.token_counts = KnownTokens(hub_state, clock=time.monotonic).counts
        if redis is not None:
            self._info = ClusterInfo(
                redis.backend, hub_state, principal=principal, now=_now, compressed=redis.compressed
            )
            requests.arrivals.append(self._info.changed)
            requests.changed = self._info.changed

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            if self._tokens is not None:
                group.create_task(self._tokens.run(), name="clusters' tokens")
            if self._info is not None:
                group.create_task(self._info.run(), name="clusters' info")


def _now() -> datetime:
    return datetime.now(UTC)
