"""`tiphys webhook` as a cluster runs it, gunicorn and all, registered with a local API server."""

import asyncio
import contextlib
import sys
import urllib.request
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import yaml

from demo.clusters import CONTROL_PLANE, TIPHYS
from demo.embedded_webhook import PAUSE_SECONDS, DemoWebhook, register_when_ready
from demo.local_clusters import LocalClusters, end_process, start_process
from demo.ports import free_port
from kube.store import Store
from tiphys.errors import SurroundingsError
from webhook.registration.status import status
from webhook.registration.table import Registration

ACCOUNT = f"system:serviceaccount:{TIPHYS}:tiphys-webhook"
PROBE_SECONDS = 2.0
READY_SECONDS = 60.0  # a few on an idle machine; three API servers may just have started on this one


@asynccontextmanager
async def local_webhook(clusters: LocalClusters, *, folder: Path) -> AsyncIterator[DemoWebhook]:
    """Started with its own account and rights; ready when a bad project is refused."""
    store = clusters.stores[CONTROL_PLANE]
    kubeconfig = folder / "webhook.kubeconfig"
    _act_as(ACCOUNT, clusters.servers[CONTROL_PLANE].kubeconfig, kubeconfig)
    reviews, probes, pages = free_port(), free_port(), free_port()
    log = folder / "webhook.log"
    with log.open("wb") as words:
        process = await start_process(
            *(sys.executable, "-m", "cli", "webhook", "--kubeconfig", str(kubeconfig)),
            *("--host", "127.0.0.1", "--port", str(reviews)),
            *("--probes-host", "127.0.0.1", "--probes-port", str(probes), "--pages-port", str(pages)),
            *("--runtime-folder", str(folder), "--drain-seconds", "0"),
            stderr=words.fileno(),
        )
    try:
        page = f"http://127.0.0.1:{pages}/"
        await _ready(process, f"http://127.0.0.1:{probes}/readyz", log=log)
        registration = Registration(url=f"https://localhost:{reviews}")
        await register_when_ready(store, registration)
        await _registration_followed(store, registration)
        yield DemoWebhook(page, _caught_up)
    finally:
        await end_process(process)


async def _caught_up() -> None:
    """What the story needs to be known was there before the webhook was ready."""


def _act_as(user: str, source: Path, target: Path) -> None:
    """A kubeconfig whose bearer is somebody else, as `kubectl --as` does it."""
    config = yaml.safe_load(source.read_text())
    config["users"][0]["user"]["as"] = user
    target.touch(mode=0o600)
    target.write_text(yaml.safe_dump(config))


async def _ready(process: Process, url: str, *, log: Path) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(READY_SECONDS):
            while process.returncode is None:
                if await asyncio.to_thread(_answers, url):
                    return
                await asyncio.sleep(PAUSE_SECONDS)
    raise SurroundingsError(f"the webhook did not become ready: {_last_lines(log)}")


def _last_lines(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-5:]) or "it said nothing"


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=PROBE_SECONDS):  # noqa: S310 - ours, on loopback
            return True
    except OSError:
        return False


async def _registration_followed(store: Store, registration: Registration) -> None:
    """The API server follows a registration a moment after it was stored."""
    async with asyncio.timeout(READY_SECONDS):
        while True:
            if (await status(store, registration, now=datetime.now(UTC))).guarded:
                return
            await asyncio.sleep(PAUSE_SECONDS)
