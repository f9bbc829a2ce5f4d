"""argocd-server's API as its own UI calls it."""

import http.client
import json
from typing import Any
from urllib.parse import urlencode

import yaml

from scripts.cluster.argocd.installation import ArgoCd
from tests.cluster.installation import AGENT

SECONDS = 60.0


class Rest:
    """As the administrator, or as whoever has the token."""

    def __init__(self, hub: ArgoCd, *, token: str = "") -> None:
        self._hub = hub
        self._token = token or yaml.safe_load(hub.client_config.read_text())["users"][0]["auth-token"]

    def __call__(self, method: str, path: str, body: Any = None, **query: str) -> tuple[int, Any]:
        """About the agent's Application `web`: `path` begins where its address ends."""
        return self.ask(method, f"/applications/web{path}", body, appNamespace=AGENT, **query)

    def ask(self, method: str, path: str, body: Any = None, **query: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(self._hub.server, timeout=SECONDS)
        try:
            connection.request(
                method,
                f"/api/v1{path}?{urlencode(query)}",
                body=None if body is None else json.dumps(body),
                headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
            )
            response = connection.getresponse()
            text = response.read()
            return response.status, json.loads(text) if text else None
        finally:
            connection.close()

    def told(self, method: str, path: str, body: Any = None, **query: str) -> Any:
        """The answer to what must not fail."""
        code, answer = self.ask(method, path, body, **query)
        assert code == http.client.OK, (method, path, answer)
        return answer
