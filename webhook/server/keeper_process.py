"""The keeper's process: gunicorn serves the pages, and the keeper's own work and the probes run in a thread beside."""

import asyncio
import os
import threading

from flask import Flask

from tiphys import logs
from tiphys.http_server import HttpPages
from tiphys.running import first_of
from webhook.admission.cluster_state import ClusterState
from webhook.keeper.keeper import Keeper
from webhook.keeper.pages import create_pages, probe_pages
from webhook.server.arbiters import PAGES_GRACE_SECONDS, KeeperArbiter
from webhook.server.options import WebhookOptions

log = logs.get_logger()


def run_keeper(options: WebhookOptions) -> None:
    host = f"[{options.pages_host}]" if ":" in options.pages_host else options.pages_host
    bind = f"{host}:{options.pages_port}"
    KeeperArbiter(lambda: _KeeperThread(options), bind=bind).run()


class _KeeperThread:
    def __init__(self, options: WebhookOptions) -> None:
        self._options = options
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
        self._thread.join(PAGES_GRACE_SECONDS)

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
        options = self._options
        store = await options.connect()
        try:
            keeper = Keeper(store, options.keeper)
            cluster_state = ClusterState(store, options.keeper.scope, told=keeper.events.troubled)
            probes = HttpPages(probe_pages(keeper), host=options.probes_host, port=options.probes_port)
            self._pages = create_pages(keeper, cluster_state, options.registration)
            self._begun.set()
            async with asyncio.TaskGroup() as group:
                group.create_task(keeper.run())
                group.create_task(probes.run())
                group.create_task(cluster_state.run_configuration())
        finally:
            await store.close()
