"""An agent as a process: elected by a Lease, connected to its principal as well as it can be."""

import asyncio
import time
from dataclasses import dataclass, replace

from argocd.agents.vocabulary import Target
from certs import sources
from certs.sources import LoadedSource
from kube.store import Store
from sidecars.agent.agent import Agent
from sidecars.agent.cluster_cache_info import ClusterCacheInfoTeller
from sidecars.agent.epochs import EpochMemory
from sidecars.agent.live_objects import LiveObjects
from sidecars.agent.settings import AgentSettings
from sidecars.metrics import argocd_agent
from sidecars.metrics.per_peer import agent_figures
from sidecars.mirroring.link import Link
from sidecars.process.leadership import Leadership, ReplicaOptions
from sidecars.proxies.pods.agent_calls import AgentCalls
from sidecars.proxies.redis.agent_answers import DisabledRedis, RedisAnswers, connected_client
from sidecars.proxies.redis.backend import RedisBackend
from sidecars.wire.client.dialer import AgentConnection, DialOptions
from sidecars.wire.client.reconnect import ConnectionStatus, Reconnector
from sidecars.wire.streams import StreamLostError
from tiphys.errors import SurroundingsError
from tiphys.http_server import HttpPage

_REFUSALS = ("UNAUTHENTICATED", "PERMISSION_DENIED")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions(ReplicaOptions):
    settings: AgentSettings
    dialing: DialOptions
    """Without its certificates where there is a `source`."""
    source: LoadedSource | None
    redis: RedisBackend | None = None
    """None: the principal learns nothing of trees and managed resources."""
    health_port: int | None = 8001
    metrics_port: int | None = 8181


class AgentProcess:
    """`run` until cancelled."""

    def __init__(self, store: Store, serving: AgentOptions) -> None:
        self._store = store
        self._serving = serving
        self._agent: Agent | None = None
        self.link = ConnectionStatus()
        self.connected = asyncio.Event()
        self._leadership = Leadership(
            store,
            serving,
            role="agent",
            namespace=serving.settings.namespace,
            probes={"/healthz": self._healthy, "/readyz": self._healthy},
            figures=lambda: agent_figures(self._links(), mode=serving.settings.mode.value),
        )
        self.health, self.metrics = self._leadership.health, self._leadership.metrics

    async def run(self) -> None:
        await self._leadership.run(self._work)

    async def _work(self) -> None:
        serving = self._serving
        agent = self._agent = Agent(self._store, settings=serving.settings, runtime=serving.runtime)
        api = getattr(self._store, "raw", None)  # an embedded store has none
        calls = AgentCalls()
        live_objects = LiveObjects(self._store, api, agent=agent, calls=calls)
        epochs = EpochMemory(self._store, namespace=serving.settings.namespace)
        dialing = replace(serving.dialing, admit=epochs.admit)
        if serving.source is not None:
            dialing = replace(dialing, material=await sources.first(serving.source, certificate="agent"))
        reconnecting = Reconnector(dialing, changed=self._noted)

        async def serve(connection: AgentConnection) -> None:
            try:
                with calls.using(connection):
                    await agent.serve(
                        connection,
                        name=connection.me.agent,
                        principal_namespace=connection.principal.namespace,
                        extensions=connection.extensions,
                    )
            except SurroundingsError as error:
                # Whatever became of this stream, the next one may do better.
                raise StreamLostError(str(error), code="UNAVAILABLE") from error

        async with asyncio.TaskGroup() as group:
            group.create_task(agent.run(), name="agent")
            group.create_task(live_objects.run(), name="live objects")
            if serving.source is not None and dialing.material is not None:
                following = sources.follow(
                    serving.source, reconnecting.swap_material, held=dialing.material, certificate="agent"
                )
                group.create_task(following, name="certificates")
            await agent.ready.wait()
            if serving.redis is None:
                agent.dispatcher.serve(Target.REDIS, DisabledRedis())
            else:
                client = connected_client(serving.redis)
                answers = RedisAnswers(
                    client,
                    agent.dispatcher,
                    mapped_by=serving.settings.mapped_by,
                    knows_application=agent.agent_state.has_application,
                    clock=agent.timing.monotonic,
                    max_message_bytes=dialing.max_message_bytes,
                )
                group.create_task(answers.run(), name="Redis")
                group.create_task(ClusterCacheInfoTeller(client, agent).run(), name="cluster cache info")
            group.create_task(reconnecting.run(serve), name="connection")

    def _links(self) -> list[tuple[str, Link]]:
        return [] if self._agent is None else [(self._agent.agent_state.name, self._agent.link)]

    def _noted(self, link: ConnectionStatus) -> None:
        if link.connected and not self.link.connected:
            argocd_agent.CONNECTIONS.inc()
            argocd_agent.CONNECTED_SINCE.set(time.time())
        if any(word in link.error for word in _REFUSALS):
            argocd_agent.AUTH_FAILURES.inc()
        argocd_agent.CONNECTION_STATUS.set(1 if link.connected else 0)
        self.link = link
        if link.connected:
            self.connected.set()
        else:
            self.connected.clear()

    def _healthy(self) -> HttpPage:
        if self.link.connected:
            return HttpPage(b"connected\n")
        if waits := self._leadership.waits:  # restarting it would not help
            return HttpPage(f"{waits}\n".encode())
        words = self.link.error or "not connected yet"
        return HttpPage(f"not connected: {words}\n".encode(), status=503)
