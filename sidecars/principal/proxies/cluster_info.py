"""Argo CD's page of clusters: whether an agent is connected, its version and lag, and what its own Argo CD counted, where
argocd-server looks for them.
"""

import asyncio
import gzip
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

import orjson
from redis.asyncio import Redis
from redis.exceptions import RedisError

from argocd import names
from argocd.reading import text
from kube.secrets import decoded_data
from kube.store import Object
from sidecars.principal.principal import Principal
from sidecars.principal.state import HubState
from sidecars.proxies.redis.agent_answers import connected_client
from sidecars.proxies.redis.agent_subscriptions import raise_if_cancelled
from sidecars.proxies.redis.backend import RedisBackend
from sidecars.wire.proxy_payloads import ClusterCacheInfo
from tiphys import logs

# Lag is told so often; who comes and goes, at once.
TELL_SECONDS = 60.0
# As Argo CD's controller keeps it.
KEPT_SECONDS = 600
CACHE_VERSION = "1.8.3"

log = logs.get_logger()


class ClusterInfo:
    """`run` until cancelled; `changed` is called with the name of an agent that came, went or told something new."""

    def __init__(
        self,
        backend: RedisBackend,
        hub_state: HubState,
        *,
        principal: Callable[[], Principal | None],
        now: Callable[[], datetime],
        compressed: bool = True,
    ) -> None:
        self._backend = backend
        self._hub_state = hub_state
        self._principal = principal
        self._now = now
        self._compressed = compressed
        self._news = asyncio.Event()
        self._changed: set[str] = set()
        self._complained = False

    def changed(self, agent: str) -> None:
        self._changed.add(agent)
        self._news.set()

    async def run(self) -> None:
        client = connected_client(self._backend)
        try:
            while True:
                await self._tell(client, list(self._hub_state.clusters.values()))
                await self._tell_news(client, until=asyncio.get_running_loop().time() + TELL_SECONDS)
        finally:
            await client.aclose()

    async def _tell_news(self, client: Redis, *, until: float) -> None:
        while True:
            raise_if_cancelled()
            try:
                async with asyncio.timeout_at(until):
                    await self._news.wait()
            except TimeoutError:
                return
            self._news.clear()
            agents, self._changed = self._changed, set()
            secrets = [secret for each in agents for secret in self._hub_state.clusters.find("agent", each)]
            await self._tell(client, secrets)

    async def _tell(self, client: Redis, secrets: Iterable[Object]) -> None:
        """In one go: a principal with a thousand agents says it in some milliseconds."""
        principal = self._principal()
        if principal is None:
            return
        pipeline = client.pipeline(transaction=False)
        for secret in secrets:
            agent = text(secret, "metadata", "labels", names.AGENT_NAME)
            server = decoded_data(secret).get("server", b"").decode(errors="replace")
            if agent and server:
                content = orjson.dumps(self.info(principal, agent))
                key = f"cluster|info|{server}|{CACHE_VERSION}"
                if self._compressed:
                    key, content = f"{key}.gz", gzip.compress(content, compresslevel=1)
                pipeline.set(key, content, ex=KEPT_SECONDS)
        try:
            await pipeline.execute()
        except (RedisError, OSError, TimeoutError) as error:
            if not self._complained:
                self._complained = True
                log.warning("the control plane's Redis takes no cluster info", **{logs.ERROR: str(error)})
        else:
            self._complained = False

    def info(self, principal: Principal, agent: str) -> dict[str, Any]:
        """As Argo CD's controller writes it of clusters that it manages itself."""
        known = principal.known_agents.get(agent)
        connected = known is not None and known.link.connected
        message = f"agent {agent} is not connected"
        counted = ClusterCacheInfo() if known is None else known.cluster
        if known is not None and connected:
            figures = known.link.outbox.figures()
            lag = figures.oldest_seconds if figures.waiting + figures.under_way else 0.0
            version = self._hub_state.versions.get(agent) or "unknown"
            message = f"{known.mode.value} agent {agent}, version {version}, lag {lag:.1f} s"
        return {
            "connectionState": {
                "status": "Successful" if connected else "Failed",
                "message": message,
                "attemptedAt": self._now().strftime("%Y-%m-%dT%H:%M:%SZ"),
            },
            "serverVersion": counted.server_version,
            "cacheInfo": {"resourcesCount": counted.resources_count, "apisCount": counted.apis_count},
            "applicationsCount": len(self._hub_state.applications.find("agent", agent)),
        }
