"""One pod, two kinds of process: the keeper and the review workers. If one dies the other does not go on.

The parent starts the keeper, waits until it has a certificate, starts the workers, passes on SIGTERM in the
right order (not ready, drain, end), and ends with an error when a child ends by itself.
"""

import asyncio
import contextlib
import gc
import multiprocessing
import multiprocessing.connection
import multiprocessing.process
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

from certs.folder import CERTIFICATE, changes
from tiphys import logs
from tiphys.errors import SurroundingsError
from tiphys.running import Running
from webhook.keeper.keeper import STOPPING
from webhook.keeper.worker_reports import OWN_FOLDER
from webhook.server.composition import run_workers
from webhook.server.keeper_process import run_keeper
from webhook.server.options import WebhookOptions

FIRST_CERTIFICATE_SECONDS = 120.0
KEEPER_GRACE_SECONDS = 10.0

Child = multiprocessing.process.BaseProcess

log = logs.get_logger()


async def serve(running: Running, options: WebhookOptions) -> None:
    """`tiphys webhook`, until it is asked to stop."""
    base = options.keeper.folder
    base.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=OWN_FOLDER, dir=base) as folder:
        placed = replace(options, keeper=replace(options.keeper, folder=Path(folder)))
        keeper = placed.keeper
        (keeper.folder / "metrics").mkdir()
        keeper.leaf_folder.mkdir()
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(keeper.folder / "metrics")  # for the children
        children: list[Child] = []
        try:
            children.append(_start("keeper", run_keeper, placed))
            await _until(running, children, _certificate(keeper.leaf_folder))
            if not running.stopping.is_set():
                children.append(_start("workers", run_workers, placed))
                await _until(running, children, asyncio.Event().wait())
            (keeper.folder / STOPPING).touch()
            await _end(children, placed)
        finally:
            for child in children:
                if child.is_alive():
                    child.kill()
                child.join()


def _start(name: str, target: Callable[[WebhookOptions], None], options: WebhookOptions) -> Child:
    # A fresh interpreter rather than a fork: the parent has an event loop, and gRPC and TLS dislike forks.
    child = multiprocessing.get_context("spawn").Process(target=_run, args=(target, options), name=name)
    child.start()
    return child


def _run(target: Callable[[WebhookOptions], None], options: WebhookOptions) -> None:
    """In the child."""
    logs.configure(level=options.log_level, form=options.log_format)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # All modules are there. Looking through them for garbage at the end would take each process longer than all else
    # that it does then, and unshare their memory after the fork.
    gc.freeze()
    target(options)


def _end_with_parent() -> None:
    """A parent that was killed cannot tell us to stop."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)


async def _until(running: Running, children: list[Child], awaited: Coroutine[Any, Any, Any]) -> None:
    """Until it is done or we are asked to stop; a child that ends meanwhile is an error."""
    loop = asyncio.get_running_loop()
    ended = {child: loop.create_future() for child in children}
    for child, future in ended.items():
        loop.add_reader(child.sentinel, _settle, future)
    wanted = asyncio.create_task(awaited)
    stopping = asyncio.create_task(running.stopping.wait())
    try:
        await asyncio.wait({wanted, stopping, *ended.values()}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for child in children:
            loop.remove_reader(child.sentinel)
        stopping.cancel()
        if not wanted.done():
            wanted.cancel()
    for child, future in ended.items():
        if future.done() and not running.stopping.is_set():
            child.join()
            raise SurroundingsError(
                f"the {child.name} ended with code {child.exitcode}; its last log line says why"
            )
    if wanted.done() and not wanted.cancelled():
        wanted.result()


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


async def _certificate(folder: Path) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(FIRST_CERTIFICATE_SECONDS):
            async for _ in changes(folder):
                if (folder / CERTIFICATE).exists():
                    return
    raise SurroundingsError(
        f"no certificate after {FIRST_CERTIFICATE_SECONDS:g} s; the keeper's log says what it waits for"
    )


async def _end(children: list[Child], options: WebhookOptions) -> None:
    """Workers first, so that reviews are answered to the end; the keeper still shows that we are not ready."""
    patience = options.review_port.drain_seconds + KEEPER_GRACE_SECONDS * 2
    for child, seconds in zip(reversed(children), (patience, KEEPER_GRACE_SECONDS), strict=False):
        child.terminate()
        await asyncio.to_thread(child.join, seconds)
