"""Which agents may come in: those whose cluster the control plane's Argo CD knows."""

from argocd import names
from kube.errors import AlreadyExistsError
from kube.resources import SECRETS
from kube.store import Object, Store
from sidecars.principal.state import HubState
from sidecars.wire.auth.authenticator import Admission


class RegistrationGate:
    """`sidecars.wire.auth.authenticator.Gate`: each answer is a reason to refuse, or None."""

    def __init__(self, store: Store, hub_state: HubState) -> None:
        self._store = store
        self._hub_state = hub_state
        self.standing_by: str | None = "starting"
        """Why nobody is served yet; None once agents are."""

    async def admit(self, admission: Admission) -> str | None:
        objection = self.knows(admission.agent)
        if objection is not None and self._hub_state.settings.register_agents:
            objection = await self._register(admission.agent)
        if objection is None:
            self._hub_state.homes[admission.agent] = admission.agent_namespace
        return objection

    def knows(self, agent: str) -> str | None:
        if self.standing_by is not None:
            return None  # not yet able to tell; no stream begins either
        if agent == self._hub_state.settings.namespace:
            return "the agent is named like the principal's namespace"
        if not self._hub_state.clusters.find("agent", agent):
            return f"no cluster Secret has the label {names.AGENT_NAME}={agent}"
        return None

    def accepts_streams(self) -> str | None:
        return self.standing_by

    async def _register(self, agent: str) -> str | None:
        address = self._hub_state.settings.resource_proxy_address
        try:
            stored = await self._store.create(
                SECRETS, _cluster(agent, address=address), namespace=self._hub_state.settings.namespace
            )
        except AlreadyExistsError:
            return (
                f"a Secret {names.AGENT_CLUSTER_SECRET_PREFIX}{agent} exists and is no cluster of that agent"
            )
        await self._hub_state.clusters.reached(stored["metadata"]["resourceVersion"])
        return None


def _cluster(agent: str, *, address: str) -> Object:
    """The same Secret that argocd-agentctl makes, without a client certificate: there is no proxy to show it to."""
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
        "stringData": {"name": agent, "server": f"https://{address}?agentName={agent}", "config": "{}"},
    }
