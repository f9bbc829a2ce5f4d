"""The acceptance script on local API servers, with every process under the account and rights of the manifests."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from scripts.acceptance.clusters import Place, until
from scripts.acceptance.steps import NAME
from scripts.cluster.controlplane import Cluster
from scripts.cluster.testing import Clusters
from tests.webhook.conftest import ROOT, free_port
from tests.webhook.guard import Guard, environment

MANIFESTS = ROOT / "manifests" / "overlays"
AGENT = "prod"


@contextmanager
def installed(cluster: Cluster, overlay: str) -> Iterator[None]:
    cluster.create_namespace("argocd")
    cluster.kubectl("apply", "--server-side", "-k", str(MANIFESTS / overlay))
    try:
        yield
    finally:
        cluster.kubectl("delete", "--wait=false", "-k", str(MANIFESTS / overlay))
        for namespace in ("tiphys-system", "argocd", AGENT, NAME):
            cluster.kubectl("delete", "namespace", namespace, "--ignore-not-found", "--wait=false")
            cluster.drop_namespace(namespace)


@contextmanager
def sidecar(role: str, cluster: Cluster, *words: str, folder: Path) -> Iterator[Path]:
    """`tiphys principal` or `tiphys agent`; yields its log."""
    account = cluster.kubeconfig_of_account(f"tiphys-{role}", namespace="argocd")
    log = folder / f"{role}.log"
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "cli", role, "--kubeconfig", str(account)),
            *("--metrics-port", str(free_port()), "--healthz-port", str(free_port())),
            *words,
        ],
        stderr=log.open("wb"),
        env=environment(),
        cwd=ROOT,
    )
    try:
        yield log
        assert process.poll() is None, log.read_text()
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=30)
        finally:
            process.kill()
            process.wait(timeout=10)


def tiphys(cluster: Cluster, *words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cli", *words, "--kubeconfig", str(cluster.kubeconfig)],
        env=environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def certificates(control_plane: Cluster, workload: Cluster, *, folder: Path) -> None:
    """By the commands that the docs name."""
    tiphys(control_plane, "pki", "init")
    tiphys(control_plane, "pki", "issue", "principal", "--dns", "localhost")
    tiphys(control_plane, "agents", "create", AGENT, "--create-namespace")
    tiphys(control_plane, "pki", "issue", "agent", AGENT, "--output", str(folder))
    secret = ("create", "secret", "--namespace", "argocd")
    pair = (f"--cert={folder / 'tls.crt'}", f"--key={folder / 'tls.key'}")
    workload.kubectl(*secret, "tls", "argocd-agent-client-tls", *pair)
    workload.kubectl(*secret, "generic", "argocd-agent-ca", f"--from-file=ca.crt={folder / 'ca.crt'}")


def test_an_installation_passes_the_acceptance_script(clusters: Clusters, tmp_path: Path) -> None:
    control_plane, workload, port = clusters.control_plane, clusters.workload, free_port()
    with ExitStack() as stack:
        stack.enter_context(installed(control_plane, "control-plane"))
        stack.enter_context(installed(workload, "workload-managed"))
        certificates(control_plane, workload, folder=tmp_path)
        guard = Guard(
            cluster=control_plane,
            folder=tmp_path,
            home="tiphys-system",
            argocd="argocd",
            kubeconfig=control_plane.kubeconfig_of_account("tiphys-webhook", namespace="tiphys-system"),
        ).start()
        stack.callback(guard.stop)
        listening = ("--listen-host", "localhost", "--listen-port", str(port), "--allowed-namespaces", "*")
        principal = stack.enter_context(sidecar("principal", control_plane, *listening, folder=tmp_path))
        dialling = ("--agent-mode", "managed", "--server-address", "localhost", "--server-port", str(port))
        agent = stack.enter_context(sidecar("agent", workload, *dialling, folder=tmp_path))

        done = subprocess.run(
            [
                *(
                    sys.executable,
                    "-m",
                    "scripts.acceptance",
                    "--kubectl",
                    str(control_plane.binaries.kubectl),
                ),
                *("--kubeconfig", str(control_plane.kubeconfig), "--url", guard.url),
                *("--workload", str(workload.kubeconfig), "--agent", AGENT),
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )

        logs = f"{principal.read_text()}\n{agent.read_text()}"
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{logs}"
        passed = [line.split()[:2] for line in done.stdout.splitlines()]
        steps = ["register", "deny", "warn", "mutate", "inject", "stream", "rotate", "unregister"]
        assert passed == [[step, "ok"] for step in steps]
        for log in (guard.log, logs):
            assert "forbidden" not in log.lower()


def test_an_autonomous_agent_tells_of_what_it_has_and_carries_out_a_sync(
    clusters: Clusters, tmp_path: Path
) -> None:
    control_plane, workload, port = clusters.control_plane, clusters.workload, free_port()
    hub = Place(kubeconfig=control_plane.kubeconfig, kubectl=str(control_plane.binaries.kubectl))
    edge = Place(kubeconfig=workload.kubeconfig, kubectl=str(workload.binaries.kubectl))
    kinds = {"apiVersion": "argoproj.io/v1alpha1"}
    project = {**kinds, "kind": "AppProject", "metadata": {"name": "shop", "namespace": "argocd"}}
    application = {**kinds, "kind": "Application", "metadata": {"name": "web", "namespace": "argocd"}}
    spec = {
        "project": "shop",
        "source": {"repoURL": "https://git.example.org/web.git", "path": "."},
        "destination": {"server": "https://kubernetes.default.svc", "namespace": "web"},
    }
    with ExitStack() as stack:
        stack.enter_context(installed(control_plane, "control-plane"))
        stack.enter_context(installed(workload, "workload-autonomous"))
        certificates(control_plane, workload, folder=tmp_path)
        listening = ("--listen-host", "localhost", "--listen-port", str(port), "--allowed-namespaces", "*")
        principal = stack.enter_context(sidecar("principal", control_plane, *listening, folder=tmp_path))
        dialling = ("--agent-mode", "autonomous", "--server-address", "localhost", "--server-port", str(port))
        agent = stack.enter_context(sidecar("agent", workload, *dialling, folder=tmp_path))

        edge.must("apply", "-f", "-", stdin=json.dumps({**project, "spec": {"sourceRepos": ["*"]}}))
        edge.must("apply", "-f", "-", stdin=json.dumps({**application, "spec": spec}))
        until(lambda: hub.get("appproject", f"{AGENT}-shop", namespace="argocd"), what="the mirrored project")
        until(lambda: hub.get("application", "web", namespace=AGENT), what="the mirrored Application")
        operation = json.dumps({"operation": {"sync": {"revision": "main"}}})
        hub.must("patch", "application", "web", "--namespace", AGENT, "--type=merge", "--patch", operation)
        until(
            lambda: "operation" in (edge.get("application", "web", namespace="argocd") or {}),
            what="the operation on the agent's cluster",
        )
        assert "forbidden" not in f"{principal.read_text()}{agent.read_text()}".lower()


def test_a_step_that_fails_ends_the_script_and_says_why(cluster: Cluster, namespace: str) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "scripts.acceptance", "--kubectl", str(cluster.binaries.kubectl)),
            *("--kubeconfig", str(cluster.kubeconfig), "--namespace", namespace),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("register    FAILED: ")
    assert "Traceback" not in done.stderr


pytestmark = pytest.mark.timeout(240)  # two API servers and five processes
