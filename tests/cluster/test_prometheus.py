"""A real Prometheus scrapes webhook, principals and agent: it evaluates every query of the dashboards and every alert."""

import asyncio
import contextlib
import json
import re
import shutil
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube.embedded import AdmissionRequest, Admitted, EmbeddedStore, Hooks
from kube.errors import InvalidError
from kube.resources import APP_PROJECTS, APPLICATIONS
from scripts.cluster.controlplane import Cluster
from scripts.ports import free_port
from tests.house.test_alert_rules import rule_files
from tests.house.test_monitoring import DASHBOARDS, alerts, metrics_of
from tests.sidecars import processes
from tests.sidecars.pair_in_memory import ARGOCD, Hub, application, project, until
from tests.sidecars.replication.paired_principals import FencedStore, regions
from tests.webhook.conftest import post, read_response, review
from tests.webhook.webhook_process import Guard

PROMETHEUS = shutil.which("prometheus")
pytestmark = [
    pytest.mark.skipif(PROMETHEUS is None, reason="no Prometheus: apt-get install prometheus"),
    pytest.mark.timeout(300),
]

AGENT, REFUSED = "agent-a", "refused"
WEBHOOK, PRINCIPAL, AGENTS = "tiphys-webhook", "argocd-agent-principal-metrics", "agents"
"""A job is named as the Service is that the ServiceMonitor selects; agents' clusters have Prometheuses of their own."""
PATIENCE = 60.0
NOTHING_TO_SHOW = {"New certificates"}
"""Panels that a good day leaves empty, and that this one does not provoke."""

Answer = dict[str, Any]


class Prometheus:
    def __init__(self, port: int) -> None:
        self._address = f"http://127.0.0.1:{port}"

    def ask(self, path: str, **query: str) -> Any:
        """What it answers, an error as an assertion with its text."""
        address = f"{self._address}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(address, timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            if error.code == HTTPStatus.SERVICE_UNAVAILABLE:
                raise  # it starts
            raise AssertionError(f"{query}: {error.read().decode()}") from None

    def result(self, expression: str) -> list[Answer]:
        found: list[Answer] = self.ask("query", query=expression)["result"]
        return found

    async def until(self, condition: Callable[[], Any], what: str) -> Any:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            with contextlib.suppress(urllib.error.URLError, ConnectionError):
                if found := await asyncio.to_thread(condition):
                    return found
            await asyncio.sleep(0.2)
        raise AssertionError(f"Prometheus does not show {what}")


