"""What this cluster's Argo CD counted of it, told to the principal: its page of clusters shows it at the control plane."""

import asyncio
import zlib

import orjson
from redis.asyncio import Redis
from redis.exceptions import RedisError

from argocd.agents.vocabulary import Message, Mode, Target
from argocd.applications.destinations import IN_CLUSTER
from argocd.reading import mapping, text, value
from kube.store import Object
from sidecars.agent.agent import Agent
from sidecars.proxies.redis.agent_subscriptions import raise_if_cancelled
from sidecars.wire import payloads
from sidecars.wire.events import AGENT_SOURCE, message_event
from sidecars.wire.proxy_payloads import ClusterCacheInfo
from tiphys import logs
from tiphys.errors import TiphysError

CACHE_VERSION = "1.8.3"
# With the API versions of a cluster that has many operators it has some kilobytes.
MAX_BYTES = 1 << 20
_REDIS_SECONDS = 10.0

log = logs.get_logger()


class ClusterCacheInfoTeller:
    """`run` until cancelled. Go principals know it of managed agents alone."""

    def __init__(self, client: Redis, agent: Agent) -> None:
        self._client = client
        self._agent = agent

    async def run(self) -> None:
        while True:
            raise_if_cancelled()
            link = self._agent.link
            if link.connected and (link.compares or self._agent.settings.mode is Mode.MANAGED):
                await self._tell()
            await asyncio.sleep(self._agent.settings.cache_refresh_seconds)

    async def _tell(self) -> None:
        try:
            async with asyncio.timeout(_REDIS_SECONDS):
                found = await self._read()
        except (RedisError, OSError, TimeoutError, TiphysError) as error:
            log.debug("Redis does not say what is in this cluster", **{logs.ERROR: str(error)})
            return
        if found is not None:
            event = message_event(
                Message.CLUSTER_CACHE_INFO_UPDATE,
                target=Target.CLUSTER_CACHE_INFO_UPDATE,
                payload=payloads.write(found),
                source=AGENT_SOURCE,
            )
            self._agent.link.send(event)

    async def _read(self) -> ClusterCacheInfo | None:
        key = f"cluster|info|{IN_CLUSTER.server}|{CACHE_VERSION}"
        for name in (f"{key}.gz", key):
            stored = await self._client.get(name)
            info = _decoded(stored, compressed=name.endswith(".gz")) if isinstance(stored, bytes) else None
            if info is not None:
                return ClusterCacheInfo(
                    applications_count=_count(info, "applicationsCount"),
                    apis_count=_count(mapping(info, "cacheInfo"), "apisCount"),
                    resources_count=_count(mapping(info, "cacheInfo"), "resourcesCount"),
                    server_version=text(info, "serverVersion")[:64],
                )
        return None


def _decoded(stored: bytes, *, compressed: bool) -> Object | None:
    try:
        if compressed:
            stored = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(stored, MAX_BYTES)
        found = orjson.loads(stored)
    except (zlib.error, orjson.JSONDecodeError):
        return None
    return found if isinstance(found, dict) else None


def _count(source: object, key: str) -> int:
    found = value(source, key)
    return found if isinstance(found, int) and found >= 0 else 0
