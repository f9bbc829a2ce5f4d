"""A stand-in for the API server's endpoints of pods: no kubelet runs where the tests do."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from kube.embedded import EmbeddedStore
from kube.live import LiveStore
from kube.live.raw import RawApi
from tests.sidecars.proxies import spdy

NAMESPACE = "shop"
POD = "web-1"
CONTAINER = "web"


@dataclass
class Container:
    """Its log, as a kubelet has it: lines with times; more may come while it runs."""

    lines: list[tuple[str, bytes]] = field(default_factory=list)
    running: bool = False
    refusal: tuple[int, str] | None = None
    breaks_after: int = 0
    """Bytes after which the connection is cut, once."""
    sent: int = 0
    asked: list[dict[str, str]] = field(default_factory=list)
    more: asyncio.Event = field(default_factory=asyncio.Event)

    def write(self, timestamp: str, text: bytes) -> None:
        self.lines.append((timestamp, text))
        self._wake()

    def end(self) -> None:
        self.running = False
        self._wake()

    def _wake(self) -> None:
        self.more.set()
        self.more = asyncio.Event()


Exec = Callable[[web.Request, Any], Awaitable[None]]
"""With a WebSocket, or what is read and written like one."""
_LISTS = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
    "/api/v1": {
        "kind": "APIResourceList",
        "groupVersion": "v1",
        "resources": [
            {"name": "pods", "singularName": "pod", "namespaced": True, "kind": "Pod", "verbs": ["get"]}
        ],
    },
}


class PodsApi:
    """`container` is the only one of the pod; `execute` plays the process in a terminal."""

    def __init__(self) -> None:
        self.container = Container()
        self.owner = "shop"
        self.marks: dict[str, dict[str, str]] = {}
        """Labels and annotations of the pod beside its tracking id."""
        self.execute: Exec | None = None
        self.protocols: tuple[str, ...] = ("v5.channel.k8s.io", "v4.channel.k8s.io", spdy.PROTOCOL)
        self.users: list[str] = []
        self.port = 0

    def application(self) -> web.Application:
        made = web.Application()
        pod = f"/api/v1/namespaces/{NAMESPACE}/pods/{{pod}}"
        made.router.add_get(pod, self._pod)
        made.router.add_get(f"{pod}/log", self._log)
        made.router.add_get(f"{pod}/exec", self._exec)
        made.router.add_post(f"{pod}/exec", self._exec)
        for path in _LISTS:
            made.router.add_get(path, self._list)
        return made

    async def _list(self, request: web.Request) -> web.StreamResponse:
        return web.json_response(_LISTS[request.path])

    async def _pod(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["pod"]
        if name != POD:
            return refusal(404, f'pods "{name}" not found')
        annotations = {"argocd.argoproj.io/tracking-id": f"{self.owner}:/Pod:{NAMESPACE}/{name}"}
        annotations |= self.marks.get("annotations", {})
        labels = self.marks.get("labels", {})
        metadata = {
            "name": name,
            "namespace": NAMESPACE,
            "uid": "1",
            "labels": labels,
            "annotations": annotations,
        }
        spec = {"containers": [{"name": CONTAINER, "image": "example.org/web:1"}]}
        return web.json_response({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    async def _log(self, request: web.Request) -> web.StreamResponse:
        query = dict(request.query)
        container = self.container
        container.asked.append(query)
        self.users.append(request.headers.get("Impersonate-User", ""))
        if (refused := self._refusal(request, container)) is not None:
            return refused
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        at = self._first(container, query)
        while True:
            while at < len(container.lines):
                timestamp, text = container.lines[at]
                at += 1
                line = (f"{timestamp} ".encode() if query.get("timestamps") == "true" else b"") + text + b"\n"
                container.sent += len(line)
                if 0 < container.breaks_after <= container.sent:
                    container.breaks_after = 0
                    assert request.transport is not None
                    request.transport.abort()
                    return response
                await response.write(line)
            if query.get("follow") != "true" or not container.running:
                break
            await container.more.wait()
        await response.write_eof()
        return response

    def _refusal(self, request: web.Request, container: Container) -> web.Response | None:
        """In a real API server's words."""
        pod, name = request.match_info["pod"], request.query.get("container", CONTAINER)
        if name != CONTAINER:
            return refusal(400, f"container {name} is not valid for pod {pod}")
        if request.query.get("previous") == "true":
            return refusal(400, f'previous terminated container "{name}" in pod "{pod}" not found')
        return None if container.refusal is None else refusal(*container.refusal)

    def _first(self, container: Container, query: dict[str, str]) -> int:
        first = 0
        if since := query.get("sinceTime"):
            first = next(
                (at for at, (time, _) in enumerate(container.lines) if time[:19] >= since[:19]),
                len(container.lines),
            )
        if tail := query.get("tailLines"):
            first = max(first, len(container.lines) - int(tail))
        return first

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        self.users.append(request.headers.get("Impersonate-User", ""))
        if self.execute is None:
            return refusal(403, "pods/exec is forbidden")
        if (name := request.query.get("container", CONTAINER)) != CONTAINER:
            return refusal(400, f"container {name} is not valid for pod {request.match_info['pod']}")
        upgrade = request.headers.get("Upgrade", "")
        if upgrade == spdy.PROTOCOL in self.protocols:
            named = [request.query.get(name) == "true" for name in ("stdin", "stdout", "stderr", "tty")]
            opened = spdy.SpdyExec(streams=1 + sum(named))
            response = await opened.prepare(request)
            await self.execute(request, opened)
            return response
        channels = [each for each in self.protocols if each != spdy.PROTOCOL]
        if upgrade.lower() != "websocket" or not channels:
            return refusal(400, "Upgrade request required")
        socket = web.WebSocketResponse(protocols=channels)
        await socket.prepare(request)
        await self.execute(request, socket)
        return socket


def refusal(code: int, message: str) -> web.Response:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}
    return web.json_response(status, status=code)


class StoreWithApi(EmbeddedStore):
    """An agent's cluster: objects in memory, pods at the stand-in."""

    raw: RawApi


@asynccontextmanager
async def pods_api(folder: Path) -> AsyncIterator[tuple[PodsApi, RawApi]]:
    api = PodsApi()
    runner = web.AppRunner(api.application(), handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    api.port = runner.addresses[0][1]
    kubeconfig = folder / "pods-api.kubeconfig"
    kubeconfig.write_text(json.dumps(_kubeconfig(api.port)))
    store = await LiveStore.connect(kubeconfig=kubeconfig)
    try:
        yield api, store.raw
    finally:
        await store.close()
        await runner.cleanup()


def _kubeconfig(port: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "x", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
    }
