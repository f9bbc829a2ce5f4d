"""Nothing of a local cluster outlives whoever started it."""

import itertools
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scripts.cluster import controlplane
from scripts.cluster.binaries import Binaries
from scripts.cluster.controlplane import API_SERVER, ETCD, Cluster, ClusterError
from scripts.cluster.definitions import find_definitions
from scripts.cluster.seeding import harvest, seed_folder
from scripts.ports import free_port
from tests.crowd import crowd

ROOT = Path(__file__).parents[2]
END_SECONDS = 60.0  # one or two where nobody else is at work

OWNER = """
import sys
from scripts.cluster.controlplane import Cluster
cluster = Cluster().start()
print(cluster.folder, *cluster.pids.values(), cluster.keeper_pid, flush=True)
sys.stdin.read()
"""


@contextmanager
def ending(*pids: int) -> Iterator[None]:
    """Leaving it waits until each of these processes, which are not our children, has ended."""
    handles = [os.pidfd_open(pid) for pid in pids]
    try:
        yield
        deadline = time.monotonic() + END_SECONDS
        for pid, handle in zip(pids, handles, strict=True):
            ended, _, _ = select.select([handle], [], [], max(0.0, deadline - time.monotonic()))
            assert ended, f"process {pid} still runs"
    finally:
        for handle in handles:
            os.close(handle)


@pytest.fixture
def owner(cluster_binaries: Binaries) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    yield process
    process.kill()
    process.communicate()


def pids_and_folder(owner: subprocess.Popen[str]) -> tuple[list[int], Path]:
    assert owner.stdout
    folder, *pids = owner.stdout.readline().split()
    return [int(pid) for pid in pids], Path(folder)


def test_everything_ends_when_its_owner_is_killed(owner: subprocess.Popen[str]) -> None:
    pids, folder = pids_and_folder(owner)
    assert len(pids) == 3

    with ending(*pids):
        owner.kill()

    assert not folder.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's death")
def test_servers_end_when_their_keeper_is_killed(owner: subprocess.Popen[str]) -> None:
    (*servers, keeper), _ = pids_and_folder(owner)

    with ending(*servers):
        os.kill(keeper, signal.SIGKILL)


def test_ctrl_c_ends_the_command_and_removes_its_folder(cluster_binaries: Binaries) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "scripts.cluster"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout
        lines = [process.stdout.readline() for _ in range(7)]
        [kubeconfig] = [line.split()[1] for line in lines if line.startswith("kubeconfig")]
        assert Path(kubeconfig).exists()

        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the whole foreground group

        assert process.wait(END_SECONDS) == 0
        assert not Path(kubeconfig).parent.exists()
    finally:
        process.kill()
        process.communicate()


def test_a_second_start_takes_less_than_ten_seconds_and_ends_at_once(cluster_binaries: Binaries) -> None:
    started = time.monotonic()
    with Cluster(binaries=cluster_binaries) as cluster:
        assert time.monotonic() - started < 10 * crowd()
        folder = cluster.folder
        ended = time.monotonic()
    assert time.monotonic() - ended < 3 * crowd()
    assert not folder.exists()


def test_a_killed_api_server_comes_back_with_what_was_stored(private_cluster: Cluster) -> None:
    namespace = private_cluster.create_namespace()

    private_cluster.kill_api_server()
    with pytest.raises(OSError, match="refused"):
        private_cluster.request("GET", "/readyz")
    private_cluster.start_api_server()

    assert private_cluster.request("GET", f"/api/v1/namespaces/{namespace}")["metadata"]["name"] == namespace
    assert private_cluster.request("GET", "/apis/argoproj.io/v1alpha1/appprojects")["items"] == []


def test_a_port_that_somebody_takes_in_the_last_moment_is_replaced(
    cluster_binaries: Binaries, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        occupied = taken.getsockname()[1]
        offers = itertools.chain([occupied], iter(free_port, None))
        monkeypatch.setattr(controlplane, "free_port", lambda: next(offers))

        with Cluster(binaries=cluster_binaries) as cluster:
            assert cluster.port != occupied
            assert cluster.kubectl("get", "namespaces").returncode == 0


def test_a_server_that_cannot_start_says_why(tmp_path: Path, cluster_binaries: Binaries) -> None:
    for name in (ETCD, "kubectl"):
        (tmp_path / name).symlink_to(cluster_binaries.folder / name)
    (tmp_path / API_SERVER).write_text("#!/bin/sh\necho out of steam\nexit 3\n")
    (tmp_path / API_SERVER).chmod(0o755)

    with pytest.raises(ClusterError, match="kube-apiserver ended with 3 while starting: out of steam"):
        Cluster(binaries=Binaries(tmp_path, "a test")).start()


def test_a_seeded_cluster_has_the_definitions_and_an_identity_of_its_own(
    cluster_binaries: Binaries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    definitions = find_definitions()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("scripts.cluster.controlplane.find_definitions", lambda: definitions)
    seed = seed_folder(cluster_binaries, definitions)
    seed.parent.mkdir(parents=True)
    first = Cluster(binaries=cluster_binaries).start()
    identity = identity_of(first)

    harvest(first, seed)

    assert not first.folder.exists()
    with Cluster(binaries=cluster_binaries) as second:
        assert identity_of(second) != identity
        found = second.request("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]
        assert len(found) == len(definitions.objects)
        assert second.request("GET", "/apis/argoproj.io/v1alpha1/appprojects")["items"] == []


def identity_of(cluster: Cluster) -> str:
    uid: str = cluster.request("GET", "/api/v1/namespaces/kube-system")["metadata"]["uid"]
    return uid
