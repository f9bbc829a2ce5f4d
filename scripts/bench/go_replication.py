"""argocd-agent's own pair as a benchmark of replication has ours: each side a process that can be away for a while."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from certs.authority import Authority, LeafSubject
from certs.key_pair import KeyPair
from scripts.argocd_agent import BINARY, principal_arguments
from scripts.bench.paired import AGENT
from scripts.bench.sidecar_processes import NAMESPACE
from scripts.cluster.controlplane import Cluster
from scripts.ports import free_port


class GoPair:
    def __init__(self, hub: Cluster, workload: Cluster, folder: Path) -> None:
        self._port = free_port()
        self._clusters = hub, workload
        self._folder = folder
        # A principal of a pair shows its certificate to its peer too.
        pair = KeyPair((folder / "ca.crt").read_bytes(), (folder / "ca.key").read_bytes())
        subject = LeafSubject("principal", dns_names=["localhost"], addresses=["127.0.0.1"])
        authority = Authority.from_pair(pair, origin="the benchmark")
        made = authority.issue(subject, now=datetime.now(UTC), server=True, client=True)
        (folder / "principal.crt").write_bytes(made.certificate)
        (folder / "principal.key").write_bytes(made.key)

    @contextmanager
    def primary(self) -> Iterator[int]:
        with self._principal(self._clusters[0], self._port, "--ha-preferred-role=primary") as pid:
            yield pid

    @contextmanager
    def standby(self) -> Iterator[int]:
        peer = f"--ha-peer-address=localhost:{self._port}"
        role = "--ha-preferred-role=replica"
        with self._principal(self._clusters[1], free_port(), role, peer) as pid:
            yield pid

    @contextmanager
    def _principal(self, cluster: Cluster, port: int, *words: str) -> Iterator[int]:
        allowed = f"{NAMESPACE},{AGENT}"
        arguments = principal_arguments(self._folder, cluster, NAMESPACE, port, allowed=allowed)
        pair = (
            "--ha-enabled",
            f"--ha-admin-port={free_port()}",
            "--ha-allowed-replication-clients=principal",
        )
        process = subprocess.Popen(
            [BINARY, *arguments, *pair, *words], stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
        )
        try:
            yield process.pid
        finally:
            process.kill()
            process.wait(timeout=10)
