"""Where no API server can be had, tests on one are skipped aloud, or fail if that is asked for."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_a_cluster_test(tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    one = "tests/cluster/test_applying.py::test_an_awaited_kubectl_leaves_the_loop_free"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", one]
    without = {name: value for name, value in os.environ.items() if name != "TIPHYS_REQUIRE_CLUSTER"}
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**without, "KUBEBUILDER_ASSETS": str(tmp_path), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_without_an_api_server_one_loud_line_tells_of_the_skipped_tests(tmp_path: Path) -> None:
    done = run_a_cluster_test(tmp_path)

    assert done.returncode == 0
    assert "1 skipped" in done.stdout
    assert done.stdout.count("TESTS ON A REAL API SERVER SKIPPED: 1;") == 1


def test_without_an_api_server_that_is_required_they_fail(tmp_path: Path) -> None:
    done = run_a_cluster_test(tmp_path, TIPHYS_REQUIRE_CLUSTER="1")

    assert done.returncode == 1
    assert f"KUBEBUILDER_ASSETS={tmp_path} has no etcd, kube-apiserver, kubectl" in done.stdout
