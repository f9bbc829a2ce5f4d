"""The tokens in cluster Secrets of agents that registered themselves: with them Argo CD asks the resource proxy.

They end after a week. A new one is written when half of that is over, and where the old one is not ours: of another key.
The Secrets of a standby have none, since a token is good at its own principal alone; whoever is promoted writes them at once.
"""

import asyncio
import json
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from argocd import names
from argocd.reading import mapping, text
from kube import queries
from kube.errors import ApiError, without_values
from kube.resources import SECRETS
from kube.secrets import decoded_data
from kube.store import Object, Store
from sidecars.principal.proxies.known_tokens import token_of
from sidecars.principal.state import HubState
from sidecars.process.serving_gate import ServingGate
from sidecars.wire.auth.tokens import PROXY_SECONDS, TokenError, Tokens
from tiphys import logs

LOOK_SECONDS = 3600.0

log = logs.get_logger()


class ClusterTokens:
    """`authorities` are those of the resource proxy's certificate. `run` until cancelled."""

    def __init__(
        self,
        store: Store,
        hub_state: HubState,
        *,
        tokens: Tokens,
        authorities: Callable[[], bytes],
        gate: ServingGate,
    ) -> None:
        self._store = store
        self._hub_state = hub_state
        self._tokens = tokens
        self._authorities = authorities
        self._gate = gate

    async def config(self, agent: str) -> str:
        """As Argo CD reads it from a cluster Secret; with the client certificate that all share, where there is one."""
        tls: dict[str, Any] = {"insecure": False, "caData": b64encode(self._authorities()).decode()}
        shared = self._hub_state.settings.shared_client_secret
        if shared:
            namespace = self._hub_state.settings.namespace
            data = decoded_data(await queries.find(self._store, SECRETS, name=shared, namespace=namespace))
            for key, field in (("tls.crt", "certData"), ("tls.key", "keyData"), ("ca.crt", "caData")):
                if data.get(key):
                    tls[field] = b64encode(data[key]).decode()
        return json.dumps({"bearerToken": self._tokens.issue_for_proxy(agent), "tlsClientConfig": tls})

    async def run(self) -> None:
        while True:
            self._gate.changed.clear()
            if self._gate.is_open:
                await self.renew()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._gate.changed.wait()

    async def renew(self) -> None:
        for secret in list(self._hub_state.clusters.values()):
            agent = text(secret, "metadata", "labels", names.AGENT_NAME)
            if not agent or not _is_ours(secret) or not self._is_due(secret, agent):
                continue
            name = text(secret, "metadata", "name")
            try:
                content = b64encode((await self.config(agent)).encode()).decode()
                changed = {**secret, "data": {**mapping(secret, "data"), "config": content}}
                await self._store.replace(SECRETS, changed)
            except ApiError as error:
                log.warning(
                    "a cluster's token cannot be renewed: the principal needs update of its Secret",
                    **{logs.SECRET_NAME: name, logs.ERROR: without_values(error, whole=False)},
                )
            else:
                log.info("a cluster's token renewed", **{logs.AGENT: agent})

    def _is_due(self, secret: Object, agent: str) -> bool:
        try:
            named, left = self._tokens.verify_for_proxy(token_of(secret))
        except TokenError:
            return True
        return named != agent or left < PROXY_SECONDS / 2


def _is_ours(secret: Object) -> bool:
    """Of self-registration, or a copy whose token stayed with the principal that issued it."""
    if text(secret, "metadata", "labels", names.SELF_REGISTERED_CLUSTER) == "true":
        return True
    if not text(secret, "metadata", "annotations", names.SOURCE_UID):
        return False
    config = _config(secret)
    return "certData" not in mapping(config, "tlsClientConfig")


def _config(secret: Object) -> dict[str, Any]:
    try:
        found = json.loads(decoded_data(secret).get("config", b"{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
