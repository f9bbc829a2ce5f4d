"""What the webhook's processes run: the review workers, and the keeper with its pages."""

import asyncio
import gc
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flask import Flask
from gunicorn.app.base import BaseApplication

from argocd.engine.judge import Judgement
from argocd.judging.case import Case
from kube.live import LiveStore
from tiphys import logs
from tiphys.running import first_of
from webhook.admission.access_reviews import AccessReviews
from webhook.admission.cluster_state import ClusterState
from webhook.admission.decisions import Decisions, Snapshot
from webhook.keeper.keeper import Keeper, KeeperOptions
from webhook.keeper.pages import create_pages
from webhook.keeper.worker_reports import WorkerReporter
from webhook.registration.table import Registration
from webhook.server.asgi import Endpoint, ReviewApp
from webhook.server.gunicorn_settings import ReviewArbiter, ReviewPort
from webhook.server.metrics import CACHE_SILENCE, CONFIGURATION_BROKEN, WorkerMetrics

REPORT_SECONDS = 5.0
"""How often a worker tells the state of its caches; readiness takes it for a sign of life."""

PAGE_THREADS = 4
LAST_SECONDS = 5.0

log = logs.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookOptions:
    """Everything that the processes are told; it is pickled on its way to them."""

    keeping: KeeperOptions
    listening: ReviewPort
    registration: Registration
    pages_host: str = "0.0.0.0"  # noqa: S104 - the kubelet's probes come from outside the pod
    pages_port: int = 8080
    kubeconfig: Path | None = None
    context: str | None = None
    log_level: str = "info"
    log_format: str = "auto"

    async def connect(self) -> LiveStore:
        return await LiveStore.connect(kubeconfig=self.kubeconfig, context=self.context)


def run_workers(serving: WebhookOptions) -> None:
    _enter(serving)
    ReviewArbiter(lambda: _application(serving), serving.listening).run()


def run_keeper(serving: WebhookOptions) -> None:
    _enter(serving)
    _KeeperArbiter(serving).run()


def _enter(serving: WebhookOptions) -> None:
    logs.configure(level=serving.log_level, form=serving.log_format)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # All modules are there. Looking through them for garbage at the end would take each process longer than all else
    # that it does then, and unshare their memory after the fork.
    gc.freeze()


