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

NAMESPACE = "shop"
POD = "web-1"


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


Exec = Callable[[web.Request, web.WebSocketResponse], Awaitable[None]]


class PodsApi:
    """`containers` by name; `execute` plays the process in a terminal."""

    def __init__(self) -> None:
        self.containers: dict[str, Container] = {"": Container()}
        self.owner = "shop"
        self.execute: Exec | None = None
        self.protocols: tuple[str, ...] = ("v5.channel.k8s.io", "v4.channel.k8s.io")
        self.users: list[str] = []
        self.port = 0

    @property
    def container(self) -> Container:
        return self.containers[""]

    def application(self) -> web.Application:
        made = web.Application()
        pod = f"/api/v1/namespaces/{NAMESPACE}/pods/{{pod}}"
        made.router.add_get(pod, self._pod)
        made.router.add_get(f"{pod}/log", self._log)
        made.router.add_get(f"{pod}/exec", self._exec)
        return made

    async def _pod(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["pod"]
        if name != POD:
            return refusal(404, f'pods "{name}" not found')
        annotations = {"argocd.argoproj.io/tracking-id": f"{self.owner}:/Pod:{NAMESPACE}/{name}"}
        metadata = {"name": name, "namespace": NAMESPACE, "uid": "1", "annotations": annotations}
        return web.json_response({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})

    async def _log(self, request: web.Request) -> web.StreamResponse:
        query = dict(request.query)
        container = self.containers[query.get("container", "")]
        container.asked.append(query)
        self.users.append(request.headers.get("Impersonate-User", ""))
        if container.refusal is not None:
            return refusal(*container.refusal)
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
        if self.execute is None:
            return refusal(403, "pods/exec is forbidden")
        socket = web.WebSocketResponse(protocols=self.protocols)
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
