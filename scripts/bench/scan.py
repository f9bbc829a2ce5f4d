"""`tiphys scan` of a large Argo CD on a local API server, beside listing the same objects alone."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from argocd.judging.configuration import Configuration
from checks.scan import Scan
from checks.survey import Listing
from kube.live import LiveStore
from kube.resources import (
    APP_PROJECTS,
    APPLICATION_SETS,
    APPLICATIONS,
    CONFIG_MAPS,
    NAMESPACES,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from kube.store import Object
from scripts.bench.figures import Figure, awaited_side_by_side
from scripts.bench.kube import an_application
from scripts.cluster.controlplane import Cluster

NAME = "tiphys scan of 5 000 Applications and 200 projects"
PROJECTS = 200
OBJECTS = 5_000
AT_ONCE = 16
ROUNDS = 5
HOME = "argocd"
WITHIN = 120.0


def project(number: int) -> Object:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": f"team-{number}", "namespace": HOME},
        "spec": {
            "sourceRepos": ["https://git.example.com/*"],
            "destinations": [
                {"server": "https://kubernetes.default.svc", "namespace": f"team-{number}"},
                {"name": "prod-*", "namespace": f"team-{number}"},
            ],
        },
    }


def application(number: int) -> Object:
    """Every tenth one has something that a rule warns of."""
    body = an_application(number, namespace=HOME)
    body["spec"]["source"]["targetRevision"] = f"v1.{number}"
    if number % 10 == 0:
        body["spec"]["syncPolicy"]["syncOptions"] = ["createNamespace=true"]
    return body


async def run() -> list[Figure]:
    with Cluster(name="bench") as cluster:
        store = await LiveStore.connect(kubeconfig=cluster.kubeconfig)
        try:
            await _fill(store)
            scanning, listing = await awaited_side_by_side(
                lambda: _scan(store), lambda: _list(store), rounds=ROUNDS, within=WITHIN
            )
            busy, idle = await _processor(lambda: _scan(store)), await _processor(lambda: _list(store))
        finally:
            await store.close()
        peak = _peak(str(cluster.kubeconfig))
    return [
        Figure("one scan", scanning, "s", than="listing alone", theirs=listing, goal=2.0),
        Figure("the processor's time of it", busy, "s", than="listing alone", theirs=idle),
        Figure("memory at its peak", peak, "MiB", goal=150),
    ]


async def _scan(store: LiveStore) -> None:
    configuration = Configuration()
    scanned = await Scan(store, configuration, today=datetime.now(UTC).date()).run()
    assert scanned.result.objects >= OBJECTS + PROJECTS
    assert len(scanned.result.findings) >= OBJECTS // 10


async def _list(store: LiveStore) -> None:
    """The same kinds in the same pages, and nothing done with them."""
    listing = Listing(store, HOME, [])
    count = 0
    for resource in (APP_PROJECTS, SECRETS, SERVICE_ACCOUNTS, APPLICATIONS, APPLICATION_SETS):
        async for items in listing.pages(resource):
            count += len(items)
    assert count >= OBJECTS + PROJECTS


async def _processor(measured: Callable[[], Awaitable[Any]]) -> float:
    started = time.process_time()
    await measured()
    return time.process_time() - started


async def _fill(store: LiveStore) -> None:
    await store.create(NAMESPACES, {"metadata": {"name": HOME}})
    await store.create(CONFIG_MAPS, {"metadata": {"name": "argocd-cm", "namespace": HOME}, "data": {}})
    gate = asyncio.Semaphore(AT_ONCE)

    async def create(resource: Any, body: Object) -> None:
        async with gate:
            await store.create(resource, body)

    async with asyncio.TaskGroup() as group:
        for number in range(PROJECTS):
            group.create_task(create(APP_PROJECTS, project(number)))
        for number in range(OBJECTS):
            group.create_task(create(APPLICATIONS, application(number)))


def _peak(kubeconfig: str) -> float:
    """MiB of the command in a process of its own; getrusage would count what forked it."""
    code = (
        "import sys\nfrom cli.commands.scan import command\n"
        "try:\n    command(sys.argv[1:])\nexcept SystemExit:\n"
        "    print(open('/proc/self/status').read().partition('VmHWM:')[2].split()[0])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "--kubeconfig", kubeconfig],
        capture_output=True,
        text=True,
        check=True,
        timeout=WITHIN,
    )
    return float(done.stdout.splitlines()[-1]) / 1024
