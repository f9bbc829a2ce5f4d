"""Which agents may come in, and as what: those whose cluster the control plane's Argo CD knows, in their mode."""

import asyncio
from collections.abc import Awaitable, Callable

from argocd import names
from argocd.agents.modes import other_mode_refused, with_mode
from argocd.agents.vocabulary import Mode
from kube.errors import AlreadyExistsError, NotFoundError
from kube.resources import CONFIG_MAPS, SECRETS
from kube.store import Object, PatchKind, Store
from sidecars.principal.state import HubState
from sidecars.process.serving_gate import ServingGate
from sidecars.wire.auth.authenticator import Admission
from sidecars.wire.refusals import unauthenticated

SEEN_SECONDS = 10.0
"""Until our own write is back by the watch; milliseconds unless the API server is in trouble."""

LONGEST_VERSION = 40
"""Of an agent's own word; as a tag and a commit."""


class RegistrationGate:
    """`sidecars.wire.auth.authenticator.Gate`: each answer is a reason to refuse, or None."""

    def __init__(
        self,
        store: Store,
        hub_state: HubState,
        *,
        serving: ServingGate,
        reserved: frozenset[str] = frozenset(),
        config: Callable[[str], Awaitable[str]] | None = None,
    ) -> None:
        """`reserved` are names of principals: who has such a certificate is no agent. `config` tells how Argo CD
        reaches an agent's cluster; None where it does not.
        """
        self._config = config
        self._reserved = reserved
        self._store = store
        self._hub_state = hub_state
        self._serving = serving
        self._first_login = asyncio.Lock()

    async def admit(self, admission: Admission) -> str | None:
        if not self._serving.is_open:
            return f"not able to tell: {self._serving.state}"
        objection = self._unknown(admission.agent)
        may_register = self._hub_state.settings.register_agents and admission.agent not in self._reserved
        if objection is not None and may_register:
            objection = await self._register(admission.agent, admission.mode)
        if objection is not None:
            return objection
        if not self._hub_state.settings.trust_agent_mode:
            await self._hold_to_its_mode(admission)
        self._hub_state.homes[admission.agent] = admission.agent_namespace
        self._hub_state.versions[admission.agent] = admission.version[:LONGEST_VERSION]
        return None

    def knows(self, agent: str, mode: Mode) -> str | None:
        if not self._serving.is_open:
            return None  # not able to tell; no stream begins either
        return self._unknown(agent) or self._in_another_mode(agent, mode)

    def _in_another_mode(self, agent: str, told: Mode) -> str | None:
        mode = self._hub_state.mode_of(agent)
        return None if mode in {None, told} else other_mode_refused(agent, mode=mode or told, told=told)

    async def _hold_to_its_mode(self, admission: Admission) -> None:
        """The first one is kept. Whoever comes in another reads what an operator can do about it."""
        agent, told = admission.agent, admission.mode
        if self._hub_state.mode_of(agent) is None:  # nobody else waits for an API server
            async with self._first_login:
                if self._hub_state.mode_of(agent) is None:
                    await self._keep_mode(agent, told)
        if (objection := self._in_another_mode(agent, told)) is not None:
            raise unauthenticated(objection, reason=objection, label="other mode")

    async def _keep_mode(self, agent: str, mode: Mode) -> None:
        namespace = self._hub_state.settings.namespace
        data: Object = {"data": {agent: mode.value}}

        async def add() -> Object:
            return await self._store.patch(
                CONFIG_MAPS, data, name=names.AGENT_MODES, namespace=namespace, kind=PatchKind.MERGE
            )

        try:
            stored = await add()
        except NotFoundError:
            body = {"metadata": {"name": names.AGENT_MODES}, **data}
            try:
                stored = await self._store.create(CONFIG_MAPS, body, namespace=namespace)
            except AlreadyExistsError:
                stored = await add()
        async with asyncio.timeout(SEEN_SECONDS):
            await self._hub_state.modes.reached(stored["metadata"]["resourceVersion"])

    def _unknown(self, agent: str) -> str | None:
        if agent == self._hub_state.settings.namespace:
            return "the agent is named like the principal's namespace"
        if agent in self._reserved:
            return "the agent is named like a principal of the pair"
        if not self._hub_state.clusters.find("agent", agent):
            return f"no cluster Secret has the label {names.AGENT_NAME}={agent}"
        return None

    def refusal(self, call: str) -> str | None:
        return self._serving.refusal(call)

    async def _register(self, agent: str, mode: Mode) -> str | None:
        config = "{}" if self._config is None else await self._config(agent)
        address = self._hub_state.settings.resource_proxy_address
        body = with_mode(_cluster(agent, address=address, config=config), mode)
        try:
            stored = await self._store.create(SECRETS, body, namespace=self._hub_state.settings.namespace)
        except AlreadyExistsError:
            return (
                f"a Secret {names.AGENT_CLUSTER_SECRET_PREFIX}{agent} exists and is no cluster of that agent"
            )
        async with asyncio.timeout(SEEN_SECONDS):
            await self._hub_state.clusters.reached(stored["metadata"]["resourceVersion"])
        return None


def _cluster(agent: str, *, address: str, config: str) -> Object:
    """The same Secret that argocd-agent's principal makes."""
    return {
        "metadata": {
            "name": f"{names.AGENT_CLUSTER_SECRET_PREFIX}{agent}",
            "labels": {
                names.SECRET_TYPE: names.SECRET_TYPE_CLUSTER,
                names.AGENT_NAME: agent,
                names.SELF_REGISTERED_CLUSTER: "true",
            },
            "annotations": {names.MANAGED_BY: "argocd-agent", names.SKIP_RECONCILE: "true"},
        },
        "stringData": {"name": agent, "server": f"https://{address}?agentName={agent}", "config": config},
    }
