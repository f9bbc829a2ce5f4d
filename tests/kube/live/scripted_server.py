"""An API server that answers what a test wrote down, one answer for each request."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

from kube.live import LiveStore
from tests.kube.recorder import Impatient

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def status(
    code: int, *, reason: str = "", message: str = "", headers: dict[str, str] | None = None
) -> Answer:
    """A Status object, as an API server refuses."""

    async def answer(_: web.Request) -> web.StreamResponse:
        body = {"kind": "Status", "code": code, "reason": reason, "message": message or f"answered {code}"}
        return web.json_response(body, status=code, headers=headers)

    return answer


def found(body: Any = None, *, headers: list[tuple[str, str]] | None = None) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        response = web.json_response(body if body is not None else {"kind": "ConfigMap", "metadata": {}})
        response.headers.extend(headers or [])
        return response

    return answer


def text(content: str, *, code: int = 200) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(text=content, status=code, content_type="text/html")

    return answer


async def dropped(request: web.Request) -> web.StreamResponse:
    """The request is read, and then the connection breaks."""
    await request.read()
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def streamed(*chunks: bytes, then: str = "end") -> Answer:
    """`then`: end, drop or hang."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if then == "drop":
            assert request.transport is not None
            request.transport.abort()
        elif then == "hang":
            await asyncio.Event().wait()
        return response

    return answer


def event(kind: str, name: str, version: int) -> bytes:
    metadata = {"name": name, "namespace": "default", "resourceVersion": str(version), "uid": name}
    return json.dumps({"type": kind, "object": {"metadata": metadata}}).encode() + b"\n"


@dataclass
class Script:
    answers: list[Answer]
    requests: list[web.Request] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    ports: set[int] = field(default_factory=set)
    url: str = ""
    busy: int = 0
    busiest: int = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        assert request.transport is not None
        self.ports.add(request.transport.get_extra_info("peername")[1])
        raw = await request.read()
        self.bodies.append(json.loads(raw) if raw else None)
        self.busy += 1
        self.busiest = max(self.busiest, self.busy)
        try:
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            return await answer(request)
        finally:
            self.busy -= 1


def write_kubeconfig(path: Path, *, server: str, user: dict[str, Any] | None = None) -> Path:
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "scripted", "cluster": {"server": server}}],
        "contexts": [
            {"name": "here", "context": {"cluster": "scripted", "user": "me", "namespace": "team"}},
            {"name": "nobody", "context": {"cluster": "scripted", "user": "ghost"}},
        ],
        "users": [{"name": "me", "user": user or {"token": "sesame"}}],
    }
    path.write_text(yaml.safe_dump(content))
    return path


@asynccontextmanager
async def serving(*answers: Answer) -> AsyncIterator[Script]:
    """The last answer is repeated for as long as somebody asks."""
    script = Script(list(answers))
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", script.handle)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    script.url = f"http://{host}:{port}"
    try:
        yield script
    finally:
        await runner.cleanup()


@asynccontextmanager
async def connected(
    script: Script, folder: Path, *, user: dict[str, Any] | None = None, **options: Any
) -> AsyncIterator[LiveStore]:
    kubeconfig = write_kubeconfig(folder / "config", server=script.url, user=user)
    store = await LiveStore.connect(kubeconfig=kubeconfig, **{"random": Impatient(), **options})
    try:
        yield store
    finally:
        await store.close()
