"""From nothing to guarded and back, through `tiphys webhook` and kubectl on a real API server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.cluster.controlplane import Cluster
from scripts.cluster.testing import Kubectl
from tests.webhook.webhook_process import Guard

BAD = """
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: bad}
spec:
  sourceRepos: ["!*"]
  destinations: [{server: "!*", namespace: a}]
"""
GOOD = BAD.replace("!*", "https://example.test")


@pytest.fixture
def guard(cluster: Cluster, tmp_path: Path) -> Iterator[Guard]:
    home, argocd = cluster.create_namespace(), cluster.create_namespace()
    guard = Guard(cluster=cluster, folder=tmp_path, home=home, argocd=argocd)
    yield guard
    guard.unregister()
    if guard.process is not None:
        guard.stop()
    for namespace in (home, argocd):
        cluster.drop_namespace(namespace)


def test_a_bad_project_is_refused_with_all_findings_and_passes_after_unregister(
    guard: Guard, kubectl: Kubectl
) -> None:
    apply = ("apply", "-n", guard.argocd, "-f", "-")
    guard.start()
    assert kubectl(*apply, "--dry-run=server", stdin=BAD).returncode == 0
    guard.register()
    refused = kubectl(*apply, stdin=BAD, check=False)
    assert refused.returncode != 0
    assert "Tiphys refuses this AppProject bad: 2 findings" in refused.stderr
    assert "spec.sourceRepos[0]" in refused.stderr
    assert "spec.destinations[0].server" in refused.stderr
    assert kubectl(*apply, stdin=GOOD).returncode == 0
    status = guard.status()
    assert status["guarded"], status
    assert status["probe"] == "refused by Tiphys"
    assert status["problems"] == []
    removed = guard.tiphys("webhook", "unregister").stdout
    assert "removed ValidatingWebhookConfiguration tiphys" in removed
    assert kubectl(*apply, stdin=BAD).returncode == 0
    assert not guard.status()["guarded"]
    assert "nothing was registered" in guard.tiphys("webhook", "unregister").stdout
    assert guard.stop() == 0


def test_register_waits_for_a_server_and_refuses_argo_cds_namespace(guard: Guard) -> None:
    early = guard.tiphys("webhook", "register", check=False)
    assert early.returncode == 2
    assert "no webhook has started yet" in early.stderr
    guard.home, home = guard.argocd, guard.home
    wrong = guard.tiphys("webhook", "register", check=False)
    guard.home = home
    assert wrong.returncode == 2
    assert "cannot live in Argo CD's namespace" in wrong.stderr
