"""What the webhook adds to `create` of an AppProject on a real API server: the same call, registered and not."""

import contextlib
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from scripts.bench.figures import Figure
from scripts.bench.rules import project
from scripts.cluster.controlplane import Cluster
from scripts.ports import free_port

NAME = "create of an AppProject on a real API server, with the webhook and without"
CREATES = 150
START_SECONDS = 60.0


@contextlib.contextmanager
def webhook(cluster: Cluster, *, home: str, argocd: str) -> Iterator[list[str]]:
    """`tiphys webhook` as a process; hands out the beginning of commands that talk about it."""
    port, probes, pages = free_port(), free_port(), free_port()
    tiphys = [sys.executable, "-m", "cli", "webhook", "--namespace", home, "--argocd-namespace", argocd]
    tiphys += ["--kubeconfig", str(cluster.kubeconfig)]
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [
                *(*tiphys, "--host", "127.0.0.1", "--port", str(port), "--drain-seconds", "0"),
                *("--probes-host", "127.0.0.1", "--probes-port", str(probes), "--pages-port", str(pages)),
                *("--runtime-folder", folder),
            ],
            stderr=subprocess.DEVNULL,
        )
        try:
            _wait(f"http://127.0.0.1:{probes}/readyz", process)
            yield [*tiphys, f"https://localhost:{port}"]
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)


def _wait(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5):  # noqa: S310 - our own pages
            return
        time.sleep(0.1)
    raise RuntimeError("the webhook did not become ready")


def creating(cluster: Cluster, namespace: str, prefix: str) -> list[float]:
    body, path, seconds = project(), f"/apis/argoproj.io/v1alpha1/namespaces/{namespace}/appprojects", []
    for number in range(CREATES):
        name = f"{prefix}-{number}"
        policies = [
            {**role, "policies": [line.replace("shop", name) for line in role["policies"]]}
            for role in body["spec"]["roles"]
        ]
        thing = {**body, "metadata": {"name": name}, "spec": {**body["spec"], "roles": policies}}
        begin = time.perf_counter()
        cluster.request("POST", path, thing)
        seconds.append(time.perf_counter() - begin)
    return seconds


def run() -> list[Figure]:
    os.environ.setdefault("PYTHONPATH", str(Path.cwd()))
    with Cluster(name="bench") as cluster:
        home, argocd = cluster.create_namespace(), cluster.create_namespace()
        with webhook(cluster, home=home, argocd=argocd) as (*tiphys, url):
            creating(cluster, argocd, "warm")
            without = creating(cluster, argocd, "without")
            subprocess.run([*tiphys, "register", "--url", url], check=True, stdout=subprocess.DEVNULL)
            creating(cluster, argocd, "warmer")
            with_it = creating(cluster, argocd, "with")
            subprocess.run([*tiphys, "unregister"], check=True, stdout=subprocess.DEVNULL)
    than = "without the webhook"
    return [
        Figure(
            "create, median", statistics.median(with_it) * 1000, "ms", than, statistics.median(without) * 1000
        ),
        Figure("create, p99", _p99(with_it), "ms", than, _p99(without)),
        Figure(
            "added by the webhook", (statistics.median(with_it) - statistics.median(without)) * 1000, "ms"
        ),
    ]


def _p99(seconds: list[float]) -> float:
    return sorted(seconds)[int(len(seconds) * 0.99)] * 1000
