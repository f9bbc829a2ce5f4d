"""Plain blocking calls to an API server for setting scenes; what is tested goes through `kube/` or kubectl."""

import http.client
import json
import ssl
import threading
from typing import Any

APPLY = "application/apply-patch+yaml"
MERGE_PATCH = "application/merge-patch+json"
JSON = "application/json"
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
REQUEST_SECONDS = 30.0  # a 1.4 MB definition takes one or two on a busy machine


class RefusedError(Exception):
    """The API server answered with an error; `code` is its HTTP status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class Api:
    """One kept connection, one call at a time."""

    def __init__(
        self, *, port: int, tls: ssl.SSLContext | None = None, seconds: float = REQUEST_SECONDS
    ) -> None:
        self._port = port
        self._seconds = seconds
        self._tls = tls
        self._lock = threading.Lock()
        self._connection: http.client.HTTPConnection | None = None
        self.warnings: list[str] = []
        """What the last answer warned of."""

    def request(
        self, method: str, path: str, body: object = None, *, content_type: str = JSON, accept: str = JSON
    ) -> Any:
        """The decoded answer. Raises `RefusedError`, or `OSError` where nobody answers."""
        content = None if body is None else json.dumps(body)
        headers = {"Accept": accept} | ({"Content-Type": content_type} if content is not None else {})
        with self._lock:
            kept = self._connection is not None
            try:
                code, answer = self._send(method, path, content, headers)
            except (OSError, http.client.HTTPException):
                self._drop()
                if not kept:
                    raise
                # The server may have closed the kept connection, or been restarted, since the last call.
                code, answer = self._send(method, path, content, headers)
        if code >= http.client.BAD_REQUEST:
            raise RefusedError(code, _message(answer))
        return _decoded(answer)

    def close(self) -> None:
        with self._lock:
            self._drop()

    def _send(
        self, method: str, path: str, content: str | None, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        if self._connection is None:
            if self._tls:
                self._connection = http.client.HTTPSConnection(
                    "127.0.0.1", self._port, timeout=self._seconds, context=self._tls
                )
            else:
                self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=self._seconds)
        self._connection.request(method, path, body=content, headers=headers)
        response = self._connection.getresponse()
        self.warnings = response.headers.get_all("Warning", [])
        return response.status, response.read()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def discovered(api: Api, *, group: str) -> set[str]:
    """The plurals that kubectl finds; it remembers for hours what it did not."""
    groups = api.request("GET", "/apis", accept=DISCOVERY)["items"]
    return {
        resource["resource"]
        for each in groups
        if each["metadata"]["name"] == group
        for version in each["versions"]
        for resource in version.get("resources", [])
    }


def _decoded(answer: bytes) -> Any:
    try:
        return json.loads(answer)
    except ValueError:
        return answer.decode(errors="replace")  # health checks answer in plain text


def _message(answer: bytes) -> str:
    decoded = _decoded(answer)
    return str(decoded.get("message", decoded)) if isinstance(decoded, dict) else str(decoded)