def _end_with_parent() -> None:
    """A parent that was killed cannot tell us to stop."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)


class WorkerBackground:
    """A worker's caches, and its reports to the keeper."""

    def __init__(self, serving: WebhookOptions, reporter: WorkerReporter) -> None:
        self._serving = serving
        self._reporter = reporter
        self.cluster_state: ClusterState | None = None
        self.access: AccessReviews | None = None
        self._reporting: asyncio.Task[None] | None = None

    async def start(self) -> None:
        store = await self._serving.connect()
        self.access = AccessReviews(store)
        self.cluster_state = ClusterState(store, self._serving.keeping.scope, told=self._told)
        await self.cluster_state.start()
        self._reporting = asyncio.create_task(self._report(), name="reports to the keeper")

    def known(self) -> Snapshot:
        assert self.cluster_state is not None, "started before the first review"
        return self.cluster_state()

    def check_writer(self, case: Case) -> Awaitable[list[Judgement]] | None:
        assert self.access is not None, "started before the first review"
        return self.access.check(case)

    async def failed(self) -> None:
        assert self.cluster_state is not None
        assert self._reporting is not None
        caches = asyncio.create_task(self.cluster_state.failed())
        try:
            done, _ = await asyncio.wait({caches, self._reporting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            caches.cancel()
        for task in done:
            task.result()

    async def stop(self) -> None:
        if self._reporting is not None:
            self._reporting.cancel()
        if self.cluster_state is not None:
            await self.cluster_state.stop()
        self._reporter.close()

    def _told(self, what: str, trouble: str) -> None:
        self._reporter.trouble(what, trouble)
        if what == "configuration":
            CONFIGURATION_BROKEN.set(bool(trouble))
        if trouble:
            log.error("trouble", **{logs.NAME: what, logs.REASON: trouble})

    async def _report(self) -> None:
        assert self.cluster_state is not None
        while True:
            health = self.cluster_state.health
            self._reporter.caches(health)
            for name, cache in health.items():
                CACHE_SILENCE.labels(name).set(cache.silence)
            for what, trouble in self.cluster_state.troubles.items():
                self._reporter.trouble(what, trouble)
            await asyncio.sleep(REPORT_SECONDS)


def _application(serving: WebhookOptions) -> ReviewApp:
    reporter = WorkerReporter(serving.keeping.folder)
    counting = WorkerMetrics(reporter)
    background = WorkerBackground(serving, reporter)
    decisions = Decisions(
        background.known,
        listener=counting,
        today=lambda: datetime.now(UTC).date(),
        check_writer=background.check_writer,
    )
    return ReviewApp(
        endpoints={
            "/validate": Endpoint(decisions.validate, patches=False),
            "/mutate": Endpoint(decisions.mutate, patches=True),
            "/inject": Endpoint(decisions.inject, patches=True),
        },
        folder=serving.keeping.leaf_folder,
        background=background,
        observer=counting,
        drain_seconds=serving.listening.drain_seconds,
    )


class _KeeperArbiter(BaseApplication):  # type: ignore[misc]
    """gunicorn's threaded worker with the pages; the keeper's own work runs in a thread beside them."""

    def __init__(self, serving: WebhookOptions) -> None:
        self._serving = serving
        self._thread: _KeeperThread | None = None
        super().__init__()

    def load_config(self) -> None:
        settings: dict[str, Any] = {
            "bind": f"{self._serving.pages_host}:{self._serving.pages_port}",
            "workers": 1,
            "worker_class": "gthread",
            "threads": PAGE_THREADS,
            "keepalive": 5,
            "timeout": 30,
            "graceful_timeout": int(LAST_SECONDS),
            "accesslog": None,
            "errorlog": "-",
            "loglevel": "warning",
            "control_socket_disable": True,
            "worker_exit": lambda _server, _worker: self._thread.stop() if self._thread else None,
        }
        for name, value in settings.items():
            self.cfg.set(name, value)

    def load(self) -> Flask:
        """In the worker, after the fork."""
        self._thread = _KeeperThread(self._serving)
        return self._thread.start()


class _KeeperThread:
    def __init__(self, serving: WebhookOptions) -> None:
        self._serving = serving
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[None] | None = None
        self._pages: Flask | None = None
        self._failure: BaseException | None = None
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)

    def start(self) -> Flask:
        self._thread.start()
        self._begun.wait()
        if self._pages is None:
            raise SystemExit(str(self._failure))
        return self._pages

    def stop(self) -> None:
        """Gives the Lease back; the process ends right after."""
        if self._task is not None and self._loop.is_running():
            self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(LAST_SECONDS)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._task = self._loop.create_task(self._keep())
        try:
            self._loop.run_until_complete(self._task)
        except asyncio.CancelledError:
            return
        except BaseException as error:  # noqa: BLE001 - whatever it was, the process must not go on without it
            if isinstance(error, BaseExceptionGroup):
                error = first_of(error)
            self._failure = error
            log.error("the keeper failed", **{logs.ERROR: error})  # noqa: TRY400 - one line, no traceback
            self._begun.set()
            os._exit(3)  # gunicorn's code for "do not start me again"; the parent ends everything

    async def _keep(self) -> None:
        serving = self._serving
        store = await serving.connect()
        try:
            keeper = Keeper(store, serving.keeping)
            cluster_state = ClusterState(store, serving.keeping.scope, told=keeper.announcer.troubled)
            self._pages = create_pages(keeper, cluster_state, serving.registration)
            self._begun.set()
            async with asyncio.TaskGroup() as group:
                group.create_task(keeper.run())
                group.create_task(cluster_state.run_configuration())
        finally:
            await store.close()
