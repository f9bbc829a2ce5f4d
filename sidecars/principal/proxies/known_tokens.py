"""Which tokens open the resource proxy: those that stand in a cluster Secret now, so that taking one out revokes it."""

import json
from collections.abc import Callable
from hmac import compare_digest

from argocd import names
from argocd.reading import text
from kube.secrets import decoded_data
from kube.store import Object
from sidecars.principal.state import HubState

OVERLAP_SECONDS = 120.0
"""So long the token counts that a renewed one took the place of: argocd-server follows Secrets, and may lag behind."""
REMEMBERED = 4096


class KnownTokens:
    """By an agent's name. A Secret that is deleted, or loses its token, takes the replaced one along."""

    def __init__(self, hub_state: HubState, *, clock: Callable[[], float]) -> None:
        self._clusters = hub_state.clusters
        self._clock = clock
        self._replaced: dict[str, tuple[float, str]] = {}
        self._clusters.subscribe(self._changed)

    def counts(self, agent: str, token: str) -> bool:
        secrets = self._clusters.find("agent", agent)
        found = [token_of(secret) for secret in secrets]
        until, replaced = self._replaced.get(agent, (0.0, ""))
        if secrets and self._clock() < until:
            found.append(replaced)
        return any(compare_digest(token.encode(), each.encode()) for each in found if each)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        agent = text(old, "metadata", "labels", names.AGENT_NAME)
        former, present = ("" if each is None else token_of(each) for each in (old, new))
        if former == present:
            return
        self._replaced.pop(agent, None)
        if former and present:  # renewed; where there is none now, somebody took it away
            self._replaced[agent] = self._clock() + OVERLAP_SECONDS, former
            if len(self._replaced) > REMEMBERED:
                del self._replaced[next(iter(self._replaced))]


def token_of(secret: Object) -> str:
    """Empty where Argo CD comes with a certificate alone."""
    try:
        found = json.loads(decoded_data(secret).get("config", b"{}"))
    except ValueError:
        return ""
    return text(found, "bearerToken")
