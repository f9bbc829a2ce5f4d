"""The Redis proxy beside a principal: who may come in, and whose what he asks for is."""

import asyncio

from cryptography import x509
from cryptography.x509.oid import NameOID

from sidecars.principal.proxies.placing import ApplicationPlacing
from sidecars.principal.state import HubState
from sidecars.process.serving_gate import ServingGate
from sidecars.proxies.redis.caches import AgentRedisCaches
from sidecars.proxies.redis.listener import RedisProxy, RedisProxyOptions
from sidecars.proxies.requests import Requests
from sidecars.wire.auth.methods import IdentityError
from sidecars.wire.auth.trust import Trust


class PrincipalRedis:
    """`run` until cancelled."""

    def __init__(
        self,
        options: RedisProxyOptions,
        hub_state: HubState,
        *,
        gate: ServingGate,
        trust: Trust | None,
        requests: Requests,
    ) -> None:
        self._trust = trust
        # A standby has no agents to ask: all that is asked of it is its own Redis'.
        self._placing = ApplicationPlacing(hub_state, has_agents=lambda: gate.is_open)
        self._caches = AgentRedisCaches(requests, self._placing)
        self.proxy = RedisProxy(options, self._caches, certified=self._complaint)
        self.came = self._caches.came
        self.recheck = self.proxy.recheck

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._caches.run(), name="Redis subscriptions")
            group.create_task(self.proxy.run(), name="Redis listener")

    def _complaint(self, certificate: x509.Certificate) -> str:
        """Why a certificate does not open this port, which shows all agents to whoever comes in."""
        if self._trust is None:
            return "client certificates are not verified here"
        try:
            self._trust.check([certificate])
        except IdentityError as error:
            return str(error)
        shown = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return (
            "it is an agent's own" if any(self._placing.is_agent(str(each.value)) for each in shown) else ""
        )
