"""A stand-in for the API server's endpoints of one pod, whose log is long, or goes on while it is followed."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

LOG_MEBIBYTES = 100
LOG = "/api/v1/namespaces/shop/pods/web/log"
LINE = b"2026-01-01T10:00:00.000000001Z " + b"x" * 968 + b"\n"


class PodsApi:
    def __init__(self) -> None:
        self.following = 0

    async def pod(self, _: web.Request) -> web.StreamResponse:
        annotations = {"argocd.argoproj.io/tracking-id": "shop:/Pod:shop/web"}
        metadata = {"name": "web", "namespace": "shop", "uid": "1", "annotations": annotations}
        return web.json_response({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})

    async def log(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        if request.query.get("follow") == "true":
            self.following += 1
            try:
                while True:
                    await response.write(LINE)
                    await asyncio.sleep(1.0)
            finally:
                self.following -= 1
        for _ in range(LOG_MEBIBYTES):
            await response.write(LINE * 1024)
        return response


@asynccontextmanager
async def pods_api(*, port: int) -> AsyncIterator[PodsApi]:
    api, application = PodsApi(), web.Application()
    application.router.add_get(LOG.removesuffix("/log"), api.pod)
    application.router.add_get(LOG, api.log)
    runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield api
    finally:
        await runner.cleanup()


def write_kubeconfig(folder: str | Path, *, port: int) -> str:
    """Of somebody who asks there."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "x", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
    }
    kubeconfig = Path(folder, "pods.kubeconfig")
    kubeconfig.write_text(json.dumps(config))
    return str(kubeconfig)
