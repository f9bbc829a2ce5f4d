"""Strangers do their worst while kubectl applies projects: nothing is refused, probes answer, memory is bounded."""

import json
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from scripts.cluster.controlplane import Cluster
from tests.argocd.costly_objects import ORDINARY
from tests.webhook.conftest import ROOT
from tests.webhook.webhook_process import Guard, environment

PROJECTS = 200
PROBE_SECONDS = 1.0
"""What the kubelet waits, and half of how often it asks."""
FAILURES = 3
"""In a row: then the kubelet takes a replica out of service."""

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def guard(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guard]:
    """Two workers of its own: what strangers leave behind is for no other test."""
    home, argocd = cluster.create_namespace(), cluster.create_namespace()
    guard = Guard(cluster=cluster, folder=tmp_path_factory.mktemp("strangers"), home=home, argocd=argocd)
    guard.start().register()
    yield guard
    guard.unregister()
    guard.stop()
    for namespace in (home, argocd):
        cluster.drop_namespace(namespace)


@dataclass
class Watch:
    """Looks at memory and probes as the kubelet does, until it is ended."""

    guard: Guard
    most_mebibytes: float = 0.0
    probes: int = 0
    in_a_row: dict[str, int] = field(default_factory=dict)
    worst_row: int = 0
    _ending: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def watching(self) -> Iterator[None]:
        thread = threading.Thread(target=self._watch)
        thread.start()
        try:
            yield
        finally:
            self._ending.set()
            thread.join()

    def _watch(self) -> None:
        while not self._ending.wait(PROBE_SECONDS / 2):
            self.most_mebibytes = max(self.most_mebibytes, self._mebibytes())
            for path in ("/healthz", "/readyz"):
                self.probes += 1
                self.in_a_row[path] = 0 if self._answers(path) else self.in_a_row.get(path, 0) + 1
                self.worst_row = max(self.worst_row, self.in_a_row[path])

    def _answers(self, path: str) -> bool:
        url = f"http://127.0.0.1:{self.guard.probes}{path}"
        try:
            with urllib.request.urlopen(url, timeout=PROBE_SECONDS) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _mebibytes(self) -> float:
        """Of all its processes, what they share counted once."""
        assert self.guard.process is not None
        return sum(proportional_kibibytes(pid) for pid in family(self.guard.process.pid)) / 1024


def family(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(each for child in children for each in family(int(child)))]


def proportional_kibibytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0  # it has just ended
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def ran_and_waited(pids: list[int]) -> tuple[float, float]:
    """Seconds that processes had of a processor, and that they were ready and other programs had it."""
    ran = waited = 0
    for pid in pids:
        nanoseconds = Path(f"/proc/{pid}/schedstat").read_text().split()
        ran, waited = ran + int(nanoseconds[0]), waited + int(nanoseconds[1])
    return ran / 1e9, waited / 1e9


@contextmanager
def strangers(guard: Guard, done: dict[str, int]) -> Iterator[None]:
    ports = (str(guard.port), str(guard.probes), str(guard.pages))
    process = subprocess.Popen(
        # They have processors of their own.
        ["nice", "-n", "19", sys.executable, "-m", "tests.webhook.server.strangers", *ports],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment(),
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "under way\n"
        yield
        done.update(json.loads(process.communicate(timeout=60)[0]))
    finally:
        process.kill()
        process.wait(timeout=10)


def applied(guard: Guard, prefix: str) -> None:
    spec = {
        "sourceRepos": ["https://example.test/a"],
        "destinations": [{"server": "https://kubernetes.default.svc", "namespace": "web"}],
    }
    things = [
        {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "AppProject",
            "metadata": {"name": f"{prefix}-{number}"},
            "spec": spec,
        }
        for number in range(PROJECTS)
    ]
    # One that takes long, so that the API server's own address is known for it.
    large = {**things[0], "metadata": {"name": f"{prefix}-large"}, "spec": ORDINARY["destinations"]["spec"]}
    path = f"/apis/argoproj.io/v1alpha1/namespaces/{guard.argocd}/appprojects"
    guard.cluster.request("POST", path, large)
    told = guard.cluster.kubectl(
        *("apply", "-n", guard.argocd, "-f", "-"), stdin=yaml.safe_dump_all(things), timeout=300
    )
    assert told.stdout.count(" created") == PROJECTS


def durations(cluster: Cluster) -> dict[float, float]:
    """How many calls of our webhooks took how long at most, by the API server's own metric."""
    text = cluster.kubectl("get", "--raw", "/metrics").stdout
    found: dict[float, float] = {}
    for metric in text_string_to_metric_families(text):
        if metric.name != "apiserver_admission_webhook_admission_duration_seconds":
            continue
        for sample in metric.samples:
            if sample.name.endswith("_bucket") and sample.labels["name"].endswith("tiphys.dev"):
                bound = float(sample.labels["le"])
                found[bound] = found.get(bound, 0) + sample.value
    return found


def quantile(before: dict[float, float], after: dict[float, float], share: float) -> float:
    """The bound below which that share of the calls between the two is, between its neighbours in proportion."""
    counts = {bound: after[bound] - before.get(bound, 0) for bound in sorted(after)}
    wanted, lower, below = max(counts.values()) * share, 0.0, 0.0
    for bound, count in counts.items():
        if count >= wanted:
            return lower + (bound - lower) * (wanted - below) / (count - below) if count > below else bound
        lower, below = bound, count
    return float("inf")


def test_projects_are_applied_while_strangers_do_their_worst(
    guard: Guard, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, watch, done = guard.cluster, Watch(guard), dict[str, int]()
    begin = durations(cluster)
    applied(guard, "calm")
    calm = durations(cluster)
    assert guard.process is not None
    webhook = family(guard.process.pid)
    before = ran_and_waited(webhook)
    with watch.watching(), strangers(guard, done):
        applied(guard, "stormy")
    stormy = durations(cluster)
    ran, waited = (later - earlier for later, earlier in zip(ran_and_waited(webhook), before, strict=True))
    deployment = yaml.safe_load((ROOT / "manifests/base/webhook/deployment.yaml").read_text())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    limit = int(container["resources"]["limits"]["memory"].removesuffix("Gi")) * 1024
    with capsys.disabled():
        sys.stdout.write(
            f"\np50 and p99 of the API server's calls, calm:"
            f" {quantile(begin, calm, 0.5) * 1000:.0f} and {quantile(begin, calm, 0.99) * 1000:.0f} ms;"
            f" among strangers: {quantile(calm, stormy, 0.5) * 1000:.0f}"
            f" and {quantile(calm, stormy, 0.99) * 1000:.0f} ms, while the webhook ran for {ran:.1f} s"
            f" and waited for a processor for {waited:.1f} s; memory {watch.most_mebibytes:.0f} of {limit} MiB;"
            f" {watch.probes} probes, {watch.worst_row} unanswered in a row at most; {done}\n"
        )
    assert min(done.values()) > 0
    assert watch.most_mebibytes < limit
    assert watch.probes > 10
    assert watch.worst_row < FAILURES