@contextmanager
def prometheus(folder: Path, targets: dict[str, list[int]]) -> Iterator[Prometheus]:
    assert PROMETHEUS
    jobs = [
        {"job_name": job, "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in ports]}]}
        for job, ports in targets.items()
    ]
    every = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config = {"global": every, "rule_files": rule_files(folder), "scrape_configs": jobs}
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    port, log = free_port(), folder / "prometheus.log"
    process = subprocess.Popen(
        [
            PROMETHEUS,
            *("--config.file", str(folder / "prometheus.yaml"), "--storage.tsdb.path", str(folder / "data")),
            *("--web.listen-address", f"127.0.0.1:{port}", "--log.level", "warn"),
        ],
        stdout=log.open("wb"),
        stderr=subprocess.STDOUT,
    )
    try:
        yield Prometheus(port)
        assert process.poll() is None, log.read_text()
    finally:
        process.terminate()
        process.wait(timeout=30)


@contextmanager
def denying_webhook(cluster: Cluster, folder: Path) -> Iterator[int]:
    """A process that has refused a project and a call; its metrics port."""
    home, argocd = cluster.create_namespace(), cluster.create_namespace()
    guard = Guard(cluster=cluster, folder=folder, home=home, argocd=argocd).start()
    try:
        thing = {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "AppProject",
            "metadata": {"name": "bad", "namespace": argocd},
            "spec": {"sourceRepos": ["!*"]},
        }
        assert b"project/source-repo-format" in _posted(guard, review(object=thing, name="bad"), status=200)
        _posted(guard, b"no review", status=400)
        yield guard.probes
    finally:
        guard.stop()
        for namespace in (home, argocd):
            cluster.drop_namespace(namespace)


def _posted(guard: Guard, body: bytes, *, status: int) -> bytes:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    plain = socket.create_connection(("127.0.0.1", guard.port), timeout=10)
    with context.wrap_socket(plain) as connection:
        connection.sendall(post("/validate", body))
        answered, _, told = read_response(connection)
    assert answered == status, told
    return told


@asynccontextmanager
async def busy_pair() -> AsyncIterator[tuple[list[int], int, Callable[[int], Any]]]:
    """The metrics ports of two principals and an agent, and what makes new changes. All three are in this process and share
    counters; gauges are those of whom is asked.
    """

    async def refuse(request: AdmissionRequest) -> Admitted:
        if request.name.startswith(REFUSED):
            raise InvalidError("spec: never")
        return Admitted()

    hub, workload = FencedStore(), EmbeddedStore(namespaces=[ARGOCD], hooks=Hooks(admission=refuse))
    await Hub(hub).know(AGENT)
    async with regions(hub, FencedStore()) as (one, two):
        one.settings |= {"app_info_limit": 10}
        await asyncio.gather(one.start(), two.start())
        await one.until("active")
        await two.until("replicating")
        assert one.process
        assert two.process
        async with processes.connected_agent(workload, one.pki, name=AGENT, port=one.port) as agent:
            await hub.create(APP_PROJECTS, project(), namespace=ARGOCD)

            async def change(number: int) -> None:
                for name in (f"shop-{number}", f"{REFUSED}-{number}"):
                    await hub.create(APPLICATIONS, application(name), namespace=AGENT)
                await until(workload, APPLICATIONS, lambda there: f"shop-{number}" in there)

            ports = [one.process.metrics.port, two.process.metrics.port]
            yield ports, agent.metrics.port, change


def queries() -> list[tuple[str, str, str]]:
    """Panel, query and legend, each as Grafana takes them."""
    panels = [panel for path in DASHBOARDS for panel in json.loads(path.read_text())["panels"]]
    return [
        (panel["title"], each["expr"], each["legendFormat"]) for panel in panels for each in panel["targets"]
    ]


def jobs_of_alerts() -> set[str]:
    return {job for alert in alerts() for job in re.findall(r'job="([^"]+)"', alert["expr"])}


async def test_every_query_and_alert_is_evaluated_and_every_panel_shows_something(
    cluster: Cluster, tmp_path: Path
) -> None:
    folder = tmp_path / "prometheus"
    folder.mkdir()
    with denying_webhook(cluster, tmp_path) as webhook:
        async with busy_pair() as (principals, agent, change):
            targets = {WEBHOOK: [webhook], PRINCIPAL: principals, AGENTS: [agent]}
            assert jobs_of_alerts() <= set(targets)
            with prometheus(folder, targets) as server:
                await server.until(lambda: len(server.result("up == 1")) == 4, "four targets that are up")
                for number in range(2):  # rates need a first value and another
                    await change(number)
                    seen = f"count(argocd_app_info) >= {2 * number + 2}"
                    await server.until(lambda seen=seen: server.result(seen), seen)  # type: ignore[misc]
                known = await asyncio.to_thread(server.ask, "metadata")
                for title, expression, legend in queries():
                    unknown = [each for each in metrics_of(expression) if not _is_known(each, known)]
                    assert unknown == [], title
                    if title in NOTHING_TO_SHOW:
                        await asyncio.to_thread(server.result, expression)
                        continue
                    found = await server.until(
                        lambda expression=expression: server.result(expression),  # type: ignore[misc]
                        f"{title}: {expression}",
                    )
                    for label in re.findall(r"{{(\w+)}}", legend):
                        assert all(label in each["metric"] for each in found), (title, label)
                rules = await server.until(lambda: _evaluated(server), "evaluated rules")
                assert {rule["name"]: rule.get("lastError") for rule in rules} == {
                    alert["alert"]: None for alert in alerts()
                }


def _is_known(metric: str, known: dict[str, Any]) -> bool:
    return metric in known or metric.removesuffix("_total") in known


def _evaluated(server: Prometheus) -> list[Answer]:
    rules = [rule for group in server.ask("rules")["groups"] for rule in group["rules"]]
    return rules if rules and all(rule["health"] != "unknown" for rule in rules) else []
