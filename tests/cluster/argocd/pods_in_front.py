"""A stand-in for pods in front of a real API server: logs and commands are played, everything else is passed on.

No kubelet runs where the tests do.
"""

import asyncio
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
from aiohttp import web

from scripts.cluster.controlplane import Cluster

LINES = b"".join(b"2026-01-01T10:00:0%d.000000000Z line %d\n" % (number, number) for number in range(5))
MISSING = {"status": "Failure", "message": 'exec: "bash": executable file not found in $PATH', "metadata": {}}
SESSION = web.AppKey("session", aiohttp.ClientSession)
_HOP = {"connection", "transfer-encoding", "content-encoding", "content-length", "host", "upgrade"}


class PodsInFront:
    """`sh` gives back what is typed; there is no `bash`."""

    def __init__(self, cluster: Cluster, *, token: str) -> None:
        self._url = cluster.url
        self._token = token  # Go's client sends none without TLS
        self._tls = ssl.create_default_context(cadata=cluster.authority.decode())
        self.commands: list[str] = []
        self.sizes: list[bytes] = []

    async def serve(self, request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/log"):
            if (container := request.query.get("container", "web")) != "web":
                refused = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 400}
                refused["message"] = f"container {container} is not valid for pod web-1"
                return web.json_response(refused, status=400)
            text = LINES if request.query.get("timestamps") == "true" else b"no time\n"
            return web.Response(body=text, content_type="text/plain")
        if request.path.endswith("/exec"):
            return await self._exec(request)
        return await self._passed(request)

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
        await socket.prepare(request)
        command = request.query["command"]
        self.commands.append(command)
        if command != "sh":
            await socket.send_bytes(b"\x03" + json.dumps(MISSING).encode())
            await socket.close()
            return socket
        async for message in socket:
            if message.data[0] == 4:
                self.sizes.append(message.data[1:])
            elif message.data[0] == 0:
                await socket.send_bytes(b"\x01" + message.data[1:])
        return socket

    async def _passed(self, request: web.Request) -> web.StreamResponse:
        headers = {name: text for name, text in request.headers.items() if name.lower() not in _HOP}
        headers["Authorization"] = f"Bearer {self._token}"
        session = request.app[SESSION]
        async with session.request(
            request.method,
            f"{self._url}{request.raw_path}",
            headers=headers,
            data=await request.read() or None,
            ssl=self._tls,
        ) as answer:
            kept = {name: text for name, text in answer.headers.items() if name.lower() not in _HOP}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            async for part in answer.content.iter_any():
                await response.write(part)
            await response.write_eof()
            return response

    async def application(self) -> web.Application:
        made = web.Application(client_max_size=8 << 20)
        made[SESSION] = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None))
        made.router.add_route("*", "/{path:.*}", self.serve)
        return made


@contextmanager
def pods_in_front(cluster: Cluster, *, account: str, namespace: str) -> Iterator[tuple[PodsInFront, Path]]:
    """And a kubeconfig with which the account asks there."""
    token = cluster.account_token(account, namespace=namespace)
    front = PodsInFront(cluster, token=token)
    loop = asyncio.new_event_loop()
    ports: list[int] = []
    started = threading.Event()

    async def start() -> web.AppRunner:
        runner = web.AppRunner(await front.application(), handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        ports.append(runner.addresses[0][1])
        started.set()
        return runner

    def run() -> None:
        asyncio.set_event_loop(loop)
        runner = loop.run_until_complete(start())
        loop.run_forever()
        loop.run_until_complete(runner.app[SESSION].close())
        loop.run_until_complete(runner.cleanup())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert started.wait(30)
    kubeconfig = cluster.folder / "pods-in-front.kubeconfig"
    named = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": f"http://127.0.0.1:{ports[0]}"}}],
        "users": [{"name": "x", "user": {"token": token}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
    }
    kubeconfig.write_text(json.dumps(named))
    try:
        yield front, kubeconfig
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
