"""The webhook in this process: its own keeper, decisions and pages, on an embedded store instead of an API server."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import web
from werkzeug.serving import WSGIRequestHandler, make_server

from certs.folder import CERTIFICATE, changes
from demo.api_server import CALL_SECONDS, WebhookAdmission
from demo.clusters import EmbeddedClusters
from kube.store import Store
from tiphys.errors import SurroundingsError
from tiphys.http_server import listening
from tiphys.running import Running
from webhook.admission.access_reviews import AccessReviews
from webhook.admission.cluster_state import ClusterState, Scope
from webhook.admission.decisions import Decisions
from webhook.keeper.keeper import Keeper, KeeperOptions
from webhook.keeper.pages import create_pages
from webhook.keeper.worker_reports import WorkerReporter
from webhook.registration.register import register
from webhook.registration.status import bundle_to_register
from webhook.registration.table import Registration
from webhook.server.asgi import ReviewApp
from webhook.server.background import WorkerBackground
from webhook.server.composition import endpoints_of
from webhook.server.metrics import WorkerMetrics

BEGIN_SECONDS = 30.0
PAUSE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class DemoWebhook:
    """`caught_up` returns when the webhook knows what was just written."""

    page: str
    caught_up: Callable[[], Awaitable[None]]


@asynccontextmanager
async def embedded_webhook(
    running: Running, clusters: EmbeddedClusters, *, folder: Path
) -> AsyncIterator[DemoWebhook]:
    """Registered, and asked about every write until the end."""
    store = clusters.control_plane
    listener = socket.create_server(("127.0.0.1", 0))
    port = int(listener.getsockname()[1])
    options = KeeperOptions(
        scope=Scope(), folder=folder, identity="demo", review_port=port, dns_names=("localhost",)
    )
    reporter = WorkerReporter(folder)
    metrics = WorkerMetrics(reporter)
    cluster_state = ClusterState(store, options.scope, told=reporter.trouble)
    decisions = Decisions(cluster_state, access_reviews=AccessReviews(store))
    application = ReviewApp(
        endpoints=endpoints_of(decisions),
        folder=options.leaf_folder,
        background=WorkerBackground(cluster_state, metrics=metrics, reporter=reporter),
        observer=metrics,
        drain_seconds=0,
    )
    options.leaf_folder.mkdir(parents=True)
    keeper = Keeper(store, options)
    running.start(keeper.run(), name="keeper")
    await _certificate(options.leaf_folder)
    context = application.context()
    await application.start()
    running.start(application.failed(), name="webhook")
    registration = Registration(url=f"https://localhost:{port}")

    async def caught_up() -> None:
        async with asyncio.timeout(BEGIN_SECONDS):
            for cache in cluster_state.caches.values():
                store.send_bookmarks()
                await cache.reached(store.resource_version)

    reviews = listening(
        partial(_answered, application), listener=listener, context=context, seconds=CALL_SECONDS
    )
    try:
        async with reviews:
            await register_when_ready(store, registration)
            policies = store.hooks.admission
            assert policies is not None, "a cluster of a pair is fenced"
            store.hooks.admission = WebhookAdmission(store, policies=policies, warned=clusters.warned)
            with _Pages(keeper, cluster_state, registration) as address:
                try:
                    yield DemoWebhook(address, caught_up)
                finally:
                    store.hooks.admission = policies
    finally:
        await application.stop()


async def _answered(application: ReviewApp, request: web.BaseRequest) -> web.Response:
    """What gunicorn's worker does on a cluster: ASGI on one side, HTTP on the other."""
    response = web.Response()

    async def receive() -> dict[str, Any]:
        body = await request.content.readany()
        return {"type": "http.request", "body": body, "more_body": not request.content.at_eof()}

    async def send(message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            response.set_status(message["status"])
            response.headers.extend((key.decode(), value.decode()) for key, value in message["headers"])
        else:
            response.body = message["body"]

    scope = {
        "type": "http",
        "method": request.method,
        "path": request.path,
        "query_string": request.query_string.encode(),
        "headers": [(key.lower(), value) for key, value in request.raw_headers],
    }
    await application(scope, receive, send)
    return response


async def _certificate(folder: Path) -> None:
    async with asyncio.timeout(BEGIN_SECONDS):
        async for _ in changes(folder):
            if (folder / CERTIFICATE).exists():
                return


async def register_when_ready(store: Store, registration: Registration) -> None:
    """As `tiphys webhook register` does, once the keeper has shown its sign of life."""
    async with asyncio.timeout(BEGIN_SECONDS):
        while True:
            try:
                bundle = await bundle_to_register(store, registration, now=datetime.now(UTC))
            except SurroundingsError:
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            await register(store, registration, bundle=bundle)
            return


class _Quiet(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: object) -> None:  # noqa: A002 - werkzeug's signature
        """Callers of the page are nobody's business here."""


class _Pages:
    """The status page on loopback, in a thread; on a cluster gunicorn serves it."""

    def __init__(self, keeper: Keeper, cluster_state: ClusterState, registration: Registration) -> None:
        pages = create_pages(keeper, cluster_state, registration)
        self._server = make_server("127.0.0.1", 0, pages, threaded=True, request_handler=_Quiet)
        self._thread = threading.Thread(target=self._server.serve_forever, name="pages", daemon=True)

    def __enter__(self) -> str:
        self._thread.start()
        return f"http://127.0.0.1:{self._server.server_port}/"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join(BEGIN_SECONDS)
        self._server.server_close()
