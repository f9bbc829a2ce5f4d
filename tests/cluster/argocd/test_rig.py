"""The rig itself: all of it, its end with whoever started it, and what is said without Redis."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.cluster.argocd.components import EVERYTHING, REDIS
from scripts.cluster.argocd.installation import ArgoCd
from scripts.cluster.argocd.programs import (
    CONTROLLER_MANAGER,
    NoArgoCdError,
    Programs,
    argocd_version,
    find_programs,
)
from scripts.cluster.argocd.usage import usage_table
from scripts.cluster.binaries import Binaries
from scripts.cluster.controlplane import API_SERVER, ETCD
from tests.cluster.test_ending import ending

MOST_MIB = 2_000  # of one process, of all twice as much: about 1 GiB at work
MOST_SECONDS = 240.0  # 25 on an idle machine
ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.timeout(300)


def test_all_components_run_and_each_tells_what_it_costs(argo_cd: ArgoCd) -> None:
    names = {*map(str, EVERYTHING), REDIS, CONTROLLER_MANAGER, API_SERVER, ETCD}
    assert set(argo_cd.cluster.pids) == names
    table = usage_table(argo_cd)
    for name in names:
        [line] = [line for line in table if line.startswith(f"{name} ")]
        assert 0 < figure(line, "MiB") < MOST_MIB
    assert table[-1].startswith("together ")
    assert 0 < figure(table[-1], "s") < MOST_SECONDS
    assert 0 < figure(table[-1], "MiB") < 2 * MOST_MIB


def figure(line: str, unit: str) -> float:
    """0 where the line has none of this unit."""
    words = line.split()
    return float(words[words.index(unit) - 1]) if unit in words else 0.0


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a short name: sockets are made in it."""
    return tmp_path_factory.mktemp("rig")


def test_the_command_of_make_cluster_tells_how_to_reach_all_of_it_and_killed_it_leaves_nothing(
    argocd_programs: Programs, cluster_binaries: Binaries, folder: Path
) -> None:
    """As `make cluster ARGS=--argocd` starts it."""
    owner = subprocess.Popen(
        [sys.executable, "-m", "scripts.cluster", "--argocd"],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert owner.stdout
        told: dict[str, str] = {}
        for line in owner.stdout:
            key, _, rest = line.strip().partition(" ")
            told[key] = rest.strip()
            if line.startswith("It ends with Ctrl-C"):
                break
        assert argocd_version() in told["definitions"]
        assert "user admin" in told["Argo"]
        assert Path(told["kubeconfig"].split()[-1]).is_file()
        assert 0 < figure(f"together {told['together']}", "s") < MOST_SECONDS
        started = below(owner.pid)
        assert (
            len(started) == len(EVERYTHING) + 5
        )  # with Redis, three of Kubernetes and the keeper of them all

        with ending(*started):
            owner.kill()

        assert not list(folder.iterdir())
    finally:
        owner.kill()
        owner.communicate()


def below(pid: int) -> list[int]:
    """The processes that this one has started, and theirs."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    children = [child for child, parent in parents.items() if parent == pid]
    return [*children, *(grandchild for child in children for grandchild in below(child))]


def test_the_command_line_is_logged_in_and_the_password_is_in_a_private_file(argo_cd: ArgoCd) -> None:
    assert "Username: admin" in argo_cd.cli("account", "get-user-info").stdout
    assert argo_cd.password_file.stat().st_mode & 0o077 == 0


def run_one(tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """On a machine without redis-server."""
    (tmp_path / "git").symlink_to("/bin/true")
    one = (
        f"{Path(__file__).relative_to(ROOT)}::{test_all_components_run_and_each_tells_what_it_costs.__name__}"
    )
    without = {name: value for name, value in os.environ.items() if name != "TIPHYS_REQUIRE_CLUSTER"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", one],
        cwd=ROOT,
        env={**without, "PATH": str(tmp_path), **environment},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )


def test_without_redis_one_loud_line_tells_of_the_skipped_tests(tmp_path: Path) -> None:
    done = run_one(tmp_path)

    assert done.returncode == 0, done.stdout
    assert done.stdout.count("TESTS ON A REAL ARGO CD SKIPPED: 1;") == 1
    assert "no redis-server: apt-get install redis-server git" in done.stdout


def test_without_redis_that_is_required_they_fail(tmp_path: Path) -> None:
    done = run_one(tmp_path, TIPHYS_REQUIRE_CLUSTER="1")

    assert done.returncode == 1
    assert "no real Argo CD, and TIPHYS_REQUIRE_CLUSTER=1: no redis-server" in done.stdout


def test_without_both_programs_the_error_names_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(NoArgoCdError, match="no redis-server and no git"):
        find_programs()
