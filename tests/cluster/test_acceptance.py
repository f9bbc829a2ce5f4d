"""The acceptance script on local API servers, with every process under the account and rights of the manifests."""

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from scripts.acceptance.clusters import Place, until
from scripts.cluster.controlplane import Cluster
from scripts.cluster.testing import Clusters
from scripts.ports import free_port
from tests.cluster.installation import AGENT, certificates, installed, sidecar, with_injection
from tests.webhook.conftest import ROOT
from tests.webhook.webhook_process import Guard


def test_an_installation_passes_the_acceptance_script(clusters: Clusters, tmp_path: Path) -> None:
    control_plane, workload, port = clusters.control_plane, clusters.workload, free_port()
    with ExitStack() as stack:
        own = with_injection(tmp_path / "own", "control-plane", image="images.example.org/tiphys:0.1.0")
        stack.enter_context(installed(control_plane, own))
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
        guard.kubeconfig = None  # an admin registers, and takes it out where the script does not come to that
        stack.callback(guard.unregister)
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
