"""`tiphys demo --cluster --argocd`: the same story, and an Application that a real Argo CD syncs."""

import json
import re
import subprocess
import urllib.request
from pathlib import Path

import pytest

from scripts.cluster.argocd.programs import Programs
from scripts.cluster.binaries import Binaries
from tests.cli.commands.test_demo import FAREWELL, GOLDEN
from tests.cluster.test_demo_on_clusters import demonstration, interrupt, left_behind, steps, told_until
from tests.webhook.guarded_cluster import until

SYNCED = """
13. An Application of the control plane is really synced, by the Argo CD of prod.
      appproject shop: stored on control-plane
      application shop: stored on control-plane
   What is in Git is on prod:
      configmap: prices
      data:
        tea: '3'
   And the control plane knows:
      sync: Synced
"""

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a short name: sockets are made in it."""
    return tmp_path_factory.mktemp("demo")


def test_it_ends_with_an_application_that_is_synced(
    argocd_programs: Programs, cluster_binaries: Binaries, folder: Path
) -> None:
    with demonstration(folder, "--argocd") as process:
        told = told_until(process, "until Ctrl-C")
        story = GOLDEN.read_text().removesuffix(FAREWELL)
        assert steps(told) == [*steps(story), *SYNCED.splitlines()]
        found = re.search(r"Argo CD: (http://\S+), user admin", told)
        assert found
        with urllib.request.urlopen(f"{found[1]}/healthz", timeout=10) as answer:
            assert answer.status == 200
        [kubeconfig] = re.findall(r"^  prod +(\S+)$", told, re.MULTILINE)
        application = subprocess.run(
            [
                *(cluster_binaries.kubectl, f"--kubeconfig={kubeconfig}", "--namespace=argocd"),
                *("get", "application", "shop", "--output=json"),
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
            env={"HOME": "/nonexistent"},
        )
        assert json.loads(application.stdout)["status"]["operationState"]["phase"] == "Succeeded"

        rest, errors = interrupt(process)
    assert (rest, errors) == (FAREWELL, "")
    assert process.returncode == 0
    assert left_behind(folder) == []


def test_ctrl_c_while_argo_cd_starts_leaves_nothing_behind(argocd_programs: Programs, folder: Path) -> None:
    with demonstration(folder, "--argocd") as process:
        told_until(process, "Four clusters")
        until(lambda: list(folder.glob("*/argo-cd")), what="Argo CD is being started")
        rest, errors = interrupt(process)
    assert errors == ""
    assert rest.endswith(FAREWELL)
    assert left_behind(folder) == []
